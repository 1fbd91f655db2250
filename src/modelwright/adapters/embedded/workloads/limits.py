"""A memory limit for each worker of a command."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence

from modelwright.adapters.embedded.workloads.memory import Measure
from modelwright.adapters.embedded.workloads.outcome import WorkerState
from modelwright.adapters.embedded.workloads.process import stat
from modelwright.adapters.embedded.workloads.sampler import MemorySampler
from modelwright.ports.workloads import Failure


class WorkerLimits:
    """`over` is told why before a worker is ended for using more than `limit` bytes; the runner ends the others."""

    def __init__(self, sampler: MemorySampler, limit: int, over: Callable[[Failure], None]) -> None:
        self.session = 0
        """The runner's, which all workers are in."""
        self._sampler = sampler
        self._limit = limit
        self._over = over
        self._watched: set[int] = set()

    def watch(self, workers: Sequence[WorkerState]) -> None:
        """Watch those that run, and nobody else."""
        running = {worker.pid: index for index, worker in enumerate(workers) if worker.exit_code is None and worker.pid}
        for pid in self._watched - running.keys():
            self._sampler.release(pid)
        for pid in running.keys() - self._watched if self._limit else ():
            name = f"worker-{running[pid]}" if len(workers) > 1 else "it"
            self._watch(pid, name, alone=len(workers) == 1)
        self._watched = set(running)

    def release(self) -> None:
        """Watch nobody any more."""
        for pid in self._watched:
            self._sampler.release(pid)
        self._watched = set()

    def _watch(self, pid: int, name: str, *, alone: bool) -> None:
        session = self.session
        measure: Measure = (
            (lambda table: table.below(session)) if alone else (lambda table: table.of_worker(pid, session))
        )
        self._sampler.limit(pid, self._limit, lambda used: self._end(pid, name, used), measure)

    def _end(self, pid: int, name: str, used: int) -> None:
        found = stat(pid)
        if found is None or found.session != self.session:
            return  # it has ended meanwhile
        self._over(
            Failure(
                reason="OOMKilled",
                message=f"{name} used {used >> 20} MiB of memory and its limit is {self._limit >> 20} MiB: "
                "raise resources.limits.memory",
            )
        )
        os.killpg(pid, signal.SIGKILL)
