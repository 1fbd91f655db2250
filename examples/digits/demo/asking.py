"""Ask served models for digits, as a device would: by TensorFlow Serving's REST."""

from __future__ import annotations

import csv
import http.client
import io
import json
import pathlib
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from plane import DemoFailed

PATIENCE = 60.0
PAUSE = 0.01
"""Seconds between an answer and the next question: the two cores are also for what is asked."""

Image = Sequence[float]


class Answer(NamedTuple):
    """The digits, and who said so: `edge`, `cloud` or `mixed` from a gateway, empty from a model."""

    digits: list[int]
    served_by: str


def held_out(archive: pathlib.Path) -> tuple[list[Image], list[int]]:
    """The images that no training has seen, and their digits."""
    with tarfile.open(archive) as tar:
        content = tar.extractfile("held-out.csv")
        assert content is not None
        _, *rows = csv.reader(io.TextIOWrapper(content))
    return [[float(pixel) for pixel in row[1:]] for row in rows], [int(row[0]) for row in rows]


class Device:
    """Something that asks a model, over one connection that it keeps. Not for several threads at once."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._path = f"{address.path}:predict"
        self._connection = http.client.HTTPConnection(address.netloc, timeout=30)

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, images: Sequence[Image]) -> Answer:
        """Raises OSError or HTTPException if there is no answer, ValueError for one that is no list of digits."""
        body = json.dumps({"instances": images})
        try:
            self._connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # it is opened anew by the next request
            raise
        if answer.status != http.HTTPStatus.OK:
            raise ValueError(f"HTTP {answer.status}: {content.decode(errors='replace')}")
        digits = [int(digit) for digit in json.loads(content)["predictions"]]
        return Answer(digits, answer.headers.get("X-Served-By", ""))


def share_right(answers: Sequence[int], digits: Sequence[int]) -> float:
    return sum(answer == digit for answer, digit in zip(answers, digits, strict=True)) / len(digits)


def one_by_one(url: str, images: Sequence[Image]) -> tuple[list[int], float]:
    """The digits of the images, each asked for alone, and the share of them that the cloud model answered."""
    with Device(url) as device:
        answers = [device.ask([image]) for image in images]
    by_cloud = sum(answer.served_by == "cloud" for answer in answers)
    return [answer.digits[0] for answer in answers], by_cloud / len(answers)


class Requests:
    """Requests that go on until the end of the block, counted by who answers them."""

    def __init__(self, url: str, images: Sequence[Image], threads: int = 4) -> None:
        self.answered: Counter[str] = Counter()
        self.faults: list[str] = []
        self._url = url
        self._images = images
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(threads)]

    def __enter__(self) -> Requests:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def sent(self) -> int:
        return self.answered.total() + len(self.faults)

    def more(self, count: int = 50) -> Counter[str]:
        """Wait until so many more have been sent: the load is there, before and after. Who answered these."""
        before, goal, deadline = self.answered.copy(), self.sent + count, time.monotonic() + PATIENCE
        while self.sent < goal:
            if time.monotonic() > deadline:
                raise DemoFailed("requests are not answered any more")
            time.sleep(0.01)
        return self.answered - before

    def _ask(self, place: int) -> None:
        with Device(self._url) as device:
            while not self._stop.wait(PAUSE):
                image = self._images[place % len(self._images)]
                place += len(self._threads)
                try:
                    by, fault = device.ask([image]).served_by, ""
                except (OSError, http.client.HTTPException, KeyError, ValueError) as error:
                    by, fault = "", repr(error)
                with self._lock:
                    if fault:
                        self.faults.append(fault)
                    else:
                        self.answered[by] += 1
