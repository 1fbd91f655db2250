"""Why a container has ended, where Kubernetes reads it."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from modelwright.ports.job import TERMINATION_LIMIT, Report
from modelwright.ports.workloads import Failure

log = logging.getLogger("modelwright.server")

_LONGEST = 2000
_MARK = "…"


def write_failure(path: Path | None, failure: Failure) -> None:
    """Writes a Report of TERMINATION_LIMIT bytes at most; where that cannot be done, the log says so."""
    if path is None:
        return
    try:  # the file is mounted: nothing can be renamed over it
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(_encoded(failure))
    except OSError as error:
        log.error("the termination message cannot be written to %s: %s", path, error)


def _encoded(failure: Failure) -> bytes:
    plain = failure.message.encode("utf-8", "backslashreplace").decode()
    longest = min(len(plain), _LONGEST)
    while True:
        message = plain if longest == len(plain) else plain[:longest] + _MARK
        report = msgspec.json.encode(Report(failure=msgspec.structs.replace(failure, message=message)))
        if len(report) <= TERMINATION_LIMIT:
            return report
        longest = longest * 3 // 4
