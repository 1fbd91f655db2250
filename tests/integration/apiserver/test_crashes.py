"""Killed at any moment, with a full disk or a second daemon: no acknowledged write is lost, and the user is told."""

from __future__ import annotations

import asyncio
import http.client
import random
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.apiserver.server import running_server

from modelwright.adapters.embedded.history import Entry
from modelwright.adapters.embedded.objects import Objects
from modelwright.adapters.embedded.store import DATABASE, EmbeddedStore
from modelwright.adapters.embedded.transaction import decode
from modelwright.ports.errors import Unavailable

WRITER = Path(__file__).parent / "writer.py"
MODELS = "models.model.kubedl.io"
Model = dict[str, int]


@contextmanager
def writing(data_dir: Path, first: int, limit: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, str(WRITER), str(data_dir), str(first), str(limit)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            yield process
        finally:
            process.kill()


def until(process: subprocess.Popen[bytes], lines: int, word: bytes = b"") -> list[str]:
    """At least so many lines of what it says, and one with this word."""
    assert process.stdout is not None
    said = b""
    while said.count(b"\n") < lines or word not in said:
        more = process.stdout.read(65536)
        assert more, f"the writer ended by itself: {said[-500:]!r}"
        said += more
    return said.decode().splitlines(keepends=True)


def rest(process: subprocess.Popen[bytes]) -> list[str]:
    """What it had said before it was killed: a pipe keeps that."""
    assert process.stdout is not None
    return process.stdout.read().decode().splitlines(keepends=True)


def acknowledged(lines: list[str], model: Model) -> set[str]:
    """Bring the model up to what was acknowledged; the names that were written."""
    touched = set()
    for line in "".join(lines).splitlines():
        match line.split():
            case ["put", name, number]:
                model[name] = int(number)
                touched.add(name)
            case ["delete", name]:
                model.pop(name, None)
                touched.add(name)
    return touched


def stored(data_dir: Path) -> Model:
    values = [decode(entry) for entry in reopened(data_dir)[1]]
    return {value["metadata"]["name"]: int(value["spec"]["description"].split()[0]) for value in values}


def reopened(data_dir: Path) -> tuple[int, list[Entry]]:
    """The version and the Models that the next start finds."""

    async def look() -> tuple[int, list[Entry]]:
        objects = Objects.open(data_dir / DATABASE)
        found = objects.version, objects.snapshot(MODELS)
        await objects.close()
        return found

    return asyncio.run(look())


def agree(found: Model, model: Model) -> None:
    """What is stored is what was acknowledged, but for the one write of each writer that was under way.

    Each writer has names of its own, and waits for each write.
    """
    for writer in range(4):
        prefix = f"m-{writer}-"
        names = {name for name in (*found, *model) if name.startswith(prefix)}
        differing = [name for name in names if found.get(name) != model.get(name)]
        assert len(differing) <= 1, (differing, found, model)
        for name in differing:
            assert name not in found or found[name] > model.get(name, -1)
    model.clear()
    model.update(found)


def test_a_kill_at_any_moment_loses_no_acknowledged_write(tmp_path: Path) -> None:
    moments = random.Random(20240229)
    model: Model = {}
    first, version = 0, 0
    for _ in range(8):
        with writing(tmp_path, first) as process:
            lines = until(process, 1, b"ready")
            lines += until(process, moments.randint(1, 400))
            process.kill()
            lines += rest(process)
        acknowledged(lines, model)
        agree(stored(tmp_path), model)
        before, version = version, reopened(tmp_path)[0]
        assert version > before
        first += 1000


def test_a_disk_that_refuses_is_said_and_loses_nothing(tmp_path: Path) -> None:
    """The limit on the size of files is the kernel's: what is refused is the real write."""
    model: Model = {}
    with writing(tmp_path, 0, limit=300_000) as process:
        lines = until(process, 1, b"refused")
        lines += until(process, 300, b"put")
        process.kill()
        lines += rest(process)
    acknowledged(lines, model)
    agree(stored(tmp_path), model)


@pytest.mark.anyio
async def test_a_second_daemon_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, pytest.raises(Unavailable, match="in use by process") as caught:
        await EmbeddedStore.open(tmp_path)
    assert f"process {server.process.pid}" in caught.value.message


def test_address_token_and_ca_outlive_a_restart(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        before, port = server.kubeconfig.read_bytes(), server.port
    with running_server(tmp_path) as server:
        assert server.port == port
        assert server.kubeconfig.read_bytes() == before


def test_the_data_directory_is_still_while_nothing_happens(tmp_path: Path) -> None:
    """Twice the same reading with an open watch between them; bookmarks and time-outs write nothing."""

    def state() -> dict[str, tuple[int, int]]:
        return {
            path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*") if path.is_file()
        }

    with running_server(tmp_path) as server:
        before = state()
        token = (tmp_path / "token").read_text().strip()
        trusting = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.crt"))
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=trusting, timeout=60)
        url = "/apis/model.kubedl.io/v1alpha1/models?watch=true&allowWatchBookmarks=true&timeoutSeconds=2"
        connection.request("GET", url, headers={"Authorization": f"Bearer {token}"})
        connection.getresponse().read()
        connection.close()
        assert state() == before
