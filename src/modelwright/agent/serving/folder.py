"""The folder of the node in which models are kept, and what is written down there besides them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection
from pathlib import Path

import msgspec

from modelwright.agent.serving.keys import is_key
from modelwright.oci.disk import disk_errors, remove_tree
from modelwright.ports.serving import ServeTask
from modelwright.ports.workloads import ServedVersion


class Served(msgspec.Struct, frozen=True, rename="camel"):
    """What was served last, so that it is served again after a restart while the wanted version cannot be had."""

    model_name: str
    framework: str
    version: ServedVersion

    def fits(self, task: ServeTask) -> bool:
        """Whether it can stand in for what the task wants."""
        return (self.model_name, self.framework) == (task.model_name, task.framework)


class ModelsFolder:
    """One keeper at a time has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._record = path / ".served.json"
        self._descriptor: int | None = None

    def lock(self) -> bool:
        """Whether it is ours: another keeper may still be on its way out. Raises OSError."""
        if self._descriptor is None:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return False
            self._descriptor = descriptor
        return True

    def unlock(self) -> None:
        """Let others have it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def served(self) -> Served | None:
        """What was served last, if that is known."""
        try:
            return msgspec.json.decode(self._record.read_bytes(), type=Served)
        except (OSError, msgspec.MsgspecError):
            return None

    def remember(self, served: Served) -> None:
        """Write down what is served. Raises OSError, Unavailable (DiskFull)."""
        fresh = self._record.with_name(f"{self._record.name}.new")
        with disk_errors():
            fresh.write_bytes(msgspec.json.encode(served))
            fresh.replace(self._record)

    def others(self, kept: Collection[str]) -> list[str]:
        """The models that are here besides those. Raises OSError."""
        with os.scandir(self.path) as entries:
            return sorted(entry.name for entry in entries if is_key(entry.name) and entry.name not in kept)

    def remove(self, name: str) -> None:
        """Remove a model; of a link, only the link. Raises OSError."""
        path = self.path / name
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
        else:
            remove_tree(path)
