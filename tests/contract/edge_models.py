"""Models at the edge, and what plays their node: the test's own hand."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.contract.edge_parts import Edge, until

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers.keeper_lines import digest
from modelwright.adapters.kubernetes.workloads import KubernetesWorkloads
from modelwright.ports.serving import TASK_ANNOTATION, KeeperState
from modelwright.ports.workloads import (
    ModelImage,
    ModelServer,
    Owner,
    Placement,
    Resources,
    ServedVersion,
    Server,
    VersionStatus,
)


def a_model(owner: Owner, node: str = "", *, version: str = "v1", port: int = 8501, **more: Any) -> Server:
    source = ModelImage(image=f"hub.example/m@sha256:{version.encode().hex():0>64}")
    program = ModelServer(
        model_name="resnet",
        framework="onnx",
        versions=(ServedVersion(version, 1, source),),
        default=version,
        in_place=True,
    )
    placement = more.pop("placement", Placement("edge", node))
    return Server(name="serve", owner=owner, program=program, port=port, placement=placement, **more)


def said(pod: JSON, version: str = "v1", *, settled: bool = True, **more: Any) -> bytes:
    """A line of the agent's, about the task that the Pod has now."""
    task = digest(pod["metadata"]["annotations"][TASK_ANNOTATION])
    phase = more.pop("phase", "Ready" if settled else "Fetching")
    versions = (VersionStatus(version=version, phase=phase, progress=more.pop("progress", None)),)
    state = KeeperState(task=task, settled=settled, versions=versions, **{"serving": version, **more})
    return b"a line for people\n" + msgspec.json.encode(state) + b"\n"


def memory(limit: str) -> Resources:
    return Resources(limits={"memory": limit})


def told(reason: str) -> Any:
    return lambda status: status.failure is not None and status.failure.reason == reason


def serving(version: str) -> Any:
    return lambda status: status.up_to_date and status.serving_version == version


async def serves(edge: Edge, workloads: KubernetesWorkloads, server: Server) -> JSON:
    """Apply it, and play scheduler, kubelet and agent until it serves."""
    assert isinstance(server.program, ModelServer)
    await workloads.apply(server)
    pod = await edge.has_pod(server.name)
    edge.logs.put(server.name, "keeper", said(pod, server.program.default))
    await edge.runs(pod)
    await until(workloads, server.owner, serving(server.program.default), server.name)
    return await edge.has_pod(server.name)
