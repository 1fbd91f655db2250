"""Servers of the cloud and what is seen of them, as short as a table wants them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from modelwright.adapters.kubernetes.servers import cloud_objects
from modelwright.adapters.kubernetes.servers.catalogue_builtin import RuntimeImages, builtin
from modelwright.adapters.kubernetes.servers.cloud_status import Hint, Seen
from modelwright.adapters.kubernetes.servers.kinds import Deployment, Service
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads.kinds import Pod
from modelwright.ports.workloads import (
    Container,
    Download,
    Exposure,
    ModelImage,
    ModelServer,
    ModelSource,
    Owner,
    ServedVersion,
    Server,
)

JSON = dict[str, Any]
OWNER = Owner("sedna.io/v1alpha1", "InferenceModel", "vision", "resnet", "uid-1")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
IMAGES = RuntimeImages(onnx="hub.example.com/server-onnx:1", sklearn="hub.example.com/server-sklearn:1")
SETTINGS = ServerSettings(
    agent_image="hub.example.com/modelwright:1",
    gateway_image="hub.example.com/gateway:1",
    catalogue=builtin(IMAGES),
    plain_http=("lab.example.com:5000",),
    namespace="modelwright-system",
)
DOWNLOAD = Download("https://files.example.com/m.tar", "5" * 64)
IMAGE = ModelImage("hub.example.com/m@sha256:" + "5" * 64)


def model_server(source: ModelSource = DOWNLOAD, *, framework: str = "onnx", version: str = "v1") -> ModelServer:
    versions = (ServedVersion(version, 7, source),)
    return ModelServer(model_name="resnet", framework=framework, versions=versions, default=version)


def a_server(program: ModelServer | Container | None = None, **more: Any) -> Server:
    wanted = {"replicas": 1, "port": 8501, "exposure": Exposure(), **more}
    return Server(name="resnet-serve-1", owner=OWNER, program=program or model_server(), **wanted)


def rendered(server: Server, *, mounted: bool = False) -> JSON:
    return cloud_objects.deployment(server, SETTINGS, mounted=mounted)


def stored(body: JSON, *, generation: int = 1, **status: Any) -> Deployment:
    """The Deployment as the API server would have it."""
    metadata = {**body["metadata"], "uid": "d", "generation": generation, "resourceVersion": "5"}
    told = {"observedGeneration": generation, **status}
    return msgspec.convert({**body, "metadata": metadata, "status": told}, Deployment)


def stored_service(body: JSON, *, node_port: int = 0, ingress: list[JSON] | None = None) -> Service:
    spec = {**body["spec"], "ports": [{**body["spec"]["ports"][0], "nodePort": node_port}]}
    status = {"loadBalancer": {"ingress": ingress} if ingress is not None else {}}
    return msgspec.convert({**body, "spec": spec, "status": status}, Service)


def condition(type_: str, status: str = "True", reason: str = "", message: str = "") -> JSON:
    return {"type": type_, "status": status, "reason": reason, "message": message}


READY = [condition("Ready"), condition("ContainersReady")]
RUNNING: JSON = {"running": {}}


def ended(code: int, message: str = "", reason: str = "Error") -> JSON:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def waits(reason: str, message: str = "") -> JSON:
    return {"waiting": {"reason": reason, "message": message}}


def a_pod(
    body: JSON,
    *,
    name: str = "a",
    age: float = 60,
    node: str = "cloud-0",
    going: bool = False,
    fetch: JSON | None = None,
    server: JSON | None = None,
    last: JSON | None = None,
    conditions: list[JSON] | None = None,
    **status: Any,
) -> Pod:
    """A Pod of that Deployment. `fetch` and `server` are the states of its containers, `last` the server's before."""
    template = body["spec"]["template"]["metadata"]
    created = (NOW - timedelta(seconds=age)).isoformat()
    metadata = {**template, "name": name, "namespace": "vision", "uid": name, "creationTimestamp": created}
    metadata |= {"deletionTimestamp": created} if going else {}
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions or [])
    init = [{"name": "fetch", "state": fetch}] if fetch is not None else []
    main = {"name": "server", "state": server, "lastState": last or {}, "ready": ready, "restartCount": int(bool(last))}
    told = {
        "phase": "Running",
        "conditions": conditions or [],
        "initContainerStatuses": init,
        "containerStatuses": [main] if server is not None else [],
        **status,
    }
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": node}, "status": told}, Pod)


def a_ready_pod(body: JSON, **more: Any) -> Pod:
    return a_pod(body, server=RUNNING, conditions=READY, **more)


def seen(
    deployment: Deployment, *pods: Pod, service: Service | None = None, hints: dict[str, Hint] | None = None
) -> Seen:
    addresses = {"cloud-0": "192.0.2.10", "cloud-1": "192.0.2.11"}
    return Seen(
        deployment=deployment,
        service=service,
        pods=pods,
        hints=hints or {},
        address_of=lambda node: addresses.get(node, ""),
        cluster_domain="cluster.local",
        now=NOW,
    )
