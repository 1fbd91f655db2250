"""What a command is given to read: datasets and models, whole, known by their digest, and not changed by it."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import socket
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.workloads.support import (
    OWNER,
    QUICK,
    a_server,
    ask,
    left_running,
    open_workloads,
    place_model,
    serving_folder,
    until,
    until_server,
    until_task,
)
from tests.integration.workloads.test_commands import output, shell
from tests.integration.workloads.test_models import serving

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads
from modelwright.ports.workloads import Download, HostPath, Mount, Task, Volume

pytestmark = pytest.mark.anyio
replace = msgspec.structs.replace


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address at which it can be downloaded."""
    root = tmp_path / "site"
    root.mkdir()
    with serving_folder(root) as address:
        yield root, address


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def reading(script: str, *, deadline: int = 0, **datasets: Volume) -> Task:
    mounts = tuple(Mount(volume, f"/datasets/{name}") for name, volume in datasets.items())
    return shell(script, deadline=deadline, env={"DATA": "/datasets"}, mounts=mounts)


def an_archive(**files: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content.encode()))
    return data.getvalue()


async def test_a_dataset_is_a_folder_and_its_digest_is_known(
    workloads: EmbeddedWorkloads, site: tuple[Path, str], tmp_path: Path
) -> None:
    root, address = site
    (root / "train.csv").write_bytes(b"1,2")
    archive = an_archive(a="A", b="B")
    (root / "images.tar.gz").write_bytes(archive)
    (tmp_path / "local.csv").write_bytes(b"3,4")
    listing = "import os; root = os.environ['DATA']; print([(n, sorted(os.listdir(f'{root}/{n}'))) for n in "
    task = reading(
        f'python3 -c "{listing}sorted(os.listdir(root))])"',
        plain=Download(f"{address}/train.csv"),
        packed=Download(f"{address}/images.tar.gz", digest_of(archive).removeprefix("sha256:")),
        local=Download(f"file://{tmp_path}/local.csv"),
    )
    await workloads.apply(task)
    status = await until_task(workloads, "tm")
    assert (status.phase, status.failure, status.progress) == ("Succeeded", None, None)
    assert (await output(workloads)).strip() == str(
        [("local", ["local.csv"]), ("packed", ["a", "b"]), ("plain", ["train.csv"])]
    )
    assert status.downloads == {
        "/datasets/plain": digest_of(b"1,2"),
        "/datasets/packed": digest_of(archive),
        "/datasets/local": digest_of(b"3,4"),
    }


async def test_digests_are_known_after_an_adoption_and_after_a_restart(
    data_dir: Path, site: tuple[Path, str], tmp_path: Path
) -> None:
    root, address = site
    (root / "train.csv").write_bytes(b"1,2")
    go = tmp_path / "go"
    os.mkfifo(go)
    task = reading(f"read line < {go}", d=Download(f"{address}/train.csv"))
    expected = {"/datasets/d": digest_of(b"1,2")}
    async with left_running(data_dir) as workloads:
        await workloads.apply(task)
        await until_task(workloads, "tm", lambda status: status.phase == "Running")
    async with open_workloads(data_dir) as workloads:
        (status,) = await workloads.observe("tm")
        assert getattr(status, "downloads", None) == expected
        await asyncio.to_thread(go.write_text, "\n")
        assert (await until_task(workloads, "tm")).downloads == expected
    async with open_workloads(data_dir) as workloads:
        assert (await until_task(workloads, "tm")).downloads == expected


async def test_bytes_that_another_use_has_brought_here_are_the_ones_that_are_named(
    workloads: EmbeddedWorkloads, site: tuple[Path, str]
) -> None:
    root, address = site
    (root / "answer.txt").write_text("first")
    source = Download(f"{address}/answer.txt")
    await workloads.apply(serving(source))
    await until_server(workloads, lambda status: status.up_to_date)
    (root / "answer.txt").write_text("second")
    await workloads.apply(reading("cat $DATA/d/answer.txt", d=source))
    status = await until_task(workloads, "tm")
    assert await output(workloads) == "first"
    assert status.downloads == {"/datasets/d": digest_of(b"first")}


