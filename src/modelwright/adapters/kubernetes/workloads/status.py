"""How a Task is doing, from its Job and that one's Pods."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from modelwright.adapters.kubernetes.workloads import ended, waiting
from modelwright.adapters.kubernetes.workloads.kinds import Job, Pod, condition, going
from modelwright.ports.workloads import Failure, Progress, TaskStatus

LOST = Failure(
    reason="ResultLost",
    message="the Pod of the build is gone, and with it what it had to report: the build is run again",
    retryable=True,
)
NO_REPORT = Failure(
    reason="ResultLost",
    message="the build has ended without saying which image it pushed: it is run again. If that does not help, "
    "the operator's agent image may be of another version than the operator",
    retryable=True,
)
GATES = "ReadinessGatesNotReady"
_EARLIEST = datetime.min.replace(tzinfo=UTC)


def pod_of(pods: Sequence[Pod]) -> Pod | None:
    """The Pod that speaks for the Job: the one that succeeded, else the newest."""
    if len(pods) < 2:
        return pods[0] if pods else None
    return max(pods, key=lambda pod: (pod.status.phase == "Succeeded", pod.metadata.creation_timestamp or _EARLIEST))


def task_status(
    name: str, job: Job | None, pod: Pod | None, now: datetime, *, progress: Progress | None, hint: Failure | None
) -> TaskStatus:
    """`hint` is what was found out elsewhere of why it does not run; None where nothing was."""
    over = _over(name, job, pod)
    if over is not None:
        return over
    if pod is None:
        if has_ended(job):
            return TaskStatus(name=name, phase="Running")
        return TaskStatus(name=name, phase="Pending", failure=_suspended(job) or hint)
    if unreachable(pod):
        return TaskStatus(name=name, phase="Pending", failure=_node_lost(pod), node_name=pod.spec.node_name)
    held = waiting.failure(pod, now)  # a later container too: Kaniko's image is pulled when the agent has prepared
    if has_ended(job) or (waiting.started(pod) and not disrupted(pod) and held is None):
        return TaskStatus(name=name, phase="Running", progress=progress, node_name=pod.spec.node_name)
    return TaskStatus(name=name, phase="Pending", failure=held or hint)


def lost(name: str, job: Job) -> TaskStatus:
    """The Job has ended, and its Pod is gone."""
    return TaskStatus(name=name, phase="Failed", failure=LOST, finished_at=_ended_at(job))


def awaits_pod(job: Job | None, pod: Pod | None) -> bool:
    """Whether the Job has ended and the Pod has not been seen to."""
    return has_ended(job) and _over("", job, pod) is None


def disrupted(pod: Pod) -> bool:
    """Whether it was pushed out, so that its Job makes another."""
    return pod.status.phase == "Failed" and condition(pod.status.conditions, "DisruptionTarget") is not None


def unreachable(pod: Pod) -> bool:
    """Whether its node does not answer: then a Pod is called not ready although its containers were. Else that is so
    by readiness gates only, which load balancers add; there the kubelet says so."""
    ready = condition(pod.status.conditions, "Ready", "False")
    contradicted = ready is not None and ready.reason != GATES
    return contradicted and condition(pod.status.conditions, "ContainersReady") is not None


def speaks(pod: Pod) -> bool:
    """Whether a failed Pod's word counts before its Job's: not where it was made to end, at a deadline or otherwise."""
    return not disrupted(pod) and not going(pod)


def _over(name: str, job: Job | None, pod: Pod | None) -> TaskStatus | None:
    """The last status, if it has ended; the Pod knows it before its Job does."""
    if job is None:
        return None
    if pod is not None and pod.status.phase == "Succeeded":
        result = ended.result(pod)
        at, node = ended.finished_at(pod) or _ended_at(job), pod.spec.node_name
        if result is None:
            return TaskStatus(name=name, phase="Failed", failure=NO_REPORT, finished_at=at, node_name=node)
        return TaskStatus(name=name, phase="Succeeded", result=result, finished_at=at, node_name=node)
    failed = condition(job.status.conditions, "Failed")
    if failed is not None and failed.reason == "DeadlineExceeded":
        failure = Failure(reason="DeadlineExceeded", message=f"the build took too long: {failed.message}")
        return TaskStatus(name=name, phase="Failed", failure=failure, finished_at=_ended_at(job))
    if pod is not None and pod.status.phase == "Failed" and (failed is not None or speaks(pod)):
        at = ended.finished_at(pod) or _ended_at(job) or pod.metadata.creation_timestamp
        return TaskStatus(
            name=name, phase="Failed", failure=ended.failure(pod), finished_at=at, node_name=pod.spec.node_name
        )
    return None


def _suspended(job: Job | None) -> Failure | None:
    """By somebody, or by what admits Jobs one after the other: such a Job makes no Pod, and says so nowhere else."""
    if job is None or condition(job.status.conditions, "Suspended") is None:
        return None
    name, namespace = job.metadata.name, job.metadata.namespace
    text = (
        f"the Job {name} of the build is suspended, by somebody or by what queues Jobs in this cluster: it begins when "
        f"""that lets it, or by kubectl patch job {name} -n {namespace} -p '{{"spec":{{"suspend":false}}}}'"""
    )
    return Failure(reason="JobSuspended", message=text, retryable=True)


def _node_lost(pod: Pod) -> Failure:
    node = pod.spec.node_name
    message = f"the node {node} does not answer: the build waits for it, or for its Pod to be given up"
    return Failure(reason="NodeLost", message=message, retryable=True)


def has_ended(job: Job | None) -> bool:
    """Whether the Job says that it has ended."""
    return job is not None and any(
        each.type in ("Complete", "Failed") and each.status == "True" for each in job.status.conditions or ()
    )


def _ended_at(job: Job) -> datetime | None:
    failed = condition(job.status.conditions, "Failed")
    return job.status.completion_time or (failed.last_transition_time if failed is not None else None)
