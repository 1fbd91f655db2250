"""What to do on a cluster about an error that is told as on any machine."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from modelwright.agent.registries import CA_KEY, CONFIG_KEYS
from modelwright.ports.errors import ModelwrightError
from modelwright.ports.job import BuildTask
from modelwright.ports.workloads import Claim, Efs, HostPath, Nfs, Storage


class _Config(msgspec.Struct, frozen=True):
    auths: dict[str, msgspec.Raw] | None = None


def advised(error: ModelwrightError, task: BuildTask) -> str:
    """The error's message, with where its folder comes from and which setting of the cluster mends it."""
    message = error.message
    if task.folder in message:
        message += f" ({task.folder} in the build is {described(task.action.source)})"
    advice = {
        "FileUnreadable": _unreadable,
        "RegistryNotTLS": _not_tls,
        "RegistryCertificateInvalid": _certificate,
        "RegistryUnauthorized": _unauthorized,
    }.get(error.reason)
    return f"{message}; {advice(task)}" if advice else message


def described(source: Storage) -> str:
    """The storage as a person knows it."""
    if isinstance(source, HostPath):
        return f"{source.path} on the node {source.node_name}" if source.node_name else source.path
    if isinstance(source, Nfs):
        return f"the NFS export {source.server}:{source.path}"
    if isinstance(source, Efs):
        return f"the EFS volume {source.volume_handle}"
    if isinstance(source, Claim):
        place = f"{source.sub_path} in " if source.sub_path else ""
        return f"{place}the claim {source.claim_name}"
    raise TypeError(type(source).__name__)


def _unreadable(task: BuildTask) -> str:  # noqa: ARG001 - one signature for all
    return (
        f"this build runs as user {os.geteuid()} and group {os.getegid()}: an admin changes that by the Helm values "
        "build.runAsUser and build.runAsGroup"
    )


def _not_tls(task: BuildTask) -> str:  # noqa: ARG001 - one signature for all
    return (
        "on a cluster an admin lists it, spelled as in the image's name: by the Helm value registry.plainHTTP, or the "
        "operator's flag --plain-http HOST[:PORT]"
    )


def _certificate(task: BuildTask) -> str:
    named = f"the pushSecret {task.action.push_secret}" if task.action.push_secret else "a pushSecret"
    return f"on a cluster its CA is the key {CA_KEY} of {named}"


def _unauthorized(task: BuildTask) -> str:
    secret = task.action.push_secret
    if not secret:
        return "the ModelVersion names no pushSecret"
    hosts = ", ".join(_hosts(Path(task.secret))) or "no registry"
    return f"the pushSecret {secret} has credentials for {hosts}"


def _hosts(folder: Path) -> list[str]:
    for key in CONFIG_KEYS:
        try:
            config = msgspec.json.decode((folder / key).read_bytes(), type=_Config)
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
            continue
        return sorted(config.auths or {})
    return []
