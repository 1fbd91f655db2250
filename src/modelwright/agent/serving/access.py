"""Models as a serving Pod reaches them: by its InferenceModel's secrets and an admin's list, and by nothing else."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec

from modelwright.agent.model import Report, download, place, present
from modelwright.agent.policy import Policy
from modelwright.agent.registries import CA_KEY, CONFIG_KEYS, Registries, keys_of, registries_in
from modelwright.oci.appearing import sync_folder
from modelwright.oci.disk import disk_errors, sync_path
from modelwright.oci.recorder import Recorder
from modelwright.ports.errors import Forbidden, ModelwrightError
from modelwright.ports.workloads import Download, ModelImage, ModelSource

FOLDER_MODE = 0o755
"""Of what is kept: the server beside the agent may be another user."""
_DOWNLOAD_KEYS = ("token", "username", "authorization", CA_KEY)


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The folders with the keys of the secrets, and the registries that may be spoken to without TLS.

    `stall_seconds` is how long a server may send nothing, `attempts` how often in a row it may fail without having
    sent a mebibyte. What is `durable` is on the disk before it counts as brought: at the edge the former model goes
    then, and after a power cut nobody may be there to ask.
    """

    pull_secret: str
    download_secret: str
    plain_http: tuple[str, ...] = ()
    stall_seconds: float = 60.0
    attempts: int = 2
    durable: bool = False


def is_whole(source: ModelSource, folder: Path) -> bool:
    """Whether the verified model is in `folder/model`. A link in its place is removed."""
    _remove_link(folder)
    _remove_link(folder / "model")
    return present(source, folder, _silent) is not None


def bring(
    source: ModelSource, folder: Path, access: Access, report: Report, *, fetching: Callable[[], None] | None = None
) -> None:
    """Put the verified model into `folder/model` for everybody to read; what is there already is verified and used.

    `fetching` is called before anything is fetched. `report` is told of what is fetched.
    Raises Mismatch, Rejected, Forbidden (SecretNotFound among them), NotFound, Invalid, Unavailable.
    """
    if is_whole(source, folder):
        return
    if fetching is not None:
        fetching()
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    folder.chmod(FOLDER_MODE)
    if isinstance(source, ModelImage):
        place(folder, lambda model, recorder: _pull(source, model, access, report, recorder))
    else:
        place(folder, lambda model, recorder: _download(source, model, access, report, recorder))
    if access.durable:
        with disk_errors():
            sync_folder(folder)
            sync_path(folder.parent)


def _pull(source: ModelImage, destination: Path, access: Access, report: Report, recorder: Recorder) -> str:
    from modelwright.oci.pull import pull
    from modelwright.oci.reference import parse

    registries = _registries(source, access)
    reference = parse(source.image, default_host="")
    with registries.open(reference.name) as images:
        pull(images, reference.target, destination, report=report, durable=False, recorder=recorder)
    return ""


def _registries(source: ModelImage, access: Access) -> Registries:
    if not source.pull_secret:
        return Registries(plain_http=access.plain_http)
    folder = Path(access.pull_secret)
    found = registries_in(folder, access.plain_http)
    if found is None:
        host = source.image.partition("/")[0]
        raise _missing(
            "pullSecret", source.pull_secret, folder, CONFIG_KEYS,
            f"kubectl create secret docker-registry {source.pull_secret} --docker-server={host} "
            "--docker-username=USER --docker-password=PASSWORD",
        )  # fmt: skip
    return found


def _download(source: Download, destination: Path, access: Access, report: Report, recorder: Recorder) -> str:
    secret = Path(access.download_secret) if source.secret else None
    if secret is not None and not any((secret / key).is_file() for key in _DOWNLOAD_KEYS):
        raise _missing(
            "downloadSecret", source.secret, secret, _DOWNLOAD_KEYS,
            f"kubectl create secret generic {source.secret} --from-literal=token=TOKEN",
        )  # fmt: skip
    # In a Pod a file address names files of the agent's own container, its secrets among them.
    policy = Policy(allow_files=False, stall_timeout=access.stall_seconds, attempts=access.attempts)
    return download(source, destination, policy, secret, report, recorder)


def _missing(field: str, name: str, folder: Path, wanted: tuple[str, ...], command: str) -> Forbidden:
    keys = keys_of(folder)
    what = (
        f"the {field} {name} has none of the keys {', '.join(wanted)} (but {keys})"
        if keys
        else f"there is no secret {name} (the {field}) in this namespace, or it has no key"
    )
    return Forbidden(f"{what}: {command}", reason="SecretNotFound")


def advised(error: ModelwrightError) -> str:
    """The error's message, with which setting of the cluster mends it."""
    advice = _ADVICE.get(error.reason)
    return f"{error.message}; {advice}" if advice else error.message


_ADVICE = {
    "RegistryNotTLS": (
        "on a cluster an admin lists it, spelled as in the image's name: by the Helm value registry.plainHTTP, or the "
        "operator's flag --plain-http HOST[:PORT]"
    ),
    "RegistryCertificateInvalid": f"on a cluster its CA is the key {CA_KEY} of the pullSecret",
    "RegistryUnauthorized": "on a cluster its credentials are those of the pullSecret of the InferenceModel",
    "DownloadCertificateInvalid": f"on a cluster its CA is the key {CA_KEY} of the downloadSecret",
    "DownloadPathForbidden": "on a cluster a model comes by http, https or from an image",
}


def _remove_link(path: Path) -> None:
    """A link in the place of a folder is not ours, and leads somewhere else."""
    try:
        linked = stat.S_ISLNK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if linked:
        path.unlink()


def _silent(_done: int, _total: int) -> None:
    pass
