"""A build Task as its objects: the Job, and the volume and claim that it may need."""

from __future__ import annotations

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.workloads.labels import metadata
from modelwright.adapters.kubernetes.workloads.render_kaniko import kaniko_pod
from modelwright.adapters.kubernetes.workloads.render_native import native_pod
from modelwright.adapters.kubernetes.workloads.settings import JobSettings
from modelwright.ports.workloads import BuildImage, Task

ON_DISRUPTION = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
"""A Pod that was pushed out (drained, preempted, its node gone) says nothing of the build: another takes its place."""


def job(task: Task, action: BuildImage, settings: JobSettings) -> JSON:
    """The Job: one Pod, one try. When to try again is decided by who reads its status. Raises Invalid."""
    spec: JSON = {
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": [ON_DISRUPTION]},
        "template": (kaniko_pod if action.builder == "kaniko" else native_pod)(task, action, settings),
    }
    if task.deadline_seconds:
        spec["activeDeadlineSeconds"] = task.deadline_seconds
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(task.owner, task.name), "spec": spec}
