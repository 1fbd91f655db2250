"""What every part of the registry's server needs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from modelwright.oci.staging import Staged
from modelwright.oci.storage import ImageStorage
from modelwright.oci.stored import StoredRepository

if TYPE_CHECKING:
    from hashlib import _Hash

T = TypeVar("T")

_THREADS = 16
_KEPT = 256


class Running:
    """The hashes of uploads between their requests; one that is missing is made anew from the file."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[str, tuple[int, _Hash]] = OrderedDict()

    def take(self, name: str) -> tuple[int, _Hash] | None:
        """How many bytes were hashed, and their hash, which is the caller's now."""
        return self._hashes.pop(name, None)

    def keep(self, staged: Staged) -> None:
        """Remember a file's hash, if it is known."""
        if staged.hashed is not None:
            self._hashes[staged.id] = staged.hashed
        while len(self._hashes) > _KEPT:
            self._hashes.popitem(last=False)


class Registry:
    """The storage, its limits, and threads of our own for its blocking work."""

    def __init__(self, storage: ImageStorage, max_blob_bytes: int) -> None:
        self.storage = storage
        self.max_blob_bytes = max_blob_bytes
        self.running = Running()
        self._limiter: CapacityLimiter | None = None

    async def work(self, function: Callable[[], T]) -> T:
        """Call it in a thread: a slow disk must not hold up other requests."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(_THREADS)
        return await to_thread.run_sync(function, limiter=self._limiter)


class Call(msgspec.Struct, frozen=True):
    """One request to one repository; `target` is the last part of the path: a tag, digest or upload."""

    registry: Registry
    request: Request
    repository: StoredRepository
    target: str = ""

    def url(self, *parts: str) -> str:
        """The path of something in this repository, for Location headers."""
        root = self.request.scope.get("root_path", "")
        return "/".join((root, self.repository.name, *parts))
