"""Which command writes which folders: two at once would mix their files, and both would be called the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from modelwright.ports.workloads import HostPath, Mount

Key = tuple[str, str]
"""The owner's UID and the workload's name."""


def written(mounts: Sequence[Mount]) -> frozenset[Path]:
    """The folders of this machine that a command may write to."""
    volumes = (mount.volume for mount in mounts if not mount.read_only)
    return frozenset(Path(volume.path).resolve() for volume in volumes if isinstance(volume, HostPath))


class Writers:
    """Gives each folder to one command at a time, with all that lies in it."""

    def __init__(self) -> None:
        self._folders: dict[Key, frozenset[Path]] = {}
        self._names: dict[Key, str] = {}
        self._pulse = asyncio.Event()

    async def alone(self, key: Key, name: str, folders: frozenset[Path], waiting: Callable[[str], None]) -> None:
        """Return once nobody else writes there; `waiting` is told for whom it has to wait."""
        while (others := self._in_the_way(key, folders)) is not None:
            waiting(others)
            await self._pulse.wait()
        self.hold(key, name, folders)

    def hold(self, key: Key, name: str, folders: frozenset[Path]) -> None:
        """It writes there already."""
        self._folders[key], self._names[key] = folders, name

    def release(self, key: Key) -> None:
        """It has ended. One that holds nothing is no error."""
        self._names.pop(key, None)
        if self._folders.pop(key, None):
            pulse, self._pulse = self._pulse, asyncio.Event()
            pulse.set()

    def _in_the_way(self, key: Key, folders: frozenset[Path]) -> str | None:
        for other, held in self._folders.items():
            for folder in held if other != key else ():
                if any(mine.is_relative_to(folder) or folder.is_relative_to(mine) for mine in folders):
                    return f"{folder} is still written by {self._names[other]}"
        return None
