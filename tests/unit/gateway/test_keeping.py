"""Hard examples are kept whole, up to a size, and never at the cost of a request."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gateway.conftest import EASY, HARD, Open
from tests.unit.gateway.models import SmallModel, says
from tests.unit.kubernetes.servers import Asked

from modelwright.gateway import v1
from modelwright.gateway.keep import MOST_BYTES, Example, Keeper
from modelwright.gateway.kept import KeptFolder
from modelwright.gateway.metrics import Gauges, Metrics
from modelwright.gateway.tensors import Tensor


def read(folder: Path) -> list[Any]:
    """The kept examples, as docs/gateway.md shows."""
    return [json.loads(line) for path in sorted(folder.glob("hard-*.jsonl")) for line in lines(path)]


def lines(path: Path) -> list[str]:
    """The lines of a file, each of which is whole."""
    *whole, rest = path.read_text().split("\n")
    assert rest == ""
    return whole


def run(program: str, folder: Path) -> int:
    """Another process with that program; its exit code."""
    imports = (
        "import os, resource, signal, sys\nfrom pathlib import Path\nfrom modelwright.gateway.kept import KeptFolder\n"
    )
    start = "kept = KeptFolder(Path(sys.argv[1]), 10_000)\nkept.open()\n"
    return subprocess.run([sys.executable, "-c", imports + start + program, str(folder)]).returncode


def read_numbers(folder: Path) -> list[int]:
    return [int(line) for path in sorted(folder.iterdir()) for line in lines(path)]


def total(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


# The folder ---------------------------------------------------------------------------------------------------------


def test_lines_come_back_in_order_once_they_are_published(tmp_path: Path) -> None:
    kept = KeptFolder(tmp_path / "a" / "b", 10_000)
    kept.open()
    assert kept.write([b"1", b"2"]) == 2
    assert read(kept.path) == [], "a file that is being written is not seen"
    kept.publish()
    kept.write([b"3"])
    kept.publish()
    assert read(kept.path) == [1, 2, 3]
    assert kept.size == total(kept.path) == 6


def test_a_file_is_published_when_it_is_old_enough(tmp_path: Path) -> None:
    now = 1000.0
    kept = KeptFolder(tmp_path, 10_000, clock=lambda: now)
    kept.open()
    kept.write([b"1"])
    kept.publish(older_than=10)
    assert read(tmp_path) == []
    now = 1010.0
    kept.publish(older_than=10)
    assert read(tmp_path) == [1]


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    kept = KeptFolder(tmp_path, 100)
    kept.open()
    for number in range(100):
        assert kept.write([b"%09d" % number]) == 1
        assert total(tmp_path) <= 100
    kept.publish()
    left = read_numbers(tmp_path)
    assert left == list(range(100 - len(left), 100))
    assert len(left) >= 8


def test_a_line_that_is_longer_than_all_there_may_be_is_not_kept(tmp_path: Path) -> None:
    kept = KeptFolder(tmp_path, 10)
    kept.open()
    assert kept.write([b"1234567890", b"123456789", b"1"]) == 2
    kept.publish()
    assert read(tmp_path) == [1]


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(20, 200))
@settings(max_examples=40, deadline=None)
def test_there_are_never_more_bytes_than_allowed(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], most: int
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    kept = KeptFolder(folder, most)
    kept.open()
    for size in sizes:
        kept.write([b"7" * size])
        assert kept.size == total(folder) <= most
    kept.publish()
    assert all(line.strip("7") == "" for path in folder.iterdir() for line in lines(path))


def test_two_writers_share_a_folder(tmp_path: Path) -> None:
    one, other = KeptFolder(tmp_path, 1000), KeptFolder(tmp_path, 1000)
    one.open()
    other.open()
    for number in range(300):
        (one if number % 2 else other).write([b"%d" % number])
        assert total(tmp_path) <= 1000
    one.publish()
    other.publish()
    assert set(read(tmp_path)) >= set(range(280, 300))


def test_a_writer_that_starts_leaves_alone_what_another_one_writes(tmp_path: Path) -> None:
    busy = KeptFolder(tmp_path, 1000)
    busy.open()
    busy.write([b"1"])
    KeptFolder(tmp_path, 1000).open()
    busy.write([b"2"])
    busy.publish()
    assert read(tmp_path) == [1, 2]


def test_what_a_killed_writer_left_is_finished_by_the_next(tmp_path: Path) -> None:
    program = """
