"""Requests that go on while something happens to the server."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.request
from pathlib import Path
from typing import Any

from tests.e2e.plane import until

DIGIT = [0.0, 0, 5, 13, 9, 1, 0, 0, 0, 0, 13, 15, 10, 15, 5, 0, 0, 3, 15, 2, 0, 11, 8, 0, 0, 4, 12, 0, 0, 8, 8, 0]
DIGIT += [0, 5, 8, 0, 0, 9, 8, 0, 0, 4, 11, 0, 1, 12, 7, 0, 0, 2, 14, 5, 10, 12, 0, 0, 0, 0, 6, 13, 10, 0, 0, 0]
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def predict(url: str, rows: list[list[float]] | None = None) -> Any:
    """The predictions for these rows, by TensorFlow Serving's REST. Raises OSError or HTTPException."""
    body = json.dumps({"instances": rows or [DIGIT]}).encode()
    request = urllib.request.Request(f"{url}:predict", body, {"Content-Type": "application/json"})
    with OPENER.open(request, timeout=60) as answer:
        return json.load(answer)["predictions"]


def served_version(url: str) -> str:
    """The version that answers now, as the response says it."""
    body = json.dumps({"instances": [DIGIT]}).encode()
    request = urllib.request.Request(f"{url}:predict", body, {"Content-Type": "application/json"})
    with OPENER.open(request, timeout=60) as answer:
        return str(answer.headers["X-Model-Version"])


class Load:
    """Requests from several threads, over kept and over fresh connections, until the end of the block."""

    def __init__(self, url: str, threads: int = 4) -> None:
        self.sent = 0
        self.failures: list[str] = []
        self._url = url
        self._stop = threading.Event()
        self._lock = threading.Lock()
        kinds = [self._kept, self._fresh]
        self._threads = [threading.Thread(target=kinds[number % 2]) for number in range(threads)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def more(self, count: int = 30) -> None:
        """Wait until so many more have been sent."""
        goal = self.sent + count
        until(lambda: self.sent >= goal, f"{count} more requests")

    def _fresh(self) -> None:
        while not self._stop.is_set():
            try:
                predict(self._url)
                self._count()
            except (OSError, http.client.HTTPException) as error:
                self._count(repr(error))

    def _kept(self) -> None:
        host, _, path = self._url.removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(host, timeout=60)
        body = json.dumps({"instances": [DIGIT]})
        while not self._stop.is_set():
            try:
                connection.request("POST", f"/{path}:predict", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                self._count("" if answer.status == 200 else f"HTTP {answer.status}")
            except (OSError, http.client.HTTPException) as error:
                self._count(repr(error))
                connection.close()
        connection.close()

    def _count(self, failure: str = "") -> None:
        with self._lock:
            self.sent += 1
            if failure:
                self.failures.append(failure)


def sha256(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()
