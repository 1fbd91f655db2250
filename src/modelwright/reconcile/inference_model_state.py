"""How far a server is on its way to what is wanted."""

from __future__ import annotations

from enum import Enum

from modelwright.ports.workloads import Container, Failure, ModelServer, Server, ServerStatus, VersionStatus
from modelwright.reconcile.nodes import is_away
from modelwright.reconcile.sizes import about, in_steps


class State(Enum):
    """From nothing to serving; FAILED needs a person, RETRYING does not, and of NODE_LOST nothing is known."""

    STARTING = "Starting"
    FETCHING = "Fetching"
    LOADING = "Loading"
    ROLLING_OUT = "RollingOut"
    RETRYING = "Retrying"
    NODE_LOST = "NodeLost"
    FAILED = "Failed"
    SERVING = "Serving"
    NOT_EXPOSED = "NotExposed"
    SCALED_TO_ZERO = "ScaledToZero"

    def reason(self, seen: ServerStatus | None) -> str:
        """The reason of the condition: the failure's own where there is one."""
        failure = failure_of(seen) if self in (State.FAILED, State.RETRYING) else None
        return failure.reason if failure else self.value

    def message(self, server: Server, seen: ServerStatus | None) -> str:
        """One sentence for people."""
        what = served_by(server)
        still = still_serving(server, seen)
        failure = failure_of(seen)
        match self:
            case State.SERVING:
                return f"{what} is served by {server.replicas} of {server.replicas} replicas"
            case State.NOT_EXPOSED:
                served = State.SERVING.message(server, seen)
                return f"{served}, and nobody outside the cluster reaches it: {way_out(server)}"
            case State.SCALED_TO_ZERO:
                return "replicas is 0: nothing runs"
            case State.NODE_LOST if failure:
                return f"{what}: {failure.message}; nothing of it is removed"
            case State.FAILED | State.RETRYING if failure:
                again = "; trying again" if self is State.RETRYING else ""
                return f"{what}: {failure.message}{again}{still}"
            case State.FETCHING:
                return f"fetching {what}{fetched(seen)}{still}"
            case _:
                ready = seen.ready_replicas if seen else 0
                return f"starting {what}, {ready} of {server.replicas} replicas ready{still}"


def state_of(server: Server, seen: ServerStatus | None) -> State:
    """The state that the observation shows."""
    if seen is None:
        return State.STARTING
    if server.replicas == 0:
        return State.SCALED_TO_ZERO if seen.up_to_date or seen.replicas == 0 else State.ROLLING_OUT
    if seen.up_to_date and serves_the_default(server, seen):
        return State.SERVING if is_reached(server, seen) else State.NOT_EXPOSED
    if server.placement.layer == "edge" and is_away(seen):
        return State.NODE_LOST
    failure = failure_of(seen)
    if failure is not None:
        return State.RETRYING if failure.retryable else State.FAILED
    return under_way(seen)


def serves_the_default(server: Server, seen: ServerStatus) -> bool:
    """Whether what answers is the version that is wanted; a program without versions is what it is."""
    return not isinstance(server.program, ModelServer) or seen.serving_version == server.program.default


def is_reached(server: Server, seen: ServerStatus) -> bool:
    """Whether it can be asked from where the spec wants that: a ClusterIP is for who is inside."""
    inside = server.exposure is None or server.exposure.type == "ClusterIP"
    return inside or seen.exposed


def way_out(server: Server) -> str:
    """What makes it reachable from outside."""
    if server.exposure is not None and server.exposure.type == "NodePort":
        return "no node that runs it has an address; `kubectl get nodes -o wide`"
    return (
        "no load balancer has given its Service an address, which has no node port either; look at the Events of that "
        "Service, or take the service.type NodePort (or ClusterIP, if that is what you want)"
    )


def under_way(seen: ServerStatus) -> State:
    phases = {version.phase for version in seen.versions}
    if "Fetching" in phases or "Pending" in phases:
        return State.FETCHING
    if "Loading" in phases:
        return State.LOADING
    return State.ROLLING_OUT


def failure_of(seen: ServerStatus | None) -> Failure | None:
    """Why it does not get there: the server's own failure, else that of a version."""
    if seen is None:
        return None
    return seen.failure or next((version.failure for version in seen.versions if version.failure), None)


def served_by(server: Server) -> str:
    """What a person calls that which the server serves."""
    match server.program:
        case ModelServer(default=version):
            return f"version {version}"
        case Container(image=image):
            return f"image {image}"
    return "it"


def still_serving(server: Server, seen: ServerStatus | None) -> str:
    """What answers meanwhile, as the end of a sentence."""
    wanted = server.program.default if isinstance(server.program, ModelServer) else ""
    if seen is None or seen.ready_replicas == 0 or not seen.serving_version or seen.serving_version == wanted:
        return ""
    return f"; version {seen.serving_version} goes on serving"


def fetched(seen: ServerStatus | None) -> str:
    """How much has been fetched, as the middle of a sentence."""
    fetching = (version for version in seen.versions if version.progress) if seen else iter(())
    version: VersionStatus | None = next(fetching, None)
    if version is None or version.progress is None:
        return ""
    done, total = version.progress.bytes_done, version.progress.bytes_total
    return f", {in_steps(done, total):,} of {total:,} bytes" if total else f", {about(done, 2):,} bytes"
