"""What the Pods of both builders have in common, as objects."""

from __future__ import annotations

from typing import Any

import msgspec

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.workloads.labels import labels
from modelwright.adapters.kubernetes.workloads.settings import JobSettings
from modelwright.ports.errors import Invalid
from modelwright.ports.job import BUILD_FOLDER, SECRET_FOLDER, TASK_VARIABLE, BuildTask
from modelwright.ports.workloads import Claim, Placement, Resources, Storage, Task

SCRATCH_FOLDER = "/tmp"  # noqa: S108 - a volume of the Pod's own
TASK_LIMIT = 120 << 10
"""Bytes: Linux takes no environment variable of 128 KiB."""


def pod_template(task: Task, settings: JobSettings, spec: JSON) -> JSON:
    """The Pod of a build, placed; `spec` has its containers and volumes."""
    shared: JSON = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **placement(task.placement),
    }
    if settings.image_pull_secrets:
        shared["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return {"metadata": {"labels": labels(task.owner)}, "spec": {**shared, **spec}}


def agent(name: str, verb: str, settings: JobSettings, task: Task, variables: list[JSON], mounts: list[JSON]) -> JSON:
    """A container that runs a verb of the agent, as the Pod Security Standard *restricted* wants it."""
    return {
        "name": name,
        "image": settings.agent_image,
        "command": ["modelwright", "agent", verb],
        "env": [
            *variables,
            {"name": "HOME", "value": SCRATCH_FOLDER},
            {"name": "TMPDIR", "value": SCRATCH_FOLDER},
        ],
        "resources": resources(task, settings),
        "volumeMounts": [*mounts, {"name": "scratch", "mountPath": SCRATCH_FOLDER}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": settings.run_as_user,
            "runAsGroup": settings.run_as_group,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # A container that dies without a word leaves the end of its log as its message.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def task_variable(task: BuildTask) -> JSON:
    """What the agent is to do. Raises Invalid (TaskTooLarge)."""
    value = msgspec.json.encode(task)
    if len(value) > TASK_LIMIT:
        raise Invalid(
            f"the lineage of this version takes {len(value)} bytes, and a build can be told {TASK_LIMIT} at most: "
            "give fewer or shorter parameters, datasets and parents",
            reason="TaskTooLarge",
        )
    # Two dollars are one: Kubernetes expands $(NAME) in values.
    return {"name": TASK_VARIABLE, "value": value.decode().replace("$", "$$")}


def model_volume(task: Task, source: Storage) -> tuple[JSON, JSON]:
    """The volume with the model, and its mount: read-only, with what is mounted below it where the node can."""
    claim_name, sub_path = (source.claim_name, source.sub_path) if isinstance(source, Claim) else (task.name, "")
    mount = {"name": "model", "mountPath": BUILD_FOLDER, "readOnly": True, "recursiveReadOnly": "IfPossible"}
    if sub_path:
        mount["subPath"] = sub_path
    return {"name": "model", "persistentVolumeClaim": {"claimName": claim_name, "readOnly": True}}, mount


def secret_volume(secret: str) -> tuple[list[JSON], list[JSON]]:
    """The push secret's keys as files, and their mount. A secret that is missing is the agent's to tell."""
    if not secret:
        return [], []
    volume = {"name": "push-secret", "secret": {"secretName": secret, "optional": True}}
    return [volume], [{"name": "push-secret", "mountPath": SECRET_FOLDER, "readOnly": True}]


def resources(task: Task, settings: JobSettings) -> JSON:
    """The Task's own, where it has any; else those of the settings."""
    wanted: Resources = task.resources if task.resources != Resources() else settings.resources
    given = {"requests": wanted.requests, "limits": wanted.limits}
    return {name: quantities for name, quantities in given.items() if quantities}


def placement(wanted: Placement) -> JSON:
    """Where it may run. A node is named to the scheduler, which sees resources and volumes, never around it.

    The node that has the files is used although it is kept free of other work by a taint.
    """
    rendered: dict[str, Any] = {}
    if wanted.node_selector:
        rendered["nodeSelector"] = wanted.node_selector
    if wanted.node_name:
        fields = [{"key": "metadata.name", "operator": "In", "values": [wanted.node_name]}]
        terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
        rendered["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        rendered["tolerations"] = [{"operator": "Exists", "effect": "NoSchedule"}]
    return rendered