async def test_a_cached_model_of_unknown_origin_is_fetched_anew(data_dir: Path, site: tuple[Path, str]) -> None:
    """What was put there without its digest being written down."""
    root, address = site
    (root / "answer.txt").write_text("first")
    source = Download(f"{address}/answer.txt")
    async with open_workloads(data_dir) as workloads:
        await workloads.apply(serving(source))
        await until_server(workloads, lambda status: status.up_to_date)
    (manifest,) = (data_dir / "models").glob("*/manifest.json")
    known = msgspec.json.decode(manifest.read_bytes())
    del known["digest"]
    manifest.write_bytes(msgspec.json.encode(known))
    (root / "answer.txt").write_text("second")
    async with open_workloads(data_dir) as workloads:
        await workloads.apply(reading("cat $DATA/d/answer.txt", d=source))
        assert (await until_task(workloads, "tm")).downloads == {"/datasets/d": digest_of(b"second")}
        assert await output(workloads) == "second"


async def test_the_same_bytes_under_two_names_are_two_datasets(
    workloads: EmbeddedWorkloads, site: tuple[Path, str]
) -> None:
    root, address = site
    sha256 = hashlib.sha256(b"same").hexdigest()
    for name in ("a.csv", "b.csv"):
        (root / name).write_bytes(b"same")
    task = reading(
        "ls $DATA/a $DATA/b",
        a=Download(f"{address}/a.csv", sha256),
        b=Download(f"{address}/b.csv", sha256),
    )
    await workloads.apply(task)
    assert (await until_task(workloads, "tm")).phase == "Succeeded"
    assert "a.csv" in await output(workloads)
    assert "b.csv" in await output(workloads)


async def test_what_is_read_again_is_read_anew_where_nothing_names_its_content(
    workloads: EmbeddedWorkloads, site: tuple[Path, str]
) -> None:
    """A dataset is mended after a training has failed by it: the next one must not be given the old bytes."""
    root, address = site
    data = root / "train.csv"
    data.write_text("bad")
    old = Download(f"{address}/train.csv", scope="first")
    await workloads.apply(reading("cat $DATA/d/train.csv; exit 1", d=old))
    assert (await until_task(workloads, "tm")).phase == "Failed"
    data.write_text("good")
    for uid, scope, content in (("same", "first", "bad"), ("other", "second", "good")):
        task = reading(f"grep {content} $DATA/d/train.csv", d=replace(old, scope=scope))
        await workloads.apply(replace(task, owner=replace(OWNER, uid=uid)))
        assert (await until_task(workloads, uid)).phase == "Succeeded"


# What cannot be had -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "sha256", "reason"), [("train.csv", "0" * 64, "ChecksumMismatch"), ("missing.csv", "", "DownloadNotFound")]
)
async def test_what_no_trying_mends_fails_the_task_with_its_reason(
    workloads: EmbeddedWorkloads, site: tuple[Path, str], tmp_path: Path, path: str, sha256: str, reason: str
) -> None:
    root, address = site
    (root / "train.csv").write_bytes(b"1,2")
    await workloads.apply(reading(f"touch {tmp_path}/ran", d=Download(f"{address}/{path}", sha256)))
    status = await until_task(workloads, "tm")
    assert status.failure
    assert (status.phase, status.failure.reason, status.failure.retryable) == ("Failed", reason, False)
    assert not (tmp_path / "ran").exists()


async def test_it_is_said_which_of_several_datasets_is_no_archive(
    workloads: EmbeddedWorkloads, site: tuple[Path, str]
) -> None:
    root, address = site
    (root / "good.csv").write_bytes(b"1,2")
    (root / "bad.tar.gz").write_bytes(b"\x1f\x8b\x08\x00 and no more")
    signed = Download(f"{address.replace('://', '://me:secret@')}/bad.tar.gz")
    await workloads.apply(reading("true", a=Download(f"{address}/good.csv"), b=signed))
    status = await until_task(workloads, "tm")
    assert status.failure
    assert status.failure.message.startswith(f"{address}/bad.tar.gz: ")


