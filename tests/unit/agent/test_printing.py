"""What a task in a Job prints."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import msgspec
import pytest

from modelwright.agent.printing import Printer
from modelwright.ports.workloads import Progress


class Screen:
    """A printer with a clock to be set, and what it has printed."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.now = 100.0
        self.printer = Printer(self.writer, lambda: self.now)

    def lines(self) -> list[str]:
        os.close(self.writer)
        self.writer = -1
        with os.fdopen(os.dup(self.reader), "rb") as file:
            return file.read().decode().splitlines()

    def close(self) -> None:
        os.close(self.reader)
        if self.writer >= 0:
            os.close(self.writer)


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen()
    yield made
    made.close()


def test_progress_is_printed_about_once_a_second_and_at_the_end(screen: Screen) -> None:
    for number in range(1, 41):
        screen.printer.progress(number, 40)
        screen.now += 0.125
    screen.printer.finish()
    found = [msgspec.json.decode(line, type=Progress) for line in screen.lines()]
    assert [each.bytes_done for each in found] == [1, 9, 17, 25, 33, 40]
    assert {each.bytes_total for each in found} == {40}


def test_the_last_progress_is_printed_once(screen: Screen) -> None:
    screen.printer.progress(7, 7)
    screen.printer.finish()
    screen.printer.finish()
    assert screen.lines() == ['{"bytesDone":7,"bytesTotal":7}']


def test_progress_never_runs_backwards(screen: Screen) -> None:
    for done in (1, 9, 5):
        screen.printer.progress(done, 10)
        screen.now += 2
    assert [msgspec.json.decode(line, type=Progress).bytes_done for line in screen.lines()] == [1, 9]


def test_a_line_for_people_is_one_line_whatever_is_in_it(screen: Screen) -> None:
    screen.printer.say('a\n{"bytesDone":1,"bytesTotal":1}\x1b[31m\udce9 é')
    assert screen.lines() == ['a\\n{"bytesDone":1,"bytesTotal":1}\\x1b[31m\\udce9 é']


def test_lines_of_many_threads_stay_whole(screen: Screen) -> None:
    threads = [threading.Thread(target=screen.printer.say, args=(str(number) * 200,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(screen.lines()) == [str(number) * 200 for number in range(10)]


def test_a_reader_that_is_gone_ends_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    printer = Printer(writer)
    printer.say("nobody reads this")
    printer.progress(1, 2)
    os.close(writer)
