"""Taking a model from a file or folder of this machine, by a `file://` address (RFC 8089)."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote_to_bytes

from modelwright.agent.policy import Policy
from modelwright.oci import digests, folder
from modelwright.oci.recorder import Recorder
from modelwright.oci.tree import Limits, SafeTree, Unpacked
from modelwright.ports.errors import Forbidden, Invalid, NotFound, Rejected
from modelwright.ports.images import Digest

_URL = re.compile(r"file:(?://(?:localhost)?)?(/(?!/)[!-~]+)\Z", re.IGNORECASE)

Moved = Callable[[int], None]


def path_of(url: str, policy: Policy) -> Path:
    """The path that an address names, its parents' links followed, itself no link.

    Raises Invalid (DownloadURLInvalid), NotFound (DownloadNotFound), Forbidden (DownloadPathForbidden),
    Rejected (DownloadIsLink).
    """
    match = _URL.match(url)
    raw = unquote_to_bytes(match[1]) if match and not set(match[1]) & set("?#\\") else b"\0"
    path = Path(os.fsdecode(raw))
    if b"\0" in raw or b".." in raw.split(b"/") or not path.name:
        raise Invalid(
            "the download URL cannot be used: write file:///ABSOLUTE/PATH, without '..', spaces as %20",
            reason="DownloadURLInvalid",
        )
    try:
        resolved = path.parent.resolve(strict=True) / path.name
        mode = resolved.lstat().st_mode
    except (OSError, RuntimeError) as error:
        raise NotFound(f"{path} does not exist or cannot be read on this machine", reason="DownloadNotFound") from error
    if not policy.allow_files or _is_forbidden(resolved, policy):
        raise Forbidden(f"{path} may not be read: take a file outside of it", reason="DownloadPathForbidden")
    if stat.S_ISLNK(mode):
        raise Rejected(f"{path} is a link: name the file or folder itself", reason="DownloadIsLink")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise Rejected(f"{path} is neither a file nor a folder", reason="DownloadIsSpecial")
    return resolved


def _is_forbidden(path: Path, policy: Policy) -> bool:
    """Whether it lies in a forbidden folder, or holds one."""
    if any(path.is_relative_to(place.resolve()) for place in policy.readable_folders):
        return False
    forbidden = [place.resolve() for place in policy.forbidden_folders]
    return any(path.is_relative_to(place) or place.is_relative_to(path) for place in forbidden)


def copy_file(source: Path, target: Path, moved: Moved) -> tuple[Digest, int]:
    """Copy a file to a new one, hashing it: what is verified is what is used, whatever happens to the source."""
    size, running = 0, hashlib.sha256()
    with folder.reading(source):
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as read, target.open("xb", buffering=0) as write:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Rejected(f"{source} is not a file", reason="DownloadIsSpecial")
        while chunk := read.read(digests.CHUNK):
            running.update(chunk)
            view = memoryview(chunk)
            while view:
                view = view[write.write(view) :]
            size += len(chunk)
            moved(len(chunk))
    return digests.finish(running), size


def copy_folder(
    source: Path, destination: Path, limits: Limits, moved: Moved, recorder: Recorder
) -> tuple[Digest, Unpacked]:
    """Copy a folder's regular files and folders, and note what each file is; links and special files are refused.

    The digest is that of the lines `HEX  PATH` that `sha256sum` prints for all files, sorted by path.
    """
    found, lines = folder.scan(source), []
    with SafeTree(destination, limits, recorder=recorder) as tree:
        for entry in found.entries:
            parts = tuple(entry.path.split("/"))
            if entry.directory:
                tree.folder(parts)
            else:
                _copy_entry(found, entry, parts, tree, moved)
                lines.append(f"{recorder.files[entry.path].sha256}  {entry.path}\n")
        return digests.of("".join(lines).encode()), tree.unpacked


def _copy_entry(
    found: folder.Folder, entry: folder.Entry, parts: tuple[str, ...], tree: SafeTree, moved: Moved
) -> None:
    with os.fdopen(found.open_file(entry), "rb", buffering=0) as file:

        def read(count: int) -> bytes:
            chunk = file.read(count)
            moved(len(chunk))
            return chunk

        tree.file(parts, entry.size, read)
        found.check(entry, file.fileno())
