"""The Pod of a Kaniko build: the agent before and after, and Kaniko's executor between.

The executor unpacks into its own root as root, so this Pod passes the Pod Security Standard *baseline*, not
*restricted*; the agent's two containers are as in a native build.
https://github.com/osscontainertools/kaniko/blob/main/README.md
"""

from __future__ import annotations

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.workloads import render_pod as pod
from modelwright.adapters.kubernetes.workloads.settings import JobSettings
from modelwright.ports.job import BUILD_FOLDER, SECRET_FOLDER, SHARED_FOLDER, BuildTask
from modelwright.ports.workloads import BuildImage, Task

PREPARE, KANIKO, FINISH = "prepare", "kaniko", "finish"
VERSION_LABEL = "modelwright.dev/model-version-uid"
CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP"]
"""What unpacking a base image takes: its files have owners, modes and capabilities."""
DOCKER_FOLDER = "/kaniko/.docker"
CA_FOLDER = "/kaniko/registry-ca"
CA_FOLDERS = f"/kaniko/ssl/certs:{CA_FOLDER}"
"""The authorities of the executor's image, and that of the push secret."""


def kaniko_pod(task: Task, action: BuildImage, settings: JobSettings) -> JSON:
    """The Pod template. Raises Invalid (TaskTooLarge)."""
    destination = f"{action.repository}:{action.tags[0]}"
    variable = pod.task_variable(
        BuildTask(
            action=action,
            secret=SECRET_FOLDER if action.push_secret else "",
            plain_http=settings.plain_http,
            owner_uid=task.owner.uid,
            destination=destination,
        )
    )
    model, model_mount = pod.model_volume(task, action.source)
    secrets, secret_mounts = pod.secret_volume(action.push_secret)
    logins, login_mounts = _login(action.push_secret)
    shared = {"name": "shared", "mountPath": SHARED_FOLDER}
    mounts = [model_mount, shared, *secret_mounts]
    return pod.pod_template(
        task,
        settings,
        {
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "initContainers": [
                pod.agent(PREPARE, "kaniko-prepare", settings, task, [variable], mounts),
                _executor(task, settings, destination, [model_mount, shared, *login_mounts]),
            ],
            "containers": [pod.agent(FINISH, "kaniko-finish", settings, task, [variable], mounts)],
            "volumes": [
                model,
                *secrets,
                *logins,
                {"name": "shared", "emptyDir": {}},
                {"name": "scratch", "emptyDir": {}},
            ],
        },
    )


def _executor(task: Task, settings: JobSettings, destination: str, mounts: list[JSON]) -> JSON:
    return {
        "name": KANIKO,
        "image": settings.kaniko_image,
        "args": [
            f"--context=dir://{BUILD_FOLDER}",
            f"--dockerfile={SHARED_FOLDER}/Dockerfile",
            f"--destination={destination}",
            f"--digest-file={SHARED_FOLDER}/digest",
            # By it a further attempt knows the image that an earlier one has pushed.
            f"--label={VERSION_LABEL}={task.owner.uid}",
            *(f"--insecure-registry={host}" for host in settings.plain_http),
        ],
        "env": [{"name": "SSL_CERT_DIR", "value": CA_FOLDERS}, {"name": "DOCKER_CONFIG", "value": DOCKER_FOLDER}],
        "resources": pod.resources(task, settings),
        "volumeMounts": mounts,
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": CAPABILITIES},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _login(secret: str) -> tuple[list[JSON], list[JSON]]:
    """The push secret where the executor looks for it: what of it is not there is left out."""
    if not secret:
        return [], []
    volumes = [
        _key("docker-config", secret, ".dockerconfigjson", "config.json"),
        _key("registry-ca", secret, "ca.crt", "ca.crt"),
    ]
    places = {"docker-config": DOCKER_FOLDER, "registry-ca": CA_FOLDER}
    return volumes, [{"name": name, "mountPath": path, "readOnly": True} for name, path in places.items()]


def _key(name: str, secret: str, key: str, path: str) -> JSON:
    source = {"secret": {"name": secret, "optional": True, "items": [{"key": key, "path": path}]}}
    return {"name": name, "projected": {"sources": [source]}}
