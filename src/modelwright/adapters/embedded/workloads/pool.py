"""Warm worker processes: one is kept ready, more are started for work that waits, and ended when idle."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from modelwright.adapters.embedded.workloads.process import NONCE, Process, new_nonce, spawn
from modelwright.adapters.embedded.workloads.sampler import MemorySampler
from modelwright.adapters.embedded.workloads.timing import Timing
from modelwright.ports import worker as messages
from modelwright.ports.errors import ModelwrightError, Retryable, Terminal, Unavailable
from modelwright.ports.workloads import Failure, Progress

COMMAND = (sys.executable, "-m", "modelwright.agent.worker")
_LONGEST_LINE = 4 * 1024 * 1024
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[messages.Reply] = msgspec.json.Decoder(messages.Reply)


def error_of(failure: Failure) -> ModelwrightError:
    """The error that a failure stands for."""
    kind = Retryable if failure.retryable else Terminal
    return kind(failure.message, reason=failure.reason)


class WorkerPool:
    """Runs requests in worker processes. A cancelled request ends its worker and what it had half done."""

    def __init__(self, folder: Path, domain: str, timing: Timing, sampler: MemorySampler) -> None:
        self._folder = folder
        self._domain = domain
        self._timing = timing
        self._sampler = sampler
        self._idle: list[_Worker] = []
        self._workers: set[_Worker] = set()
        self._busy = asyncio.Semaphore(os.cpu_count() or 1)
        self._moving = asyncio.Semaphore(4)
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def start(self) -> None:
        """Remove what former workers left and warm the first one, if the disk allows it."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._idle.append(self._new())

    def close(self) -> None:
        """End all workers; what they were doing fails."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for worker in list(self._workers):
            self._discard(worker)

    async def run(
        self, request: messages.Request, progress: Callable[[Progress], None], begun: Callable[[], None] | None = None
    ) -> msgspec.Raw:
        """Do it in a worker. Raises what the worker says, and Unavailable if it died."""
        limit = self._busy if isinstance(request, messages.Build) else self._moving
        async with limit:
            worker = self._take()
            session = worker.process.identity.pid
            self._sampler.limit(session, self._timing.worker_memory, worker.over_limit)
            if begun is not None:
                begun()
            try:
                result = await worker.ask(_encoder.encode(request), progress)
            except (Retryable, Terminal) as error:
                if error.reason == "WorkerDied":
                    self._discard(worker)
                else:
                    self._give_back(worker)
                raise
            except BaseException:
                self._discard(worker)
                raise
            finally:
                self._sampler.release(session)
            self._give_back(worker)
            return result

    def _take(self) -> _Worker:
        if self._closed:
            raise Unavailable("the program is stopping", reason="Interrupted")
        while self._idle:
            worker = self._idle.pop()
            if worker.process.is_alive():
                return worker
            self._discard(worker)
        return self._new()

    def _give_back(self, worker: _Worker) -> None:
        if self._closed or worker.process.exited:
            self._discard(worker)
            return
        worker.idle_since = time.monotonic()
        self._idle.append(worker)
        if self._timer is None and len(self._workers) > 1:
            self._timer = asyncio.get_running_loop().call_later(self._timing.worker_idle, self._thin)

    def _thin(self) -> None:
        """End workers that have idled, but one."""
        self._timer = None
        oldest = time.monotonic() - self._timing.worker_idle
        for worker in list(self._idle):
            if worker.idle_since <= oldest and len(self._workers) > 1:
                self._idle.remove(worker)
                self._discard(worker)
        if len(self._workers) > 1:
            self._timer = asyncio.get_running_loop().call_later(self._timing.worker_idle, self._thin)

    def _new(self) -> _Worker:
        worker = _Worker(self._folder, new_nonce(self._domain), self._died)
        self._workers.add(worker)
        return worker

    def _died(self, worker: _Worker) -> None:
        """An idle worker that was killed is replaced, so that one stays warm."""
        if worker in self._idle:
            self._idle.remove(worker)
            self._discard(worker)
            if not self._closed and not self._workers:
                asyncio.get_running_loop().call_later(1.0, self._warm)

    def _warm(self) -> None:
        if not self._closed and not self._workers:
            self._idle.append(self._new())

    def _discard(self, worker: _Worker) -> None:
        self._workers.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        worker.end()


class _Worker:
    """One worker process and the socket that is its standard input and output."""

    def __init__(self, folder: Path, nonce: str, died: Callable[[_Worker], None]) -> None:
        self.scratch = folder / nonce
        self.scratch.mkdir(mode=0o700, parents=True)
        self.idle_since = time.monotonic()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._killed_for = ""
        self._ours, theirs = socket.socketpair()
        with theirs:
            env = {**os.environ, NONCE: nonce, "TMPDIR": str(self.scratch)}
            identity = spawn(COMMAND, env=env, stdin=theirs.fileno(), output=theirs.fileno(), error=None)
        self.process = Process(identity, nonce, lambda: died(self))

    async def ask(self, request: bytes, progress: Callable[[Progress], None]) -> msgspec.Raw:
        """One request and its answer."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(sock=self._ours, limit=_LONGEST_LINE)
            reader, writer = self._streams
            writer.write(request + b"\n")
            while line := await reader.readline():
                reply = _decoder.decode(line)
                if isinstance(reply, messages.Done):
                    return reply.result
                if isinstance(reply, messages.Failed):
                    raise error_of(reply.failure)
                progress(Progress(bytes_done=reply.bytes_done, bytes_total=reply.bytes_total))
        except (OSError, ValueError) as error:
            self._killed_for = self._killed_for or f" ({error})"
        raise Unavailable(
            f"the worker process ended before it was done{self._killed_for}; it is tried again", reason="WorkerDied"
        )

    def over_limit(self, used: int) -> None:
        self._killed_for = f" (it used {used >> 20} MiB of memory, more than it may)"
        self.process.kill_all()

    def end(self) -> None:
        """Kill it and remove its temporary files."""
        self.process.kill_all()
        self._reap()
        if self._streams is not None:
            self._streams[1].close()
        else:
            self._ours.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _reap(self) -> None:
        """Wait for the kernel to take it away: it has been killed, so this is short."""
        if not self.process.exited:
            self.process.close()
            try:
                os.waitpid(self.process.identity.pid, 0)
            except ChildProcessError:
                pass
