"""The models that are kept: each is verified or fetched by a process of its own, again and again if need be."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from modelwright.agent.serving.access import Access
from modelwright.agent.serving.attempt import Request, Said
from modelwright.agent.serving.child import Child
from modelwright.agent.serving.timing import Timing
from modelwright.ports.workloads import Failure, ModelSource, Progress

AT_ONCE = 2
"""Attempts under way, besides those for what is served first."""
_WORTH = 1 << 20
Clock = Callable[[], float]


class Held:
    """One model: on its way, here, or failed until it is tried again. What is `local` is verified, never fetched."""

    def __init__(self, source: ModelSource, folder: Path, *, local: bool) -> None:
        self.source, self.folder, self.local = source, folder, local
        self.here = False
        self.fetched = False
        """Whether it was brought anew since somebody last asked."""
        self.progress: Progress | None = None
        self.failure: Failure | None = None
        self.child: Child | None = None
        self.due: float | None = 0.0
        """When to try; None: not any more, or it is here."""
        self._pause = 0.0
        self._began = -1

    @property
    def path(self) -> str:
        return str(self.folder / "model")

    def hurry(self) -> None:
        """Try again at once what has failed."""
        if self.failure is not None and self.child is None:
            self.failure, self.due, self._pause = None, 0.0, 0.0

    def doubt(self) -> None:
        """Verify it again."""
        if self.child is None:
            self.due = 0.0

    def begin(self, access: Access) -> None:
        """Start an attempt. Raises OSError."""
        self.due, self._began = None, -1
        self.child = Child(Request(source=self.source, folder=str(self.folder), access=access, local=self.local))

    def stop(self) -> None:
        """End what is under way."""
        if self.child is not None:
            self.child.kill()
            self.child = None

    def listen(self, timing: Timing, now: float) -> None:
        """Take up what has become of the attempt."""
        if self.child is None:
            return
        for said in self.child.listen():
            self._take(said, timing, now)
        if self.child.ended:
            self.child = None

    def _take(self, said: Said, timing: Timing, now: float) -> None:
        if said.fetching:
            self.here, self.fetched = False, True
        elif said.progress is not None:
            self._moved(said.progress)
        elif said.done:
            self.here, self.progress, self.failure, self._pause = True, None, None, 0.0
        elif said.failure is not None:
            self.here, self.progress = False, None
            self.failed(said, timing, now)

    def _moved(self, progress: Progress) -> None:
        if self._began < 0:
            self._began = progress.bytes_done
        if progress.bytes_done > self._began:
            self.failure = None
        if progress.bytes_done - self._began >= _WORTH:
            self._pause = 0.0
        self.progress = progress

    def failed(self, said: Said, timing: Timing, now: float) -> None:
        """Remember why, and when to try again."""
        self.failure = said.failure
        if said.mended == "never":
            self.due = None
            return
        self._pause = min(max(self._pause * 2, timing.first_pause), timing.longest_pause)
        wait = timing.elsewhere_pause if said.mended == "elsewhere" else max(self._pause, min(said.after, 300.0))
        self.due = now + wait * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load only


class Shelf:
    """All models of a folder, by key."""

    def __init__(self, timing: Timing, clock: Clock = time.monotonic) -> None:
        self.held: dict[str, Held] = {}
        self._timing, self._clock = timing, clock

    def want(self, folder: Path, sources: Mapping[str, ModelSource], local: Mapping[str, ModelSource]) -> None:
        """Hold these, and those of `local` that are here; stop bringing others."""
        wanted = {**local, **sources}
        for key, held in list(self.held.items()):
            if key not in wanted or (held.local and key in sources):
                held.stop()
                del self.held[key]
        for key, source in wanted.items():
            if key not in self.held:
                self.held[key] = Held(source, folder / key, local=key not in sources)

    def hurry(self) -> None:
        """Try at once what has failed."""
        for held in self.held.values():
            held.hurry()

    def step(self, access: Access, first: Iterable[str]) -> None:
        """Listen to all attempts, and start those that are due; `first` wait for no others."""
        now = self._clock()
        for held in self.held.values():
            held.listen(self._timing, now)
        urgent = [key for key in first if key in self.held]
        for key in urgent:
            self._begin(self.held[key], access, now)
        for key, held in self.held.items():
            under_way = sum(1 for other, each in self.held.items() if each.child and other not in urgent)
            if key not in urgent and under_way < AT_ONCE:
                self._begin(held, access, now)

    def children(self) -> list[Child]:
        """All attempts under way."""
        return [held.child for held in self.held.values() if held.child is not None]

    def stop(self) -> None:
        """End all attempts."""
        for held in self.held.values():
            held.stop()

    def _begin(self, held: Held, access: Access, now: float) -> None:
        if held.child is not None or held.due is None or held.due > now:
            return
        try:
            held.begin(access)
        except OSError as error:
            told = Failure("SystemError", f"no process can be started: {error}", retryable=True)
            held.failed(Said(failure=told), self._timing, now)