async def test_a_failure_that_was_mended_meanwhile_does_not_fail_the_next(
    workloads: EmbeddedWorkloads, site: tuple[Path, str]
) -> None:
    """A server goes on asking for what is missing, rarely; the command does not hear of its old failure."""
    root, address = site
    source = Download(f"{address}/answer.txt")
    await workloads.apply(serving(source))
    await until_server(workloads, lambda status: status.versions[0].phase == "Failed")
    (root / "answer.txt").write_text("here")
    await workloads.apply(reading("cat $DATA/d/answer.txt", d=source))
    assert (await until_task(workloads, "tm")).phase == "Succeeded"


async def test_what_may_mend_is_tried_until_it_does_and_said_meanwhile(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("1,2")
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    async with open_workloads(data_dir) as workloads:
        await workloads.apply(reading("cat $DATA/d/train.csv", d=Download(f"http://127.0.0.1:{port}/train.csv")))
        waiting = await until_task(workloads, "tm", lambda status: status.failure is not None)
        assert waiting.failure
        assert (waiting.phase, waiting.failure.retryable) == ("Pending", True)
        with serving_folder(tmp_path, port):
            status = await until_task(workloads, "tm")
        assert (status.phase, status.failure) == ("Succeeded", None)


async def test_the_deadline_holds_while_data_is_fetched_too(workloads: EmbeddedWorkloads, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/train.csv"
        await workloads.apply(reading(f"touch {tmp_path}/ran", deadline=1, d=Download(url)))
        status = await until_task(workloads, "tm")
    assert status.failure
    assert (status.failure.reason, status.failure.retryable) == ("DeadlineExceeded", False)
    assert not (tmp_path / "ran").exists()


class Dripping(BaseHTTPRequestHandler):
    """Sends a byte now and then, until `rest` is set; then the rest of a hundred thousand."""

    rest: threading.Event

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        left = 100_000
        while not self.rest.wait(0.02):
            self.wfile.write(b"x")
            left -= 1
        self.wfile.write(b"x" * left)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


async def test_the_deadline_counts_from_the_beginning_through_a_restart(data_dir: Path) -> None:
    record = data_dir / "run" / "tm" / "train" / "record.json"

    def begun() -> Any:
        return msgspec.json.decode(record.read_bytes()).get("begun") if record.exists() else None

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/train.csv"
        async with open_workloads(data_dir) as workloads:
            await workloads.apply(reading("true", deadline=3600, d=Download(url)))
            first = await until(begun, "the beginning")
        async with open_workloads(data_dir) as workloads:
            waiting = await until_task(workloads, "tm", lambda status: status.phase == "Pending")
            assert (waiting.phase, begun()) == ("Pending", first)


async def test_the_fetch_shows_as_progress(workloads: EmbeddedWorkloads) -> None:
    rest = threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Dripping,), {"rest": rest})) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        source = Download(f"http://127.0.0.1:{server.server_address[1]}/data.bin")
        await workloads.apply(reading("true", d=source))
        status = await until_task(workloads, "tm", lambda status: status.progress is not None)
        assert status.progress
        assert (status.phase, status.progress.bytes_done > 0, status.progress.bytes_total) == ("Pending", True, 100_000)
        rest.set()
        assert (await until_task(workloads, "tm")).phase == "Succeeded"
        server.shutdown()
        thread.join()


# What is shared stays whole -----------------------------------------------------------------------------------------


