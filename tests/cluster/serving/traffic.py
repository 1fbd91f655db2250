"""Requests at a steady rate, whatever becomes of those before, and what became of each.

    python -m tests.cluster.serving.traffic URL --rate 40 --log FILE

Half of them go over connections that stay open, half over new ones. A connection that stays open and is closed by the
server before a byte of the answer came is opened once more for the same request, as HTTP clients do: an answer says
so. Runs until it is told to end (SIGTERM), then waits for the answers that are still to come.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import IO, Self
from urllib.parse import urlsplit

import msgspec
from tests.cluster.rig.waiting import until
from tests.cluster.serving import models

ANSWER_SECONDS = 30.0
"""A request that has no answer by then has failed."""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What became of a request: when it began (seconds of the machine's monotonic clock), how long it took."""

    began: float
    took: float
    status: int = 0
    version: str = ""
    served_by: str = ""
    value: float | None = None
    fault: str = ""
    again: bool = False

    @property
    def failed(self) -> bool:
        return self.status != 200


class Report(msgspec.Struct, frozen=True):
    """All answers, in the order in which they came."""

    answers: tuple[Answer, ...]

    @property
    def failures(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.failed]

    @property
    def values(self) -> Counter[float | None]:
        """How often each value was answered."""
        return Counter(answer.value for answer in self.answers if not answer.failed)

    @property
    def served_by(self) -> Counter[str]:
        return Counter(answer.served_by for answer in self.answers if not answer.failed)

    def since(self, moment: float) -> Report:
        """Of requests that began at that moment or later (`time.monotonic()`)."""
        return Report(tuple(answer for answer in self.answers if answer.began >= moment))

    def first(self, value: float) -> float:
        """When this value was first answered. Raises ValueError if it never was."""
        return min(answer.began + answer.took for answer in self.answers if answer.value == value)

    def took(self, share: float) -> float:
        """The time in which this share of the requests was answered."""
        times = sorted(answer.took for answer in self.answers)
        return times[min(len(times) - 1, int(share * len(times)))]


class Traffic:
    """A process that asks a URL, as long as the `with` lasts. With `inside`, in the network of that process."""

    def __init__(
        self,
        url: str,
        *,
        rate: float = 20.0,
        body: bytes = models.BODY,
        token: str = "",
        ca_file: Path | None = None,
        inside: int | None = None,
    ) -> None:
        self._enter = [] if inside is None else ["nsenter", f"--target={inside}", "--net"]
        self._command = [sys.executable, "-m", "tests.cluster.serving.traffic", url, "--rate", str(rate)]
        self._command += ["--token", token] if token else []
        self._command += ["--ca-file", str(ca_file)] if ca_file else []
        self._body = body

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        self._log, body = folder / "answers", folder / "body"
        self._log.touch()
        body.write_bytes(self._body)
        command = [*self._enter, *self._command, "--log", str(self._log), "--body", str(body)]
        self._process = subprocess.Popen(command, cwd=Path(__file__).parents[3])
        return self

    def __exit__(self, *_: object) -> None:
        self._final = self.stop()
        self._folder.cleanup()

    def stop(self) -> Report:
        """End the requests, and wait for the answers that are still to come."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(ANSWER_SECONDS + 30) == 0
        return self._read()

    @property
    def report(self) -> Report:
        """All answers until now, and after the end."""
        return self._read() if Path(self._folder.name).exists() else self._final

    def more(self, count: int = 20) -> Report:
        """Wait for so many more answers; all until then."""
        goal = len(self.report.answers) + count
        until(lambda: len(self.report.answers) >= goal, f"{count} more answers", 60)
        return self.report

    def answers(self, value: float) -> Report:
        """Wait until this value is answered; all until then."""
        until(lambda: value in self.report.values, f"{value} to be answered", 180)
        return self.report

    def _read(self) -> Report:
        lines = self._log.read_bytes().split(b"\n")[:-1]
        return Report(tuple(msgspec.json.decode(line, type=Answer) for line in lines))


# The process ---------------------------------------------------------------------------------------------------------


class _Closed(Exception):
    """The server has closed a connection without a byte of an answer."""


class _Asker:
    """Asks one URL with one body."""

    def __init__(self, url: str, body: bytes, token: str, ca_file: str, log: IO[bytes]) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), parts.port
        self._tls = ssl.create_default_context(cafile=ca_file or None) if parts.scheme == "https" else None
        lines = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}", f"Content-Length: {len(body)}"]
        lines += ["Content-Type: application/json", *([f"Authorization: Bearer {token}"] if token else [])]
        self._head, self._body, self._log = "\r\n".join(lines).encode(), body, log
        self._open: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, *, stays: bool) -> None:
        """One request, and a line of the log about it."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._answer(began, stays=stays)
        except (OSError, EOFError, ValueError) as fault:
            answer = Answer(began=began, took=time.monotonic() - began, fault=repr(fault))
        self._log.write(msgspec.json.encode(answer) + b"\n")
        self._log.flush()

    async def _answer(self, began: float, *, stays: bool) -> Answer:
        again = False
        if stays and self._open:
            connection = self._open.pop()
            try:
                return await self._exchange(connection, began, stays=stays, again=again)
            except _Closed:
                again = True
        connection = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        try:
            return await self._exchange(connection, began, stays=stays, again=again)
        except _Closed as fault:
            raise OSError("the connection was closed without an answer") from fault

    async def _exchange(
        self,
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        began: float,
        *,
        stays: bool,
        again: bool,
    ) -> Answer:
        reader, writer = connection
        whole = False
        try:
            last = b"" if stays else b"\r\nConnection: close"
            head = await self._head_of_answer(reader, writer, self._head + last + b"\r\n\r\n" + self._body)
            status, headers = _parsed(head)
            body = await reader.readexactly(int(headers["content-length"]))
            whole = stays and headers.get("connection", "").lower() != "close"
        finally:
            if whole:
                self._open.append(connection)
            else:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
        return Answer(
            began=began,
            took=time.monotonic() - began,
            status=status,
            version=headers.get("x-model-version", ""),
            served_by=headers.get("x-served-by", ""),
            value=_first_number(body) if status == 200 else None,
            fault="" if status == 200 else body[:500].decode(errors="replace"),
            again=again,
        )

    async def _head_of_answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
    ) -> bytes:
        try:
            writer.write(request)
            await writer.drain()
            return await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as fault:
            if fault.partial:
                raise
            raise _Closed from fault
        except ConnectionError as fault:
            raise _Closed from fault

    async def close(self) -> None:
        for _, writer in self._open:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def _parsed(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split()[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


def _first_number(body: bytes) -> float | None:
    """The first number of the first row; None for answers of another shape."""
    found = json.loads(body).get("predictions", [None])[0]
    while isinstance(found, list):
        found = found[0]
    return float(found) if isinstance(found, int | float) else None


async def _run(options: argparse.Namespace) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    with options.log.open("ab") as log:
        asker = _Asker(options.url, options.body.read_bytes(), options.token, options.ca_file, log)
        async with asyncio.TaskGroup() as group:
            began = time.monotonic()
            for number in itertools.count():
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), max(0.0, began + number / options.rate - time.monotonic()))
                if ended.is_set():
                    break
                group.create_task(asker.ask(stays=number % 2 == 0))
        await asker.close()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--body", type=Path, required=True)
    parser.add_argument("--token", default="")
    parser.add_argument("--ca-file", default="")
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
