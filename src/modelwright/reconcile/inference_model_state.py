"""How far a server is on its way to what is wanted."""

from __future__ import annotations

from enum import Enum

from modelwright.ports.workloads import Failure, ModelServer, Server, ServerStatus, VersionStatus


class State(Enum):
    """From nothing to serving; FAILED needs a person, RETRYING does not."""

    STARTING = "Starting"
    FETCHING = "Fetching"
    LOADING = "Loading"
    ROLLING_OUT = "RollingOut"
    RETRYING = "Retrying"
    FAILED = "Failed"
    SERVING = "Serving"
    SCALED_TO_ZERO = "ScaledToZero"

    def reason(self, seen: ServerStatus | None) -> str:
        """The reason of the condition: the failure's own where there is one."""
        failure = failure_of(seen) if self in (State.FAILED, State.RETRYING) else None
        return failure.reason if failure else self.value

    def message(self, server: Server, seen: ServerStatus | None) -> str:
        """One sentence for people."""
        version = server.program.default if isinstance(server.program, ModelServer) else ""
        still = still_serving(version, seen)
        failure = failure_of(seen)
        match self:
            case State.SERVING:
                return f"version {version} is served by {server.replicas} of {server.replicas} replicas"
            case State.SCALED_TO_ZERO:
                return "replicas is 0: nothing runs"
            case State.FAILED | State.RETRYING if failure:
                again = "; trying again" if self is State.RETRYING else ""
                return f"version {version}: {failure.message}{again}{still}"
            case State.FETCHING:
                return f"fetching version {version}{fetched(seen)}{still}"
            case _:
                ready = seen.ready_replicas if seen else 0
                return f"starting version {version}, {ready} of {server.replicas} replicas ready{still}"


def state_of(server: Server, seen: ServerStatus | None) -> State:
    """The state that the observation shows."""
    if seen is None:
        return State.STARTING
    if server.replicas == 0:
        return State.SCALED_TO_ZERO if seen.up_to_date or seen.replicas == 0 else State.ROLLING_OUT
    if seen.up_to_date and serves_the_default(server, seen):
        return State.SERVING
    failure = failure_of(seen)
    if failure is not None:
        return State.RETRYING if failure.retryable else State.FAILED
    return under_way(seen)


def serves_the_default(server: Server, seen: ServerStatus) -> bool:
    """Whether what answers is the version that is wanted; a program without versions is what it is."""
    return not isinstance(server.program, ModelServer) or seen.serving_version == server.program.default


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


def still_serving(version: str, seen: ServerStatus | None) -> str:
    """What answers meanwhile, as the end of a sentence."""
    if seen is None or seen.ready_replicas == 0 or not seen.serving_version or seen.serving_version == version:
        return ""
    return f"; version {seen.serving_version} goes on serving"


def fetched(seen: ServerStatus | None) -> str:
    """How much has been fetched, as the middle of a sentence."""
    fetching = (version for version in seen.versions if version.progress) if seen else iter(())
    version: VersionStatus | None = next(fetching, None)
    if version is None or version.progress is None:
        return ""
    done, total = version.progress.bytes_done, version.progress.bytes_total
    return f", {done:,} of {total:,} bytes" if total else f", {done:,} bytes"