async def test_a_base_model_is_read_only(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    base = Mount(place_model(data_dir, "weights"), "/kubedl-base-model")
    await workloads.apply(
        shell("cd $BASE; pwd -P; stat -Lc '%a' . answer.txt", env={"BASE": "/kubedl-base-model"}, mounts=(base,))
    )
    status = await until_task(workloads, "tm")
    assert (status.phase, status.downloads) == ("Succeeded", {})
    assert (await output(workloads)).split()[1:] == ["555", "444"]


async def test_what_a_command_has_changed_of_a_shared_model_is_made_good(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    image = place_model(data_dir, "true")
    await workloads.apply(a_server(data_dir, "true"))
    port = (await until_server(workloads, lambda status: status.up_to_date)).port
    base = Mount(image, "/base")
    script = "cd $BASE; chmod u+w . answer.txt; echo evil > answer.txt; touch more"
    await workloads.apply(shell(script, env={"BASE": "/base"}, mounts=(base,)))
    assert (await until_task(workloads, "tm")).phase == "Succeeded"
    (held,) = (data_dir / "models").iterdir()  # what is in it may be gone just now, to be obtained anew
    model = held / "model"

    def whole() -> bool:
        try:
            return (model / "answer.txt").read_text() == "true" and not (model / "more").exists()
        except FileNotFoundError:
            return False

    await until(whole, "the model as it was")
    await workloads.apply(a_server(data_dir, "true", replicas=2))
    await until_server(workloads, lambda status: status.up_to_date and status.ready_replicas == 2)
    assert {ask(port)["text"] for _ in range(20)} == {"true"}


async def test_data_is_kept_for_the_next_attempt_and_no_longer(data_dir: Path, site: tuple[Path, str]) -> None:
    root, address = site
    (root / "train.csv").write_bytes(b"1,2")
    source = Download(f"{address}/train.csv")
    async with open_workloads(data_dir, replace(QUICK, keep_failed=3.0)) as workloads:
        await workloads.apply(reading("exit 1", d=source))
        assert (await until_task(workloads, "tm")).phase == "Failed"
        assert len(list((data_dir / "models").iterdir())) == 1
        (root / "train.csv").unlink()
        second = replace(reading("cat $DATA/d/train.csv", d=source), name="second", owner=replace(OWNER, uid="again"))
        await workloads.apply(second)
        assert (await until_task(workloads, "again")).phase == "Succeeded"
        await until(lambda: list((data_dir / "models").iterdir()) == [], "the data to go")


# The data directory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("place", "allowed"), [("hard-examples/default/jis", True), ("run", False), ("..", False)])
async def test_of_the_data_directory_only_hard_examples_are_data(
    workloads: EmbeddedWorkloads, data_dir: Path, place: str, *, allowed: bool
) -> None:
    (data_dir / "hard-examples" / "default" / "jis").mkdir(parents=True)
    (data_dir / "hard-examples" / "default" / "jis" / "1.json").write_text("{}")
    folder = data_dir.parent if place == ".." else data_dir / place
    await workloads.apply(reading("ls $DATA/d", d=Download(f"file://{folder}")))
    status = await until_task(workloads, "tm")
    reason = status.failure.reason if status.failure else ""
    assert (status.phase, reason) == (("Succeeded", "") if allowed else ("Failed", "DownloadPathForbidden"))
    if allowed:
        assert (await output(workloads)).split() == ["1.json"]


@pytest.mark.parametrize("inside", ["run/x", "models", "hard-examples/default/jis"])
async def test_a_command_writes_nowhere_in_the_data_directory(
    workloads: EmbeddedWorkloads, data_dir: Path, inside: str
) -> None:
    mount = Mount(HostPath(str(data_dir / inside), create=True), "/kubedl-model", read_only=False)
    await workloads.apply(shell("true", mounts=(mount,)))
    status = await until_task(workloads, "tm")
    assert status.failure
    assert (status.failure.reason, status.failure.retryable) == ("StorageForbidden", False)
    assert not (data_dir / inside).exists() or inside == "models"


async def test_a_folder_to_write_to_is_made_with_those_above_it(workloads: EmbeddedWorkloads, tmp_path: Path) -> None:
    mount = Mount(HostPath(str(tmp_path / "a" / "b"), create=True), "/kubedl-model", read_only=False)
    task: Any = shell("echo w > $KUBEDL_MODEL_PATH/w", env={"KUBEDL_MODEL_PATH": "/kubedl-model"}, mounts=(mount,))
    await workloads.apply(task)
    assert (await until_task(workloads, "tm")).phase == "Succeeded"
    assert (tmp_path / "a" / "b" / "w").read_text() == "w\n"
