"""What the Pods of servers in the cloud are put together from, as objects."""

from __future__ import annotations

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.ports.serving import IMAGES_FOLDER
from modelwright.ports.workloads import ModelImage, ModelServer, Resources, Server

CLOSING_SECONDS = 5
"""How long a Pod that is to end is left as it is: all who send it requests have heard of it by then."""
IMAGE_SUB_PATH = "kubedl-model"


def images(program: ModelServer) -> dict[int, ModelImage]:
    """The models that are in images, by the number of their version."""
    return {version.number: version.source for version in program.versions if isinstance(version.source, ModelImage)}


def secrets(program: ModelServer) -> tuple[str, str]:
    """The Secret to pull with, and the one to download with: each is one for the whole model."""
    pull, download = "", ""
    for version in program.versions:
        if isinstance(version.source, ModelImage):
            pull = pull or version.source.pull_secret
        else:
            download = download or version.source.secret
    return pull, download


def image_volume(number: int, image: ModelImage) -> JSON:
    """The volume of one model; nodes keep what they have pulled."""
    return {"name": f"model-{number}", "image": {"reference": image.image, "pullPolicy": "IfNotPresent"}}


def image_mounts(images: dict[int, ModelImage]) -> list[JSON]:
    """Where the models in images are, in each container alike."""
    return [
        {
            "name": f"model-{number}",
            "mountPath": f"{IMAGES_FOLDER}/{number}",
            "subPath": IMAGE_SUB_PATH,
            "readOnly": True,
        }
        for number in images
    ]


def secret_volumes(secrets: dict[str, str]) -> list[JSON]:
    """A Secret that is missing is the program's to tell, which says what it is for."""
    return [
        {"name": name, "secret": {"secretName": secret, "optional": True}} for name, secret in secrets.items() if secret
    ]


def guards(server: Server) -> list[JSON]:
    """What the server asks and shows: without it there is nothing to begin with, which the kubelet says and heals."""
    wanted = {"token": (server.token_secret, ("token",)), "tls": (server.tls_secret, ("tls.crt", "tls.key"))}
    return [
        {"name": name, "secret": {"secretName": secret, "items": [{"key": key, "path": key} for key in keys]}}
        for name, (secret, keys) in wanted.items()
        if secret
    ]


def secret_mounts(folders: dict[str, tuple[str, str]]) -> list[JSON]:
    """Folders with the keys of Secrets, each by its path: the volume, and the Secret if there is one."""
    return [
        {"name": name, "mountPath": folder, "readOnly": True} for folder, (name, secret) in folders.items() if secret
    ]


def pull_secrets(names: tuple[str, ...]) -> JSON:
    """With what the node pulls images."""
    return {"imagePullSecrets": [{"name": name} for name in dict.fromkeys(names)]} if names else {}


def resources(wanted: Resources) -> JSON:
    """Requests and limits, where any are wanted."""
    given = {"requests": wanted.requests, "limits": wanted.limits}
    return {name: quantities for name, quantities in given.items() if quantities}


def user(settings: ServerSettings) -> JSON:
    """Who our containers run as."""
    return {"runAsNonRoot": True, "runAsUser": settings.run_as_user, "runAsGroup": settings.run_as_group}


def restricted(settings: ServerSettings) -> JSON:
    """What the Pod Security Standard *restricted* asks of a container, and more."""
    return {
        **user(settings),
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def closing() -> JSON:
    """Not to end before all have heard that it is about to."""
    return {"preStop": {"sleep": {"seconds": CLOSING_SECONDS}}}
