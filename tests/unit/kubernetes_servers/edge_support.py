"""Servers, nodes and Pods of the edge, as short as a table wants them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from modelwright.adapters.kubernetes.servers.catalogue_builtin import builtin
from modelwright.adapters.kubernetes.servers.edge_pod import Rendered
from modelwright.adapters.kubernetes.servers.node_mirror import Node
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads.kinds import Pod
from modelwright.ports.workloads import ModelImage, ModelServer, Owner, Placement, ServedVersion, Server

JSON = dict[str, Any]
OWNER = Owner("sedna.io/v1alpha1", "InferenceModel", "vision", "resnet", "uid-1")
SETTINGS = ServerSettings(agent_image="hub.example/op:1", gateway_image="hub.example/gw:1", catalogue=builtin())
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NODE = Node(name="edge-0", internal_ip="192.0.2.7", ready="True")
V1 = ServedVersion("v1", 1, ModelImage(image="hub.example/m@sha256:" + "1" * 64))


def a_model(framework: str = "onnx", *versions: ServedVersion, **more: Any) -> Server:
    """A model at the edge."""
    chosen = versions or (V1,)
    program = ModelServer(
        model_name="resnet", framework=framework, versions=chosen, default=chosen[-1].version, in_place=True
    )
    given = {"program": program, "port": 8501, "placement": Placement("edge", "edge-0"), **more}
    return Server(name="resnet-serve", owner=OWNER, **given)


def pod_of(rendered: Rendered, *, scheduled: bool = True, age: float = 60, going: bool = False, **status: Any) -> Pod:
    """The Pod that was made from it."""
    metadata: JSON = dict(rendered.body["metadata"])
    metadata |= {"uid": "pod-1", "resourceVersion": "7", "creationTimestamp": at(age)}
    metadata |= {"deletionTimestamp": at(1)} if going else {}
    spec = {"nodeName": rendered.node if scheduled else ""}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": "Running", **status}}, Pod)


def at(seconds: float) -> str:
    """A time so many seconds before now."""
    return (NOW - timedelta(seconds=seconds)).isoformat()


def condition(type_: str, status: str = "True", reason: str = "", message: str = "") -> JSON:
    """A condition of a Pod."""
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": at(1)}


READY = [condition("PodScheduled"), condition("ContainersReady"), condition("Ready")]


def container(name: str, *, ready: bool = False, restarts: int = 0, last: JSON | None = None, **state: JSON) -> JSON:
    """How a container is."""
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state, "lastState": last or {}}
