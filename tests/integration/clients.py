"""Clients of a server under test that note every fault."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

A = TypeVar("A")
C = TypeVar("C", bound="Connection")


def wait_for(condition: Callable[[], Any], what: str, seconds: float) -> Any:
    """The first true value of the condition; fails after a generous deadline."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {seconds} s for {what}")


class Connection:
    """One connection, kept open as long as the server allows."""

    def __init__(self, port: int, seconds: float) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Asking(Generic[C, A]):
    """Threads that ask without a pause: half on connections that stay, half on new ones."""

    def __init__(self, connect: Callable[[], C], seconds: float) -> None:
        self.answers: list[A] = []
        self.faults: list[str] = []
        self._connect, self._seconds = connect, seconds
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(fresh,)) for fresh in (False, False, True, True)]

    def ask(self, client: C) -> A:
        """One answer; what it raises is a fault."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(self._seconds)

    def _run(self, fresh: bool) -> None:
        client = self._connect()
        while not self._stop.is_set():
            try:
                self.answers.append(self.ask(client))
            except Exception as error:
                self.faults.append(repr(error))
                client.close()
            if fresh:
                client.close()
        client.close()

    def more(self, count: int = 20) -> None:
        """Waits for some more answers."""
        goal = len(self.answers) + count
        wait_for(lambda: len(self.answers) >= goal or self.faults, "answers under load", self._seconds)
