"""`python -m modelwright.agent.serving.attempt`: one attempt to bring one model, in a process that can be killed.

A `Request` is the one line on standard input; what becomes of it are lines of `Said` on standard output. It ends with
the process that started it, whatever is under way.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from modelwright.agent.ending import SERVING_MEMORY, Words, failure_of
from modelwright.agent.serving.access import Access, advised, bring, is_whole
from modelwright.ports.errors import Invalid, Mismatch, ModelwrightError, Rejected, Retryable
from modelwright.ports.workloads import Failure, ModelImage, ModelSource, Progress

_REPORT_SECONDS = 0.25
_MENDED_ELSEWHERE = frozenset({"DownloadRefused", "SecretInvalid", "CAFileInvalid"})
WORDS = Words(what="download of the model", more_memory=SERVING_MEMORY)

Mended = Literal["soon", "elsewhere", "never"]
"""What may mend a failure: time; somebody, somewhere else (a secret, a registry); a change of the task alone."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Put the verified model into `folder/model`, or verify what is there; with `local`, do no more than that."""

    source: ModelSource
    folder: str
    access: Access
    local: bool = False


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of: what was there is not whole, and is fetched; how far that is; all is done; it failed."""

    fetching: bool = False
    progress: Progress | None = None
    done: bool = False
    failure: Failure | None = None
    mended: Mended = "soon"
    after: float = 0.0
    """Seconds to wait, where the other side said so."""


def main() -> None:
    """Do what standard input asks for."""
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=Request)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    speaker = _Speaker(os.dup(1))
    os.dup2(2, 1)
    try:
        _do(request, speaker)
    except Exception as error:
        speaker.say(failed(error, request.source))
    else:
        speaker.say(Said(done=True))


def _do(request: Request, speaker: _Speaker) -> None:
    folder = Path(request.folder)
    if not request.local:
        begun = Said(fetching=True)
        bring(request.source, folder, request.access, speaker.report, fetching=lambda: speaker.say(begun))
    elif not is_whole(request.source, folder):
        raise Mismatch(f"{folder} does not hold what was put there", reason="ModelChanged")


def failed(error: Exception, source: ModelSource) -> Said:
    """What is said of an error."""
    return Said(
        failure=failure_of(error, WORDS, advised),
        mended=_mended(error, source),
        after=(error.after or 0.0) if isinstance(error, Retryable) else 0.0,
    )


def _mended(error: Exception, source: ModelSource) -> Mended:
    if not isinstance(error, ModelwrightError) or error.retryable:
        return "soon"
    if isinstance(error, Mismatch) and isinstance(source, ModelImage) and error.reason != "ModelChanged":
        return "elsewhere"  # the task names the content: the registry has something else
    if isinstance(error, (Mismatch, Rejected)):
        return "never"
    return "never" if isinstance(error, Invalid) and error.reason not in _MENDED_ELSEWHERE else "elsewhere"


class _Speaker:
    """Progress comes from several threads, and not too often."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._next = 0.0

    def report(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next or done == total:
            self._next = now + _REPORT_SECONDS
            self.say(Said(progress=Progress(done, total)))

    def say(self, said: Said) -> None:
        data = msgspec.json.encode(said) + b"\n"
        with self._lock:
            while data:
                data = data[os.write(self._descriptor, data) :]


def _end_with_parent() -> None:
    with suppress(OSError):  # a reset, when not all was heard
        while os.read(0, 4096):
            pass
    os._exit(0)  # nobody waits for it any more


if __name__ == "__main__":
    main()
