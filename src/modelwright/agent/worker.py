"""A warm worker: does one request after the other for the program that started it, and ends with it.

A request is a line of JSON on standard input; `moved`, then `done` or `failed` are lines on standard output
(`ports.worker` says what they hold). What anything prints goes to standard error.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO

import msgspec

from modelwright.agent.build import LocalRegistry, build
from modelwright.agent.model import obtain
from modelwright.ports.errors import ModelwrightError
from modelwright.ports.worker import Built, Done, Failed, Moved, Obtain, Obtained, Reply, Request
from modelwright.ports.workloads import Failure

_REPORT_SECONDS = 0.2


_decoder: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)


def main() -> None:
    """Serve requests until standard input ends, which is when the program that started us has."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    while True:
        _Answering(replies).answer(requests.get())


def _listen(stream: BinaryIO, requests: queue.SimpleQueue[bytes]) -> None:
    for line in stream:
        requests.put(line)
    os._exit(0)  # nobody waits for an answer any more, whatever is under way


class _Answering:
    """One request and what is said about it; progress comes from several threads, and not too often."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._next = time.monotonic() + _REPORT_SECONDS

    def answer(self, line: bytes) -> None:
        try:
            result = self._do(_decoder.decode(line))
        except ModelwrightError as error:
            self._fail(error.reason, error.message, retryable=error.retryable)
        except OSError as error:
            self._fail("SystemError", f"the system refused: {error}", retryable=True)
        except Exception as error:
            self._fail("WorkerFailed", f"{type(error).__name__}: {error}", retryable=True)
        else:
            self._say(Done(msgspec.Raw(msgspec.json.encode(result))))

    def _do(self, request: Request) -> Built | Obtained:
        registry = LocalRegistry(request.registry_host, Path(request.registry_storage))
        forbidden = tuple(Path(path) for path in request.forbidden)
        if isinstance(request, Obtain):
            secret = Path(request.secret) if request.secret else None
            return obtain(
                request.source,
                Path(request.folder),
                registry,
                forbidden=forbidden,
                readable=tuple(Path(path) for path in request.readable),
                secret=secret,
                report=self._report,
            )
        return build(
            request.action,
            registry,
            forbidden=forbidden,
            credentials=Path(request.push_secret) / ".dockerconfigjson" if request.push_secret else None,
            report=self._report,
        )

    def _report(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _REPORT_SECONDS
            self._say(Moved(done, total))

    def _fail(self, reason: str, message: str, *, retryable: bool) -> None:
        self._say(Failed(Failure(reason=reason, message=message, retryable=retryable)))

    def _say(self, reply: Reply) -> None:
        data = msgspec.json.encode(reply) + b"\n"
        with self._lock:
            while data:
                data = data[self._stream.write(data) :]


if __name__ == "__main__":
    main()
