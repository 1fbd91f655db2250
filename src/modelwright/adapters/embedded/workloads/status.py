"""How a server is doing, from what its generations and models say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelwright.adapters.embedded.workloads.cache import Held
from modelwright.adapters.embedded.workloads.generation import Generation
from modelwright.adapters.embedded.workloads.program import plan_command
from modelwright.adapters.embedded.workloads.rollout import Rollout
from modelwright.ports.workloads import (
    AskedModel,
    Command,
    Failure,
    Gateway,
    ModelServer,
    ServedVersion,
    Server,
    VersionStatus,
)

_LOOPING = 3


def versions(
    server: Server, models: Mapping[str, Held], target: Generation | None, current: Generation | None
) -> tuple[VersionStatus, ...]:
    """How far each version has come; `target` runs what is applied, `current` is what serves."""
    program = server.program
    if not isinstance(program, ModelServer):
        return ()
    if server.replicas == 0:
        return tuple(VersionStatus(version=version.version, phase="Pending") for version in program.versions)
    return tuple(_version(version, models.get(version.version), target, current) for version in program.versions)


def _version(
    wanted: ServedVersion, held: Held | None, target: Generation | None, current: Generation | None
) -> VersionStatus:
    name = wanted.version
    if held is None:
        return VersionStatus(version=name, phase="Pending")
    if held.failure is not None and not held.ready:
        return VersionStatus(version=name, phase="Failed", failure=held.failure)
    if not held.ready:
        return VersionStatus(version=name, phase="Fetching", progress=held.progress)
    for generation in (target, current):
        if generation is not None and wanted.source in [version.source for version in generation.record.versions]:
            found = _in_generation(name, generation)
            if found.phase != "Loading" or generation is current:
                return found
    return VersionStatus(version=name, phase="Loading")


def _in_generation(name: str, generation: Generation) -> VersionStatus:
    states = [state for replica in generation.live if (state := replica.state.version(name)) is not None]
    for state in states:
        if state.state == "failed":
            failure = Failure(reason=state.reason or "ModelNotLoaded", message=state.message)
            return VersionStatus(version=name, phase="Failed", failure=failure)
    if states and all(state.state == "ready" for state in states) and generation.ready:
        return VersionStatus(version=name, phase="Ready")
    if generation.failure is not None and name == generation.record.default:
        return VersionStatus(version=name, phase="Failed", failure=generation.failure)
    return VersionStatus(version=name, phase="Loading")


def serving_version(server: Server, generations: Sequence[Generation]) -> str:
    """What every ready replica answers with by default; empty while they differ, and for a gateway."""
    if isinstance(server.program, Gateway):
        return ""
    defaults = {replica.state.default_version or "" for generation in generations for replica in generation.ready}
    return defaults.pop() if len(defaults) == 1 else ""


def asked(generations: Sequence[Generation]) -> tuple[AskedModel, ...]:
    """How a gateway finds its models, as the newest that is ready says."""
    ready = [replica for generation in generations for replica in generation.ready]
    return ready[-1].state.asked if ready else ()


def failure(generation: Generation | None, wanted: int) -> Failure | None:
    """Why not all replicas of this generation are ready and run what is applied, if a failure is known."""
    if generation is None:
        return None
    if generation.failure is None or len(generation.ready) >= wanted > 0:
        return _refused(generation)
    last = generation.failure
    if generation.backoff.failures < _LOOPING or not last.retryable:
        return last
    return Failure(
        reason="CrashLoopBackOff",
        message=f"it keeps failing and is tried again after growing pauses; the last time ({last.reason}): "
        f"{last.message}",
        retryable=True,
    )


def _refused(generation: Generation) -> Failure | None:
    """Why a replica goes on with its former configuration."""
    for replica in generation.ready:
        if replica.state.reason and not generation.has_applied(replica):
            return Failure(reason=replica.state.reason, message=replica.state.message)
    return None


def up_to_date(server: Server, rollout: Rollout) -> bool:
    """Whether all wanted replicas run the applied value, are ready, and nothing else runs any more."""
    current = rollout.current
    if server.replicas == 0:
        return not rollout.generations
    if current is None or current is not rollout.target or rollout.generations != [current]:
        return False
    return len(current.replicas) == len(current.ready) == server.replicas and _runs_what_is_applied(server, current)


def _runs_what_is_applied(server: Server, current: Generation) -> bool:
    if server.port not in (0, current.record.port):
        return False
    if isinstance(server.program, Gateway):
        return all(current.has_applied(replica) for replica in current.ready)
    if not isinstance(server.program, ModelServer):
        return isinstance(server.program, Command) and (
            current.record.key == plan_command(server.program, current.record.port).key
        )
    return (
        current.record.versions == server.program.versions
        and current.record.default == server.program.default
        and all(current.serves_default(replica) and current.has_applied(replica) for replica in current.ready)
    )