kept.write([b"1", b"2"])
(part,) = kept.path.iterdir()
part.open("ab", buffering=0).write(b'{"half a li')
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(program, tmp_path) == -signal.SIGKILL
    assert read(tmp_path) == []
    kept = KeptFolder(tmp_path, 10_000)
    kept.open()
    assert read(tmp_path) == [1, 2]
    assert kept.size == total(tmp_path)


def test_empty_rests_and_strangers_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / ".hard-x.jsonl.part").touch()
    (tmp_path / ".hard-y.jsonl.part").write_bytes(b"no line end")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "hard-link.jsonl").symlink_to(tmp_path / "notes.txt")
    kept = KeptFolder(tmp_path, 10)
    kept.open()
    assert kept.write([b"12345678", b"1234567"]) == 2
    kept.publish()
    assert sorted(path.name for path in tmp_path.iterdir() if "-2" not in path.name) == ["hard-link.jsonl", "notes.txt"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    """A limit on the size of files is a disk that is full in the middle of a line."""
    program = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (25, 25))
kept.write([b"1" * 9, b"2" * 9])
try:
    kept.write([b"3" * 9])
except OSError:
    kept.publish()
    sys.exit(7)
"""
    assert run(program, tmp_path) == 7
    assert read(tmp_path) == [111111111, 222222222]


# The gateway --------------------------------------------------------------------------------------------------------


async def kept_by(on: Any, count: int) -> None:
    async with asyncio.timeout(30):
        while await on.client.metric("kept_examples_total") < count:
            await asyncio.sleep(0.01)


@pytest.mark.anyio
@pytest.mark.parametrize("front", ["v1", "v2"])
async def test_hard_rows_are_kept_with_what_both_models_said(front: str, tmp_path: Path, stage: Open) -> None:
    async with stage(keep_folder=str(tmp_path), keep_max_bytes=10_000) as on:
        await on.client.ask_rows(front, EASY, HARD, EASY)
        await on.client.ask_rows(front, EASY)
        on.cloud.behaviour = says({}, 500)
        await on.client.ask_rows(front, HARD)
        await kept_by(on, 2)
        size = on.client.app.joint.keeper.size if on.client.app.joint.keeper else 0
    first, second = read(tmp_path)
    assert size == total(tmp_path)
    assert first["inputs"] == {"x": HARD}
    assert first["edge"]["version"] == ("1" if front == "v2" else ""), "empty where an answer does not say it"
    assert first["edge"]["outputs"]["label"] == 1
    assert first["cloud"]["outputs"]["label"] == 101
    assert len(first["cloud"]["outputs"]["probabilities"]) == 3, "for the next training, more than the client asked for"
    assert (first["reason"], first["service"]) == ("", "joint")
    assert (second["cloud"], second["reason"]) == (None, "ServerError")


@pytest.mark.anyio
async def test_a_request_that_cannot_be_divided_is_kept_as_one(tmp_path: Path, stage: Open) -> None:
    async with stage(SmallModel(outputs=("label",)), keep_folder=str(tmp_path), keep_max_bytes=10_000) as on:
        on.edge.behaviour = says({"outputs": [0]})
        assert (await on.client.ask("POST", "/v1/models/joint:predict", {"inputs": [HARD, EASY]})).status == 200
        await kept_by(on, 1)
    (only,) = read(tmp_path)
    assert only["inputs"] == {"x": [HARD, EASY]}


@pytest.mark.anyio
async def test_an_output_without_rows_is_no_part_of_an_example(tmp_path: Path, stage: Open) -> None:
    outputs: dict[str, Any] = {"outputs": ("label", "probabilities", "classes"), "v1": False}
    models = SmallModel(**outputs), SmallModel(offset=100, name="big", **outputs)
    async with stage(*models, keep_folder=str(tmp_path), keep_max_bytes=10_000) as on:
        named = await on.client.infer(EASY, HARD, outputs=[{"name": "label"}])
        assert named.json["outputs"][0]["data"] == [0, 101]
        whole = await on.client.infer(EASY, HARD)
        assert (whole.by, whole.json["outputs"][0]["data"]) == ("cloud", [100, 101]), "with it, rows cannot be divided"
        await kept_by(on, 2)
    first, second = read(tmp_path)
    assert sorted(first["edge"]["outputs"]) == sorted(first["cloud"]["outputs"]) == ["label", "probabilities"]
    assert (first["inputs"], second["inputs"]) == ({"x": HARD}, {"x": [EASY, HARD]})
    assert second["edge"]["outputs"]["classes"] == ["class 0", "class 1", "class 2"]


@pytest.mark.anyio
async def test_what_is_asked_for_besides_never_costs_the_answer(tmp_path: Path, stage: Open) -> None:
    """A cloud model whose signatures show its outputs one by one only."""
    cloud = SmallModel(offset=100, v2=False)
    cloud.signatures = {"serving_default": ("label",), "scores": ("probabilities",)}
    async with stage(cloud=cloud, keep_folder=str(tmp_path), keep_max_bytes=10_000) as on:
        assert (await on.client.predict(EASY, HARD)).json == {"predictions": [0, 101]}
        await kept_by(on, 1)
    (only,) = read(tmp_path)
    assert only["cloud"]["outputs"] == {"label": 101}


@pytest.mark.anyio
async def test_a_folder_that_cannot_be_written_fails_no_request(tmp_path: Path, stage: Open) -> None:
    (tmp_path / "file").touch()
    async with stage(keep_folder=str(tmp_path / "file"), keep_max_bytes=10_000) as on:
        assert (await on.client.predict(HARD, HARD)).by == "cloud"
        async with asyncio.timeout(30):
            while not await on.client.metric("not_kept_examples_total", reason="DiskError"):
                await asyncio.sleep(0.01)
        assert (await on.client.predict(HARD)).by == "cloud"


@pytest.mark.anyio
async def test_another_configuration_goes_on_keeping_in_the_same_folder(tmp_path: Path, stage: Open) -> None:
    async with stage(keep_folder=str(tmp_path), keep_max_bytes=10_000) as on:
        await on.client.predict(HARD)
        before = on.client.app.joint
        on.client.app.configure(msgspec.structs.replace(before.config, keep_max_bytes=20_000))
        assert on.client.app.joint.keeper is not before.keeper
        await on.client.predict(HARD)
        on.client.app.configure(msgspec.structs.replace(on.client.app.joint.config, keep_folder="", keep_max_bytes=0))
        assert on.client.app.joint.keeper is None
    assert len(read(tmp_path)) == 2


@pytest.mark.anyio
async def test_a_request_that_outlives_two_configurations_is_kept_as_it_began(tmp_path: Path, stage: Open) -> None:
    go = asyncio.Event()

    async def late(request: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        writer.write(on.cloud.answer_to(request))

    async with stage(keep_folder=str(tmp_path), keep_max_bytes=100_000) as on:
        on.cloud.behaviour = late
        asked = asyncio.create_task(on.client.predict(HARD))
        async with asyncio.timeout(30):
            while not on.cloud.inferences:
                await asyncio.sleep(0.01)
        first = on.client.app.joint.config
        on.client.app.configure(msgspec.structs.replace(first, timeout_seconds=20.0))
        on.client.app.configure(msgspec.structs.replace(first, keep_folder="", keep_max_bytes=0))
        for _ in range(20):
            await asyncio.sleep(0)
        go.set()
        assert (await asked).by == "cloud"
    assert [each["cloud"]["outputs"]["label"] for each in read(tmp_path)] == [101]


def example(said: Tensor) -> Example:
    return Example(
        request=v1.Request(b'{"instances": [[1, 2]]}'),
        specs=None,
        rows=(0,),
        edge={said.name: said},
        edge_version="",
        cloud=None,
        cloud_version="",
        reason="TimedOut",
    )


@pytest.mark.anyio
async def test_an_example_that_cannot_be_written_keeps_no_other_from_being_kept(tmp_path: Path) -> None:
    keeper = Keeper("joint", tmp_path, 100_000, Metrics(lambda: Gauges("joint", {})), lambda: None)
    half = "\ud800"  # half a pair: no UTF-8 spells it
    for text in ("a", half, "b"):
        keeper.offer(example(Tensor(name="label", datatype="BYTES", shape=(1,), flat=[text])))
    keeper.start()
    await keeper.aclose()
    assert [each["edge"]["outputs"]["label"] for each in read(tmp_path)] == ["a", "b"]


@pytest.mark.anyio
async def test_large_answers_do_not_wait_without_end(tmp_path: Path) -> None:
    metrics = Metrics(lambda: Gauges("joint", {}))
    keeper = Keeper("joint", tmp_path, 100_000, metrics, lambda: None)
    half = (MOST_BYTES // 2) // 4
    mask = Tensor(name="mask", datatype="FP32", shape=(1, half), blob=bytes(4 * half))
    for _ in range(3):
        keeper.offer(example(mask))
    keeper.offer(example(Tensor(name="label", datatype="INT64", shape=(1,), flat=[1])))
    assert metrics.not_kept == {"TooManyWaiting": 2}
    await keeper.aclose()
