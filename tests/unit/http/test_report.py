"""A state on stdout: each, the last one for certain, and again behind other lines."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable

import msgspec
import pytest

from modelwright.http import report
from modelwright.http.logs import OneLine
from modelwright.http.report import Reporter

pytestmark = pytest.mark.anyio


class State(msgspec.Struct, frozen=True):
    number: int


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


class Said:
    """What has been printed so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._lines: list[str] = []

    @property
    def numbers(self) -> list[int]:
        self._lines += self._capsys.readouterr().out.splitlines()
        return [json.loads(line)["number"] for line in self._lines]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(capsys)


async def test_the_first_is_printed_at_once_and_the_last_for_certain(said: Said) -> None:
    async with Reporter() as reporter:
        for number in range(100):
            reporter.tell(State(number))
        assert said.numbers[0] == 0
        await until(lambda: said.numbers[-1] == 99)
        assert len(said.numbers) < 100
        reporter.tell(State(100))
    assert said.numbers[-1] == 100


async def test_the_same_state_is_printed_once(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "AT_MOST_EVERY", 0.01)
    async with Reporter() as reporter:
        for _ in range(3):
            reporter.tell(State(1))
            await asyncio.sleep(0.05)
        reporter.tell(State(2))
    assert said.numbers == [1, 2]


async def test_it_is_printed_again_behind_other_lines(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "AT_MOST_EVERY", 0.01)
    monkeypatch.setattr(report, "AGAIN_AFTER", 0.05)
    async with Reporter() as reporter:
        reporter.tell(State(1))
        await asyncio.sleep(0.2)
        assert said.numbers == [1]
        logging.getLogger("modelwright.server").warning("something else")
        await until(lambda: said.numbers == [1, 1])
        await asyncio.sleep(0.2)
    assert said.numbers == [1, 1]


def test_what_follows_the_first_line_of_a_message_is_marked() -> None:
    record = logging.LogRecord("x", logging.INFO, "x", 1, 'a\n{"phase": "ready"}\r\n%s', ("b\nc",), None)
    assert OneLine("%(message)s").format(record) == 'a\n| {"phase": "ready"}\\r\n| b\n| c'
