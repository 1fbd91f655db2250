"""The data directory: private, on a local disk, and used by one process at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from modelwright.ports.errors import Rejected, Unavailable

MOUNTS = Path("/proc/self/mountinfo")
NETWORK_FILE_SYSTEMS = frozenset(
    {
        "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs",
        "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
    }
)  # fmt: skip


class DataDirectory:
    """A data directory that this process holds: created 0700, locked until `release` or the end of the process."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def claim(cls, path: Path) -> DataDirectory:
        """Create the directory if need be and lock it.

        Raises Rejected (NetworkFileSystem: locks and SQLite's log are not safe there, or it cannot be used at all)
        and Unavailable (DataDirectoryInUse), which names the process that holds it.
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = path.resolve()
            _refuse_network_file_system(path)
            return cls(path, _lock(path))
        except OSError as error:
            raise Rejected(
                f"the data directory {path} cannot be used: {error.strerror or error}. "
                "Choose a directory that you may write to with --data-dir",
                reason="DataDirectoryUnusable",
            ) from error

    def release(self) -> None:
        """Let another process have it. A second call does nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _lock(path: Path) -> int:
    descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise Unavailable(
            f"the data directory {path} is in use by process {holder}. "
            "Stop that process, or choose another directory with --data-dir",
            reason="DataDirectoryInUse",
        ) from None
    except OSError:
        os.close(descriptor)
        raise
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _refuse_network_file_system(path: Path) -> None:
    kind = file_system_of(path, MOUNTS.read_text("utf-8", "replace")) if MOUNTS.exists() else ""
    if kind in NETWORK_FILE_SYSTEMS:
        raise Rejected(
            f"the data directory {path} is on a network file system ({kind}), where the database is not safe. "
            "Choose a directory on a local disk with --data-dir",
            reason="NetworkFileSystem",
        )


def file_system_of(path: Path, mountinfo: str) -> str:
    """The type of the file system that holds `path`, by the text of /proc/self/mountinfo; empty if not told."""
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        fields = mount.split(" ")
        if len(fields) < 5 or not source:
            continue
        point = fields[4].replace("\\040", " ")
        # A later line of the same mount point hides an earlier one, hence >=.
        if path.is_relative_to(point) and len(point) >= best:
            best, kind = len(point), source.split(" ", 1)[0]
    return kind
