"""Progress that a command writes, read without trusting it."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwright.adapters.embedded.workloads.progress import MAX_COUNT, MAX_MESSAGE, ProgressFile
from modelwright.ports.workloads import Steps

NAME = PurePosixPath(".modelwright/progress.json")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / ".modelwright").mkdir()
    return tmp_path / ".modelwright" / "progress.json"


def opened(file: Path, since: int = 0) -> ProgressFile:
    return ProgressFile(file.parents[1], NAME, since)


def test_progress_is_read_when_it_has_changed(file: Path) -> None:
    seen = opened(file)
    assert not seen.look()
    file.write_text('{"completed": 3, "total": 10, "message": "epoch 3", "loss": [1, {}]}')
    assert seen.look()
    assert seen.steps == Steps(3, 10, "epoch 3")
    assert not seen.look()
    file.write_text('{"completed": 4.0}')
    assert seen.look()
    assert seen.steps == Steps(4)
    file.unlink()
    assert not seen.look()
    assert seen.steps == Steps(4)


def test_what_an_earlier_attempt_wrote_does_not_count(file: Path) -> None:
    file.write_text('{"completed": 3}')
    seen = opened(file, file.stat().st_mtime_ns + 1)
    assert not seen.look()
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    assert seen.look()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1]",
        "3",
        '{"completed": "3"}',
        '{"completed": true}',
        '{"completed": -1}',
        '{"completed": 1e999}',
        '{"completed": NaN}',
        f'{{"completed": {2 * MAX_COUNT}}}',
        '{"total": -0.5}',
        '{"completed": 1, "total": 1' + "0" * 400 + "}",
        '{"message": 1}',
        '{"message": "\\ud800"}',
        '{"completed": 1' + " " * 20000 + "}",
        "[" * 16000,
        '{"a": ' * 2000,
        '{"completed": 1',
        "\0" * 100,
    ],
)
def test_anything_else_is_passed_over(file: Path, content: str) -> None:
    seen = opened(file)
    file.write_text('{"completed": 1}')
    assert seen.look()
    file.write_text(content)
    assert not seen.look()
    assert seen.steps == Steps(1)


def test_a_message_is_one_printable_line_of_bounded_length(file: Path) -> None:
    seen = opened(file)
    text = "a\x1b[31m\n\tb\u202e \x00" + "x" * 2000
    file.write_text(json.dumps({"message": text}))
    assert seen.look()
    assert seen.steps
    assert seen.steps.message.startswith("a [31m b xxx")
    assert seen.steps.message.isprintable()
    assert len(seen.steps.message) <= MAX_MESSAGE


@pytest.mark.parametrize("kind", ["link", "folder link", "fifo", "folder", "missing"])
def test_only_a_regular_file_is_read_and_no_link_is_followed(tmp_path: Path, kind: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "progress.json").write_text('{"completed": 1}')
    (tmp_path / "model").mkdir()
    private = tmp_path / "model" / ".modelwright"
    if kind == "folder link":
        private.symlink_to(tmp_path / "real")
    elif kind != "missing":
        private.mkdir()
    if kind == "link":
        (private / "progress.json").symlink_to(tmp_path / "real" / "progress.json")
    elif kind == "fifo":
        os.mkfifo(private / "progress.json")
    elif kind == "folder":
        (private / "progress.json").mkdir()
    assert not ProgressFile(tmp_path / "model", NAME, 0).look()


def test_a_file_that_is_written_all_the_time_is_read_whole_or_not_at_all(file: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number = (number + 1) % 1000
            file.write_text(json.dumps({"completed": number, "total": number, "message": str(number)}))

    writer = threading.Thread(target=write)
    writer.start()
    seen, read = opened(file), 0
    while read < 50:
        if seen.look() and seen.steps:
            read += 1
            assert seen.steps.message in ("", str(seen.steps.completed))
    stop.set()
    writer.join()


@given(content=st.binary(max_size=200))
def test_any_bytes_are_progress_or_none(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("model", numbered=True)
    (folder / ".modelwright").mkdir()
    (folder / ".modelwright" / "progress.json").write_bytes(content)
    ProgressFile(folder, NAME, 0).look()
