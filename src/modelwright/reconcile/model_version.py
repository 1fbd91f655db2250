"""ModelVersion: from a folder of files to an image with a digest.

A version is built once: when its image exists nothing is done any more, whatever happens to the files.
A failure that time may mend is tried again up to five times; any other is said at once, with what to do.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from modelwright.api.fields import Progress
from modelwright.api.meta import Condition, Metadata, OwnerReference
from modelwright.api.model import Model, ModelSpec
from modelwright.api.model_version import ModelVersion, ModelVersionStatus
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.workloads import BuildImage, BuildResult, Failure, Placement, Task, TaskStatus
from modelwright.ports.workloads import Progress as SeenProgress
from modelwright.reconcile import build_result, build_words, conditions, names, owners, requests
from modelwright.reconcile.findings import first_finding
from modelwright.reconcile.model_version_checks import CHECKS
from modelwright.reconcile.plan import Notice, Plan
from modelwright.reconcile.provenance import provenance
from modelwright.reconcile.repositories import qualified, tag_candidates
from modelwright.reconcile.retries import ATTEMPTS, retry_delay
from modelwright.reconcile.storage import node_of, storage_source

BUILDING = "ImageBuilding"
SUCCEEDED = "ImageBuildSucceeded"
FAILED = "ImageBuildFailed"
MODEL_GROUP = "model.kubedl.io"
PROGRESS_STEPS = 50
CLOCKS_DIFFER = timedelta(minutes=1)
"""A build that ended further in the future than this was timed by a wrong clock, and no pause is counted from it."""


class Observed(msgspec.Struct, frozen=True):
    """What is there: the Model of that name, the builds that run or ran, what this place can do, and base versions."""

    model: Model | None
    tasks: tuple[TaskStatus, ...]
    capabilities: Capabilities
    parents: tuple[ModelVersion, ...] = ()


def reconcile(version: ModelVersion, observed: Observed, now: datetime) -> Plan:
    """What to do for this version now."""
    if requests.suspended(version):
        return Plan(untouched=True)
    if version.metadata.deletion_timestamp is not None:
        return Plan()
    version = start_again_if_asked(version, observed)
    plan = build_plan(version, observed, now)
    return msgspec.structs.replace(
        plan,
        create=missing_model(version, observed.model),
        owner=model_reference(version, observed.model),
        notices=plan.notices + once(version, observed.capabilities),
    )


def start_again_if_asked(version: ModelVersion, observed: Observed) -> ModelVersion:
    """A request to look again forgets a build that failed; one that succeeded stands for ever.

    A build that runs is not disturbed: the request waits for its end. One that cannot start is begun anew.
    """
    if not requests.requested_again(version) or runs_now(version, observed):
        return version
    status = msgspec.structs.replace(version.status, last_handled_reconcile_at=requests.requested_at(version))
    if status.image_build_phase != SUCCEEDED:
        status = msgspec.structs.replace(
            status, image_build_phase=None, attempts=0, message="", progress=None, finish_time=None
        )
    return msgspec.structs.replace(version, status=status)


def runs_now(version: ModelVersion, observed: Observed) -> bool:
    """Whether the attempt that the status speaks of is running, not one that a request has just started."""
    if version.status.image_build_phase != BUILDING:
        return False
    name = build_task(version, observed, max(version.status.attempts, 1)).name
    return any(
        task.name == name and task.phase in ("Pending", "Running") and not waits(task) for task in observed.tasks
    )


def waits(task: TaskStatus) -> bool:
    """Whether it cannot start, and says why."""
    return task.phase == "Pending" and task.failure is not None


# The Model ----------------------------------------------------------------------------------------------------------


def missing_model(version: ModelVersion, model: Model | None) -> tuple[Model, ...]:
    """The Model to make for a version whose Model does not exist.

    A version that is owned by a former Model of that name is going away with it, and makes none.
    """
    if model is not None or former_owner(version) is not None:
        return ()
    metadata = Metadata(name=version.spec.model_name, namespace=version.metadata.namespace)
    return (Model(metadata=metadata, spec=ModelSpec()),)


def model_reference(version: ModelVersion, model: Model | None) -> OwnerReference | None:
    """The reference that makes the version go away with its Model."""
    if model is None or model.metadata.deletion_timestamp is not None or former_owner(version) is not None:
        return None
    controlled = any(owner.controller for owner in version.metadata.owner_references)
    return msgspec.structs.replace(owners.owner_reference(model), controller=not controlled)


def former_owner(version: ModelVersion) -> OwnerReference | None:
    """The Model that owns the version already: of the name that its spec has, be it there still or not."""
    wanted = (MODEL_GROUP, "Model", version.spec.model_name)
    owners_now = version.metadata.owner_references
    return next((one for one in owners_now if (group_of(one.api_version), one.kind, one.name) == wanted), None)


def group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]


# The build ----------------------------------------------------------------------------------------------------------


def build_plan(version: ModelVersion, observed: Observed, now: datetime) -> Plan:
    """Built, failed for good, not possible here, or a build to run."""
    status = version.status
    if status.image_build_phase == SUCCEEDED:
        return settled(version, status, conditions.ready("ImageBuilt", built_message(status)), now)
    if status.image_build_phase == FAILED:
        return settled(version, status, tuple(status.conditions), now)
    finding = first_finding(CHECKS, version, observed)
    if finding is not None:
        status = msgspec.structs.replace(status, image_build_phase=None, message=finding.message, progress=None)
        return settled(version, status, conditions.stalled(finding.reason, finding.message), now)
    return attempt(version, observed, now)


def attempt(version: ModelVersion, observed: Observed, now: datetime) -> Plan:
    """Run the build that is due, and say how it is doing."""
    number = max(version.status.attempts, 1)
    task = build_task(version, observed, number)
    seen = next((task_status for task_status in observed.tasks if task_status.name == task.name), None)
    if seen is None or seen.phase in ("Pending", "Running"):
        return building(version, task, seen, number, now)
    if seen.phase == "Succeeded" and seen.result is not None:
        refused = build_result.refused(seen.result, action_of(task))
        if refused is None:
            return succeeded(version, seen, now)
        seen = msgspec.structs.replace(seen, phase="Failed", failure=refused)
    return failed(version, observed, task, seen, now)


def action_of(task: Task) -> BuildImage:
    """What a version's Task does: it builds."""
    assert isinstance(task.action, BuildImage)  # noqa: S101 - made so by `build_task`
    return task.action


