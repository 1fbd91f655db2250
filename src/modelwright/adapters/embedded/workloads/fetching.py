"""Having the models and datasets of a command here before it starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from modelwright.adapters.embedded.workloads.cache import Held, ModelCache
from modelwright.ports.errors import Terminal
from modelwright.ports.workloads import Download, Failure, ModelSource, Progress

_LOGIN = re.compile(r"(?<=://)[^/?#]*@")

Tell = Callable[[Progress | None, Failure | None], None]
"""Called with the bytes moved for all of them, and with what one of them waits for before it is tried again."""


async def fetch(
    cache: ModelCache, sources: Sequence[ModelSource], namespace: str, tell: Tell
) -> dict[ModelSource, Held]:
    """All of them, at once; one that failed before is tried anew. Raises Terminal for what no trying mends."""
    held = {source: cache.look(source, namespace, anew=True) for source in sources}
    sums = _Sums(held)
    while not all(model.ready for model in held.values()):
        failures = [_named(source, model.failure) for source, model in held.items() if model.failure is not None]
        for failure in failures:
            if not failure.retryable:
                raise Terminal(failure.message, reason=failure.reason)
        tell(sums.add_up(), failures[0] if failures else None)
        await cache.changed()
    return held


def _named(source: ModelSource, failure: Failure) -> Failure:
    """The failure with where it was read from, if it does not say that: there may be several."""
    place = _LOGIN.sub("", source.url) if isinstance(source, Download) else source.image
    if place.removeprefix("file://") in failure.message:
        return failure
    return msgspec.structs.replace(failure, message=f"{place}: {failure.message}")


class _Sums:
    """Adds up the progress of several; what one has come to still counts when it is there."""

    def __init__(self, held: dict[ModelSource, Held]) -> None:
        self._held = held
        self._last: dict[ModelSource, Progress] = {}

    def add_up(self) -> Progress | None:
        for source, model in self._held.items():
            if model.progress is not None:
                self._last[source] = model.progress
            elif model.ready and source in self._last:
                done = self._last[source].bytes_done
                self._last[source] = Progress(done, done)
        if not self._last:
            return None
        totals = [self._last[source].bytes_total if source in self._last else 0 for source in self._held]
        total = sum(totals) if all(totals) else 0
        return Progress(sum(progress.bytes_done for progress in self._last.values()), total)
