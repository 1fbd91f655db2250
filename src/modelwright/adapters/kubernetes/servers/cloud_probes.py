"""How the kubelet learns whether a server runs, and whether it answers."""

from __future__ import annotations

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers import catalogue
from modelwright.adapters.kubernetes.servers.catalogue import Runtime
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.ports.workloads import ModelServer, Server

PORT_NAME = "serving"


def probes(server: Server, program: ModelServer, runtime: Runtime, settings: ServerSettings) -> JSON:
    """Of a server with a model. It is looked at each second until it is ready for the first time, and is not ended for
    taking long before the rollout as a whole has taken too long."""
    number = next((each.number for each in program.versions if each.version == program.default), None)
    ready = catalogue.ready_path_of(runtime, model_name=program.model_name, number=number)
    live = catalogue.live_path_of(runtime, model_name=program.model_name)
    tls = bool(server.tls_secret) and runtime.secured
    return _probes(_asks(ready, tls=tls), _asks(live, tls=tls), settings)


def probes_of_port(settings: ServerSettings) -> JSON:
    """Of an image of which only its port is known."""
    return _probes(_asks(""), _asks(""), settings)


def _probes(ready: JSON, live: JSON, settings: ServerSettings) -> JSON:
    return {
        "startupProbe": {
            **ready,
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": max(1, settings.progress_deadline_seconds),
        },
        "readinessProbe": {**ready, "periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 3},
        # Slow is not dead: a server that is asked for more than it can do must not be ended for it.
        "livenessProbe": {**live, "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 6},
    }


def _asks(path: str, *, tls: bool = False) -> JSON:
    if not path:
        return {"tcpSocket": {"port": PORT_NAME}}
    return {"httpGet": {"path": path, "port": PORT_NAME, "scheme": "HTTPS" if tls else "HTTP"}}