def build_task(version: ModelVersion, observed: Observed, number: int) -> Task:
    """The build as a Task; a further attempt, or one that was asked for again, has another name.

    What is attached to the image has no part in the name: a base version may get its image while this build runs,
    and that must not start a second one.
    """
    spec, capabilities = version.spec, observed.capabilities
    action = BuildImage(
        source=storage_source(spec.storage),
        repository=qualified(spec.image_repo, capabilities.default_registry),
        tags=tag_candidates(spec.image_tag, version.metadata.uid),
        base_image=spec.base_image,
        push_secret=spec.push_secret,
        builder=spec.builder,
    )
    again = version.status.last_handled_reconcile_at
    return Task(
        name=names.child_name(version.metadata.name, "build", version.metadata.uid, action, again, number),
        owner=owners.owner_of_workloads(version),
        action=msgspec.structs.replace(action, provenance=provenance(version, observed.parents)),
        placement=Placement(node_name=node_of(spec.storage)),
    )


def building(version: ModelVersion, task: Task, seen: TaskStatus | None, number: int, now: datetime) -> Plan:
    """It runs, or waits to. What it waits for is told, as a Warning, and goes on by itself once that is there."""
    blocked = seen.failure if seen is not None and waits(seen) else None
    reason = blocked.reason if blocked is not None else "ImageBuilding"
    message = build_words.building(number) if blocked is None else build_words.blocked(version, blocked, number)
    status = msgspec.structs.replace(
        version.status,
        image_build_phase=BUILDING,
        attempts=number,
        message=message,
        progress=shown_progress(version.status.progress, seen.progress if seen else None),
    )
    plan = settled(version, status, conditions.reconciling(reason, message), now)
    return msgspec.structs.replace(plan, workloads=(task,), warn=blocked is not None)


def shown_progress(before: Progress | None, seen: SeenProgress | None) -> Progress | None:
    """Progress in steps of a fiftieth, so that a build costs so many writes at most, however often it reports."""
    if seen is None:
        return None
    new = Progress(seen.bytes_done, seen.bytes_total)
    if before is None or before.bytes_total != new.bytes_total or new.bytes_done < before.bytes_done:
        return new
    whole = new.bytes_total or new.bytes_done
    far = (new.bytes_done - before.bytes_done) * PROGRESS_STEPS >= whole
    return new if far or new.bytes_done == new.bytes_total else before


