"""What an admin says of servers, from the spelling of the command line."""

from __future__ import annotations

import re
from pathlib import Path

from modelwright import __version__
from modelwright.adapters.kubernetes.servers.catalogue_builtin import RuntimeImages, TensorflowServer, builtin
from modelwright.adapters.kubernetes.servers.catalogue_files import FolderCatalogue
from modelwright.operator import spelling
from modelwright.ports.errors import Invalid

GATEWAY_IMAGE = f"modelwright/gateway:{__version__}"
RUNTIMES = Path("/etc/modelwright/runtimes")
DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
SYSTEM = frozenset({"bin", "boot", "dev", "etc", "lib", "lib64", "proc", "root", "run", "sbin", "sys", "tmp", "usr"})
"""Folders of a node below which no models are kept: they are the system's, or do not outlive a reboot."""


def catalogue(
    folder: Path, *, onnx: str = "", sklearn: str = "", tensorflow: str = "", server: TensorflowServer
) -> FolderCatalogue:
    """The built-in runtimes, with these images where they are not empty, and an admin's in the folder."""
    named = {name: image for name, image in (("onnx", onnx), ("sklearn", sklearn), ("tensorflow", tensorflow)) if image}
    return FolderCatalogue(folder, builtin(RuntimeImages(**named, tensorflow_server=server)))


def edge_folder(text: str) -> str:
    """A folder of nodes that models may be kept in. Raises Invalid."""
    (folder,) = spelling.folders([text]) or ("",)
    parts = [part for part in folder.split("/") if part]
    if len(parts) < 2 or parts[0] in SYSTEM:
        raise Invalid(f"{text!r} is not a folder for data, such as /var/lib/modelwright", reason="InvalidSetting")
    return "/" + "/".join(parts)


def domain(text: str) -> str:
    """A cluster's DNS domain. Raises Invalid."""
    if not DOMAIN.fullmatch(text):
        raise Invalid(f"{text!r} is not a DNS domain such as cluster.local", reason="InvalidSetting")
    return text


def deadline(text: str) -> int:
    """Whole seconds, as a Deployment wants them. Raises Invalid."""
    found = spelling.seconds(text)
    if found < 1 or found != int(found):
        raise Invalid(f"{text!r} is not a number of whole seconds", reason="InvalidSetting")
    return int(found)
