"""The Pod of the native builder: one container that needs no right at all."""

from __future__ import annotations

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.workloads import render_pod as pod
from modelwright.adapters.kubernetes.workloads.settings import JobSettings
from modelwright.ports.job import SECRET_FOLDER, BuildTask
from modelwright.ports.workloads import BuildImage, Task

CONTAINER = "build"


def native_pod(task: Task, action: BuildImage, settings: JobSettings) -> JSON:
    """The Pod template. It passes the Pod Security Standard *restricted*. Raises Invalid (TaskTooLarge)."""
    variable = pod.task_variable(
        BuildTask(action=action, secret=SECRET_FOLDER if action.push_secret else "", plain_http=settings.plain_http)
    )
    model, model_mount = pod.model_volume(task, action.source)
    secrets, secret_mounts = pod.secret_volume(action.push_secret)
    mounts = [model_mount, *secret_mounts]
    return pod.pod_template(
        task,
        settings,
        {
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": settings.run_as_user,
                "runAsGroup": settings.run_as_group,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [pod.agent(CONTAINER, "build", settings, task, [variable], mounts)],
            "volumes": [model, *secrets, {"name": "scratch", "emptyDir": {}}],
        },
    )