def succeeded(version: ModelVersion, seen: TaskStatus, now: datetime) -> Plan:
    """The image exists: write down which it is. The task is let go once this stands in the status."""
    result = seen.result
    assert result is not None  # noqa: S101 - the caller has looked
    status = msgspec.structs.replace(
        version.status,
        image=f"{version.spec.image_repo}:{result.tag}",
        image_digest=result.digest,
        resolved_image=result.resolved,
        image_build_phase=SUCCEEDED,
        attempts=max(version.status.attempts, 1),
        finish_time=min(seen.finished_at or now, now),
        size_bytes=result.size_bytes,
        file_count=result.files,
        metrics=result.metrics,
        progress=None,
    )
    message = built_message(status)
    status = msgspec.structs.replace(status, message=message)
    plan = settled(version, status, conditions.ready("ImageBuilt", message), now)
    return msgspec.structs.replace(plan, notices=passed_over(result))


def passed_over(result: BuildResult) -> tuple[Notice, ...]:
    """What could not be used or attached, although the image is good without it."""
    told = {"MetricsIgnored": result.metrics_ignored, "ProvenanceNotAttached": result.provenance_refused}
    return tuple(Notice("Warning", reason, why) for reason, why in told.items() if why)


def failed(version: ModelVersion, observed: Observed, task: Task, seen: TaskStatus, now: datetime) -> Plan:
    """Try again later, or say that a person has to act."""
    number = max(version.status.attempts, 1)
    failure = seen.failure or Failure(reason="BuildFailed", message="the build ended without a result", retryable=True)
    if not failure.retryable or number >= ATTEMPTS:
        return given_up(version, failure, number, now)
    delay = timedelta(seconds=retry_delay(version.metadata.uid, number))
    due = (seen.finished_at or now) + delay
    if due <= now or due > now + delay + CLOCKS_DIFFER:
        following = msgspec.structs.replace(version.status, attempts=number + 1)
        return attempt(msgspec.structs.replace(version, status=following), observed, now)
    return waiting(version, task, failure, number, due - now, now)


def waiting(version: ModelVersion, task: Task, failure: Failure, number: int, pause: timedelta, now: datetime) -> Plan:
    """Between two attempts. The task that failed is kept, since when it ended is when the pause began."""
    message = build_words.failed_attempt(failure, number)
    status = msgspec.structs.replace(version.status, attempts=number, message=message, progress=None)
    plan = settled(version, status, conditions.reconciling(failure.reason, message), now)
    return msgspec.structs.replace(plan, keep=frozenset({task.name}), requeue_after=pause.total_seconds(), warn=True)


def given_up(version: ModelVersion, failure: Failure, number: int, now: datetime) -> Plan:
    message = build_words.given_up(version, failure, number)
    status = msgspec.structs.replace(
        version.status, image_build_phase=FAILED, attempts=number, message=message, finish_time=now, progress=None
    )
    return settled(version, status, conditions.stalled(failure.reason, message), now)


# What is said -------------------------------------------------------------------------------------------------------


def settled(version: ModelVersion, status: ModelVersionStatus, wanted: tuple[Condition, ...], now: datetime) -> Plan:
    """A plan that runs nothing, with this status and these conditions."""
    generation = version.metadata.generation
    return Plan(
        status=msgspec.structs.replace(
            status,
            message=status.message[: conditions.MESSAGE_LIMIT],
            observed_generation=generation,
            conditions=conditions.settle(wanted, version.status.conditions, generation, now),
        )
    )


def built_message(status: ModelVersionStatus) -> str:
    return f"{status.image} is {status.image_digest}"


def once(version: ModelVersion, capabilities: Capabilities) -> tuple[Notice, ...]:
    """What is said a single time: what of the spec means nothing on one machine."""
    if not requests.first_sight(version) or not capabilities.single_node:
        return ()
    notices = []
    node = node_of(version.spec.storage)
    if node and node != capabilities.single_node:
        text = f"node {node} is taken to be this machine ({capabilities.single_node}): there is no other"
        notices.append(Notice("Normal", "NodeIsThisMachine", text))
    return tuple(notices)
