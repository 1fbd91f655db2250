"""How a server at the edge is doing, from its Pod, its node, and what the agent beside it prints."""

from __future__ import annotations

from datetime import datetime

import msgspec

from modelwright.adapters.kubernetes.servers import edge_faults, edge_plan
from modelwright.adapters.kubernetes.servers.edge_pod import Rendered
from modelwright.adapters.kubernetes.servers.gateway_state import GatewayState
from modelwright.adapters.kubernetes.servers.keeper_lines import digest
from modelwright.adapters.kubernetes.servers.node_mirror import Node
from modelwright.adapters.kubernetes.workloads.kinds import Pod, condition, going
from modelwright.ports.serving import KeeperState, ServeTask
from modelwright.ports.workloads import (
    Failure,
    Gateway,
    ModelServer,
    SeenNotice,
    Server,
    ServerStatus,
    VersionStatus,
)

_TASK = msgspec.json.Decoder(ServeTask)


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one server: `server` and `rendered` are None before it has been applied, `state` is the
    last that its Pod has printed, `failure` what stands against the next step, `unread` why the log cannot be read;
    `deferred`: its Pod is as good as it should be, until its turn comes to be made anew."""

    name: str
    pod: Pod | None
    node: Node | None
    now: datetime
    server: Server | None = None
    rendered: Rendered | None = None
    state: KeeperState | GatewayState | None = None
    failure: Failure | None = None
    unread: Failure | None = None
    notice: SeenNotice | None = None
    kept_path: str = ""
    deferred: bool = False


DEFERRED = SeenNotice(
    reason="UpgradeDeferred",
    message="its Pod is made anew for the operator's new images or settings when its turn comes: as many Pods at the "
    "edge wait for their images at once as have them already, and none on a node that does not answer. Until then it "
    "serves as it is",
)


def server_status(sight: Sight) -> ServerStatus:
    """The status; what is known of a gateway or a model stands in it as far as it is one."""
    pod = sight.pod
    notices = (*((sight.notice,) if sight.notice is not None else ()), *((DEFERRED,) if sight.deferred else ()))
    if pod is None:
        stopped = sight.server is not None and sight.server.replicas == 0
        seen = ServerStatus(name=sight.name, failure=sight.failure, up_to_date=stopped, notices=notices)
        return msgspec.structs.replace(seen, versions=_pending(sight.server), kept_path=sight.kept_path)
    fault = edge_faults.pod_failure(pod, sight.node, sight.now)
    ready = is_ready(pod, sight.node)
    node = pod.metadata.annotations.node or pod.spec.node_name
    seen = ServerStatus(
        name=sight.name,
        host=(sight.node.address if sight.node is not None else "") or pod.status.host_ip,
        port=_port(pod),
        replicas=1,
        ready_replicas=int(ready),
        node_name=node,
        failure=sight.failure or fault or (sight.unread if sight.state is None and ready else None),
        restarts=sum(each.restart_count for each in pod.status.container_statuses or () if each.name != "keeper"),
        up_to_date=ready and _is_wanted(sight, pod),
        notices=notices,
        kept_path=sight.kept_path,
    )
    if isinstance(sight.state, GatewayState):
        return _gateway(seen, pod, sight.state)
    if pod.metadata.annotations.serve:
        return _model(seen, pod, sight)
    return seen if not _is_gateway(sight) else msgspec.structs.replace(seen, up_to_date=False)


def is_ready(pod: Pod, node: Node | None) -> bool:
    """Whether it answers, as far as anybody knows: the last word of a node that does not answer counts no more."""
    if node is not None and node.ready == "Unknown":
        return False
    return condition(pod.status.conditions, "Ready") is not None


def settled(pod: Pod, state: KeeperState | GatewayState | None) -> bool:
    """Whether the state that was read last is about what the Pod is told now, and nothing is under way."""
    told = edge_plan.told_of(pod)
    if isinstance(state, KeeperState):
        return state.settled and state.task == digest(told)
    return isinstance(state, GatewayState) and state.config_digest == digest(told)


def _is_wanted(sight: Sight, pod: Pod) -> bool:
    """Whether the Pod is as it should be, whatever it has made of that."""
    rendered, server = sight.rendered, sight.server
    if server is None or rendered is None or server.replicas == 0 or going(pod) or sight.failure is not None:
        return False
    as_good = sight.deferred or pod.metadata.annotations.rendered == rendered.digest
    return as_good and edge_plan.is_told(pod, rendered)


def _model(seen: ServerStatus, pod: Pod, sight: Sight) -> ServerStatus:
    state = sight.state if isinstance(sight.state, KeeperState) else None
    # What answers by default was true when it was said, whichever task that was for; the rest is about one task.
    serving = state.serving if state is not None and seen.ready_replicas else ""
    current = state if state is not None and state.task == digest(pod.metadata.annotations.serve) else None
    said = current.failure if current is not None else None
    return msgspec.structs.replace(
        seen,
        serving_version=serving,
        up_to_date=seen.up_to_date and settled(pod, state),
        versions=_versions(sight, pod, current),
        failure=seen.failure or (edge_faults.with_secret(said, sight.server) if said is not None else None),
    )


def _versions(sight: Sight, pod: Pod, state: KeeperState | None) -> tuple[VersionStatus, ...]:
    program = sight.server.program if sight.server is not None else None
    if isinstance(program, ModelServer):
        wanted = [version.version for version in program.versions]
    else:
        wanted = _told_versions(pod)
    known = {each.version: each for each in state.versions} if state is not None else {}
    return tuple(known.get(version) or VersionStatus(version=version, phase="Pending") for version in wanted)


def _told_versions(pod: Pod) -> list[str]:
    try:
        return [version.version for version in _TASK.decode(pod.metadata.annotations.serve).versions]
    except (msgspec.DecodeError, RecursionError):
        return []


def _pending(server: Server | None) -> tuple[VersionStatus, ...]:
    program = server.program if server is not None else None
    if not isinstance(program, ModelServer):
        return ()
    return tuple(VersionStatus(version=each.version, phase="Pending") for each in program.versions)


def _is_gateway(sight: Sight) -> bool:
    return sight.server is not None and isinstance(sight.server.program, Gateway)


def _gateway(seen: ServerStatus, pod: Pod, state: GatewayState) -> ServerStatus:
    current = settled(pod, state)
    return msgspec.structs.replace(
        seen,
        up_to_date=seen.up_to_date and current,
        asked=state.asked if seen.ready_replicas else (),
        kept_bytes=state.kept_bytes or 0,
        failure=seen.failure or (None if current else state.refused),
    )


def _port(pod: Pod) -> int:
    said = pod.metadata.annotations.port
    return int(said) if said.isascii() and said.isdigit() else 0


def unread_failure(why: str) -> Failure:
    """The Pod is ready, and its log cannot be had."""
    text = (
        f"the Pod is ready, and which version it serves cannot be read from its log: {why}. With KubeEdge, switch "
        "cloudStream and edgeStream on"
    )
    return Failure(reason="LogsUnavailable", message=text, retryable=True)
