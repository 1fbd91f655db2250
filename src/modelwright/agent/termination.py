"""The termination message of a container: a `Report` that always fits, and that is written once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from modelwright.ports.job import TERMINATION_LIMIT, Report
from modelwright.ports.workloads import BuildResult, Failure

_MAX_REASON = 100
_CUT = "…"


def fit(report: Report) -> bytes:
    """The report as JSON of at most TERMINATION_LIMIT bytes: metrics are left out first, then texts are cut."""
    if report.result is not None:
        return _fit_result(report.result)
    if report.failure is not None:
        return _fit_failure(report.failure)
    return msgspec.json.encode(report)


class Termination:
    """The file that Kubernetes reads when the container has ended. The first report counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._written = False

    def write(self, report: Report) -> bool:
        """Write it unless there is one already, which is False. Raises OSError.

        The file is mounted, so that nothing can be renamed over it: it is emptied, then written in one go. What is cut
        off is no JSON.
        """
        return self.write_bytes(fit(report))

    def write_bytes(self, data: bytes) -> bool:
        """As `write`, for a report that is encoded already."""
        with self._lock:
            if self._written:
                return False
            self._written = True
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                while data:
                    data = data[os.write(descriptor, data) :]
            finally:
                os.close(descriptor)
            return True


def _fit_result(result: BuildResult) -> bytes:
    result = msgspec.structs.replace(
        result, metrics_ignored=_plain(result.metrics_ignored), provenance_refused=_plain(result.provenance_refused)
    )
    if not _fits(Report(result=result)) and result.metrics:
        result = _without_metrics(result)
    for field in ("provenance_refused", "metrics_ignored"):
        result = _with_cut_text(result, field)
    return msgspec.json.encode(Report(result=result))


def _without_metrics(result: BuildResult) -> BuildResult:
    note = (
        f"{len(result.metrics)} metrics do not fit into what a build can report ({TERMINATION_LIMIT} bytes): "
        "write fewer, with shorter names"
    )
    return msgspec.structs.replace(result, metrics={}, metrics_ignored=note)


def _with_cut_text(result: BuildResult, field: str) -> BuildResult:
    def changed(text: str) -> BuildResult:
        return msgspec.structs.replace(result, **{field: text})

    return changed(_cut(getattr(result, field), lambda text: _fits(Report(result=changed(text)))))


def _fit_failure(failure: Failure) -> bytes:
    reason = _plain(failure.reason)[:_MAX_REASON]

    def changed(text: str) -> Report:
        return Report(failure=msgspec.structs.replace(failure, reason=reason, message=text))

    return msgspec.json.encode(changed(_cut(_plain(failure.message), lambda text: _fits(changed(text)))))


def _cut(text: str, fits: Callable[[str], bool]) -> str:
    """The text, or as many of its first characters as fit, and a mark."""
    if fits(text):
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(text[:middle] + _CUT) else (low, middle - 1)
    return text[:low] + _CUT if low else ""


def _fits(report: Report) -> bool:
    return len(msgspec.json.encode(report)) <= TERMINATION_LIMIT


def _plain(text: str) -> str:
    """Names of files may hold what is no text."""
    return text.encode("utf-8", "backslashreplace").decode()
