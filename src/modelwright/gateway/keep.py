"""Keeps hard examples for the next training. Nothing here holds a request up, or makes it fail."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from modelwright.gateway.kept import KeptFolder
from modelwright.gateway.metrics import Metrics
from modelwright.gateway.pose import Request
from modelwright.gateway.tensors import Spec, Tensor
from modelwright.http.asgi import RequestError

WRITE_SECONDS = 0.25
PUBLISH_SECONDS = 10.0
PAUSE_SECONDS = 5.0
MOST_WAITING = 1024
MOST_BYTES = 64 * 1024 * 1024
_VALUE_BYTES = 32  # a number and its place in a list

log = logging.getLogger("modelwright.gateway")


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """The hard rows of one request; `rows` is None if it cannot be divided.

    `edge` has all rows of the edge model's answer, `cloud` the hard ones of the cloud model's, None if it gave none;
    `reason` says why.
    """

    request: Request
    specs: Sequence[Spec] | None
    rows: tuple[int, ...] | None
    edge: dict[str, Tensor]
    edge_version: str
    cloud: dict[str, Tensor] | None
    cloud_version: str
    reason: str
    at: float = msgspec.field(default_factory=time.time)


class Keeper:
    """Writes examples to a folder, in a thread of its own. Use it from one event loop; start it, and close it."""

    def __init__(
        self, service: str, folder: Path, max_bytes: int, metrics: Metrics, changed: Callable[[], None]
    ) -> None:
        self.place = (folder, max_bytes)
        self.told = 0
        """The size that was told last; `changed` is called when it is another."""
        self.service = service
        self._folder = KeptFolder(folder, max_bytes)
        self._metrics = metrics
        self._changed = changed
        self._waiting: deque[Example] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._closing = False
        self._paused_until = 0.0
        self._opened = False
        self._tell_from = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keeper")
        self._task: asyncio.Task[None] | None = None

    @property
    def size(self) -> int:
        """Bytes in the folder, as far as is known."""
        return self._folder.size

    def start(self) -> None:
        """Begin to write."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def aclose(self) -> None:
        """Write what waits, and finish the present file."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await self._task
        self._thread.shutdown()

    def offer(self, example: Example) -> None:
        """Keep it, unless too much waits already."""
        size = _bytes(example)
        if len(self._waiting) >= MOST_WAITING or self._bytes + size > MOST_BYTES:
            self._metrics.not_kept["TooManyWaiting"] += _rows(example)
            return
        self._waiting.append(example)
        self._bytes += size
        self._wake.set()

    async def _run(self) -> None:
        while True:
            closing = self._closing
            await self._write(closing=closing)
            self._tell(at_once=closing)
            if closing:
                return
            await self._rest()

    def _tell(self, *, at_once: bool) -> None:
        """Others hear of a new size now and then: somebody may write it down each time."""
        now = asyncio.get_running_loop().time()
        if self.size != self.told and (at_once or now >= self._tell_from):
            self.told, self._tell_from = self.size, now + PUBLISH_SECONDS
            self._changed()

    async def _rest(self) -> None:
        """Until there is something to write, and a moment longer: what comes in that moment is written with it."""
        try:
            async with asyncio.timeout(PUBLISH_SECONDS):  # wait_for of Python 3.11 can swallow a cancellation
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()
        if not self._closing:
            await asyncio.sleep(WRITE_SECONDS)

    async def _write(self, *, closing: bool) -> None:
        examples = tuple(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        count = sum(map(_rows, examples))
        if asyncio.get_running_loop().time() < self._paused_until and not closing:
            self._metrics.not_kept["DiskError"] += count
            return
        try:
            kept = await asyncio.get_running_loop().run_in_executor(self._thread, self._in_thread, examples, closing)
        except OSError as error:
            self._opened = False
            self._pause(error)
            self._metrics.not_kept["DiskError"] += count
            return
        except Exception:
            log.exception("hard examples cannot be written down")
            self._metrics.not_kept["CannotBeWritten"] += count
            return
        self._metrics.kept += kept
        if kept < count:
            self._metrics.not_kept["TooLong"] += count - kept

    def _in_thread(self, examples: Sequence[Example], closing: bool) -> int:
        if not self._opened:
            self._folder.open()
            self._opened = True
        kept = self._folder.write(line for example in examples for line in self._lines(example)) if examples else 0
        self._folder.publish(0.0 if closing else PUBLISH_SECONDS)
        return kept

    def _lines(self, example: Example) -> Sequence[bytes]:
        """Those of one example; none if they cannot be written, which must not keep others from being kept."""
        try:
            return tuple(lines(example, self.service))
        except Exception:
            log.exception("a hard example cannot be written down")
            return ()

    def _pause(self, error: OSError) -> None:
        """A disk that is full is not asked again at once, and not spoken of each time."""
        now = asyncio.get_running_loop().time()
        if now > self._paused_until + PAUSE_SECONDS:
            log.error("hard examples cannot be kept in %s: %s", self.place[0], error.strerror or error)
        self._paused_until = now + PAUSE_SECONDS


def _bytes(example: Example) -> int:
    """About what an example holds: the request, and what both models said, which may be much more."""
    told = (*example.edge.values(), *(example.cloud or {}).values())
    return example.request.size + sum(map(_held, told))


def _held(tensor: Tensor) -> int:
    if tensor.flat is None:
        return len(tensor.blob or b"")
    return _VALUE_BYTES * len(tensor.flat) + sum(len(value) for value in tensor.flat if isinstance(value, str))


def _rows(example: Example) -> int:
    return 1 if example.rows is None else len(example.rows)


def lines(example: Example, service: str) -> Iterator[bytes]:
    """A line of JSON for each hard row, in the order of rows. A number that JSON cannot spell is null."""
    try:
        inputs = example.request.tensors(example.specs)
    except (RequestError, ValueError):
        return  # a model took what nobody else can read
    at = datetime.fromtimestamp(example.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    for place, row in enumerate(example.rows if example.rows is not None else (None,)):
        cloud = None
        if example.cloud is not None:
            outputs = _values(example.cloud.values(), None if row is None else place)
            cloud = {"version": example.cloud_version, "outputs": outputs}
        yield msgspec.json.encode(
            {
                "time": at,
                "service": service,
                "inputs": _values(inputs, row),
                "edge": {"version": example.edge_version, "outputs": _values(example.edge.values(), row)},
                "cloud": cloud,
                "reason": example.reason,
            }
        )


def _values(tensors: Any, row: int | None) -> dict[str, Any]:
    """The values of one row, or of all."""
    return {tensor.name: tensor.nested() if row is None else tensor.take((row,)).nested()[0] for tensor in tensors}
