"""Objects that tests of the cluster create."""

from __future__ import annotations

from typing import Any

from tests.cluster.rig.images import BUSYBOX

RESTRICTED_POD = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
RESTRICTED_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def container(registry: str, *command: str, **more: Any) -> dict[str, Any]:
    """A busybox container that the restricted Pod Security Standard admits."""
    image = f"{registry}/{BUSYBOX}"
    return {"name": "main", "image": image, "command": command, "securityContext": RESTRICTED_CONTAINER, **more}


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A Pod that ends at once when asked to."""
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(*containers, **spec)}


def pod_spec(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    ends_at_once = {"terminationGracePeriodSeconds": 0, "enableServiceLinks": False}
    return {"containers": containers, "securityContext": RESTRICTED_POD, **ends_at_once, **more}


def deployment(name: str, replicas: int, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec(*containers, **spec)}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": wanted}


def node_port_service(name: str, port: int) -> dict[str, Any]:
    """A Service before the Pods with that name as their label."""
    spec = {"type": "NodePort", "selector": {"app": name}, "ports": [{"port": port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def web(port: int) -> tuple[str, ...]:
    """The command of a web server that answers `/` with the name of its host."""
    return ("sh", "-c", f"mkdir /tmp/web && hostname >/tmp/web/index.html && exec httpd -f -p {port} -h /tmp/web")
