"""Unpack what was downloaded: a tar, a gzipped tar or a zip, told by its first bytes; anything else is one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from modelwright.oci import gunzip as gz
from modelwright.oci import zipdirectory
from modelwright.oci.names import entry_parts, shown
from modelwright.oci.recorder import Recorder
from modelwright.oci.tarstream import BLOCK, is_header
from modelwright.oci.tree import Limits, SafeTree, Unpacked
from modelwright.oci.unpack import refuse_whiteout, unpack_tar
from modelwright.oci.unzip import unpack_zip
from modelwright.ports.errors import Rejected

CONTAINERS = (".jar", ".keras", ".mar", ".mlmodel", ".nemo", ".npz", ".pt", ".pt2", ".pth", ".ptl", ".skops", ".whl")
"""Formats that are a zip or tar inside and are loaded whole: such a name is never unpacked."""

_OTHERS = {
    b"BZh": (".tar.bz2", ".tbz2", ".tbz"),
    b"\xfd7zXZ\0": (".tar.xz", ".txz"),
    b"\x28\xb5\x2f\xfd": (".tar.zst", ".tzst"),
    b"7z\xbc\xaf\x27\x1c": ("",),
    b"Rar!\x1a\x07": ("",),
}
"""Archives we do not read: by magic, and the endings of names by which they are one and not a compressed file."""


def unpack_archive(
    path: Path,
    destination: Path,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    *,
    name: str = "model",
    consume: bool = False,
    recorder: Recorder | None = None,
) -> Unpacked:
    """Unpack `path` into `destination`, made if absent; what is no archive is copied there as `name`.

    `consume`: the file is the caller's own and may be moved instead of copied (within one file system).
    `recorder` notes what each file is that is not moved.

    Only one layer is unpacked: an archive inside stays a file. On an error the caller removes the destination
    (or uses `unpacked_into`). Raises Rejected, or Unavailable (DiskFull).
    """
    with path.open("rb") as file:
        start = file.read(BLOCK)
    kind = "" if name.lower().endswith(CONTAINERS) else _kind(path, start, limits)
    _refuse_others(start, name)
    if kind == "zip":
        return unpack_zip(path, destination, limits, recorder)
    with path.open("rb") as file:
        if kind == "tar":
            return unpack_tar(file, destination, limits, recorder=recorder)
        if kind == "tar.gz":
            return unpack_tar(gz.gunzip(file, limits), destination, limits, recorder=recorder)
        return _place(file, path if consume else None, destination, limits, name, recorder)


def _kind(path: Path, start: bytes, limits: Limits) -> str:
    if start.startswith(zipdirectory.MAGIC):
        return "zip"
    if is_header(start):
        return "tar"
    if start.startswith(gz.MAGIC):
        with path.open("rb") as file:
            return "tar.gz" if is_header(gz.gunzip(file, limits).read(BLOCK)) else ""
    return ""


def _refuse_others(start: bytes, name: str) -> None:
    for magic, endings in _OTHERS.items():
        if start.startswith(magic) and name.lower().endswith(endings):
            raise Rejected(
                f"{shown(name)} is packed in a way that is not supported: use .tar, .tar.gz or .zip",
                reason="ArchiveFormatUnsupported",
            )


def _place(
    file: BinaryIO, own: Path | None, destination: Path, limits: Limits, name: str, recorder: Recorder | None
) -> Unpacked:
    parts = entry_parts(name)
    if len(parts) != 1:
        raise Rejected(f"{shown(name)} is not a file name", reason="ArchiveEscapes")
    refuse_whiteout(parts)
    size = os.fstat(file.fileno()).st_size
    with SafeTree(destination, limits, recorder=recorder) as tree:
        if own is None or not tree.adopt(parts, size, own):
            tree.file(parts, size, file.read)
        return tree.unpacked
