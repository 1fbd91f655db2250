"""The server process with SavedModels: versions, labels and what it costs."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.integration.serve.site import Client, Load, ServerProcess, Site, wait_for
from tests.tensorflow import models as saved

TENSORFLOW: dict[str, Any] = {"frameworkType": "tensorflow"}
MEGABYTES = 60


def switched(process: ServerProcess, version: str) -> None:
    """Waits until this version alone is held."""

    def alone(state: Any) -> bool:
        return state.default_version == version and [each.version for each in state.versions] == [version]

    process.shows(alone, f"{version} to be served, and the former one to be unloaded")


def test_many_switches_under_load_fail_no_request(site: Site) -> None:
    site.write(1, **TENSORFLOW)
    process = site.start().ready()
    with Load(process.port) as running:
        for number in (2, 3, 4, 5, 1, 2, 3):
            running.more()
            site.write(number, **TENSORFLOW)
            process.popen.send_signal(signal.SIGHUP)
            switched(process, f"v{number}")
        running.more()
    assert running.faults == []
    assert set(running.answers) == {1, 2, 3, 4, 5}
    assert process.end(signal.SIGINT) == 0


def test_the_next_process_takes_over_while_it_still_imports_the_library(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        site.write(1, **TENSORFLOW)
        old = site.start(fd=listener.fileno()).ready()
        with Load(listener.getsockname()[1]) as running:
            site.config = site.folder / "next.json"
            site.write(2, **TENSORFLOW)
            new = site.start(fd=listener.fileno())
            new.shows(lambda state: state.phase == "loading", "the next process to load")
            running.more()
            new.ready()
            assert old.end() == 0
            running.more()
    assert running.faults == []
    assert set(running.answers) == {1, 2}


def test_versions_and_labels_are_asked_as_tensorflow_serving_has_them(site: Site) -> None:
    site.write(1, 2, 5, default=2, **TENSORFLOW)
    process = site.start().ready()
    process.shows(lambda state: [each.state for each in state.versions] == ["ready"] * 3, "all versions")
    body = {"instances": [[1, 0]]}
    with Client(process.port) as one:
        for place, factor in (("", 2), ("/versions/1", 1), ("/versions/5", 5), ("/labels/l1", 1), ("/labels/l5", 5)):
            answer = one.ask("POST", f"/v1/models/times{place}:predict", body)[2]
            assert answer == {"predictions": [[float(factor), 0.0]]}
            metadata = one.ask("GET", f"/v1/models/times{place}/metadata")[2]
            assert metadata["model_spec"]["version"] == str(factor)
        assert one.ask("POST", "/v1/models/times/versions/3:predict", body)[0] == 404
        assert one.ask("POST", "/v1/models/times/labels/canary:predict", body)[0] == 404


def test_what_a_broken_version_lacks_is_said_and_the_former_one_serves_on(site: Site) -> None:
    site.models = shutil.copytree(site.models, site.folder / "models")
    shutil.rmtree(site.models / "2" / "variables")
    site.write(1, **TENSORFLOW)
    process = site.start().ready()
    site.write(2, **TENSORFLOW)
    state = process.shows(lambda state: state.versions[-1].state == "failed", "the broken version to be said")
    assert (state.default_version, state.versions[-1].reason) == ("v1", "ModelInvalid")
    assert "copy the whole folder" in state.versions[-1].message
    with Client(process.port) as one:
        assert one.times() == 1


def test_the_log_is_ours_alone(site: Site) -> None:
    site.write(1, **TENSORFLOW)
    process = site.start().ready()
    with Client(process.port) as one:
        assert one.times() == 1
        assert one.ask("POST", "/v1/models/times:predict", {"instances": [[1, 2, 3]]})[0] == 400
    process.end(signal.SIGINT)
    lines = process.log.read_text().splitlines()
    assert [line for line in lines if not re.match(r"\d{4}-\d\d-\d\d \S+ INFO ", line)] == []


def test_the_memory_of_former_versions_is_given_back(site: Site) -> None:
    site.models = site.folder / "heavy"
    for factor in (1, 2):
        saved.times(site.models / str(factor), factor, MEGABYTES)
    site.write(1, **TENSORFLOW)
    process = site.start().ready()
    memory = psutil.Process(process.popen.pid)
    limit = memory.memory_info().rss + MEGABYTES * 500_000
    for number in (2, 1, 2, 1, 2, 1, 2, 1):
        site.write(number, **TENSORFLOW)
        switched(process, f"v{number}")
        with Client(process.port) as one:
            assert one.times() == number
        wait_for(lambda: memory.memory_info().rss < limit, "the former version's memory to be given back")


@contextlib.contextmanager
def by_hand(base: Path, log: Path) -> Iterator[int]:
    """A server on a folder with numbered versions; its port."""
    command = [sys.executable, "-m", "modelwright.serve", "--model-dir", str(base), "--name", "times"]
    options = ["--framework", "tensorflow", "--listen", "127.0.0.1:0"]
    with (
        log.open("wb") as stderr,
        subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=stderr) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            assert line.startswith("ready"), log.read_text()
            yield int(line.rpartition(":")[2])
        finally:
            process.send_signal(signal.SIGINT)


def test_numbered_folders_are_served_as_tensorflow_serving_does(models: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    for number in (1, 2):
        shutil.copytree(models / str(number), base / str(number))
    failed: list[Any] = []
    with by_hand(base, tmp_path / "log") as port, Client(port) as one:

        def answer() -> int:
            code, headers, body = one.ask("POST", "/v1/models/times:predict", {"instances": [[1, 0]]})
            if (code, body) != (200, {"predictions": [[float(headers["X-Model-Version"]), 0.0]]}):
                failed.append(body)
            return int(headers["X-Model-Version"])

        assert answer() == 2
        shutil.copytree(models / "4", base / "4")
        wait_for(lambda: answer() == 4, "the new version")
        wait_for(lambda: len(one.ask("GET", "/v1/models/times")[2]["model_version_status"]) == 1, "the end of the old")
        assert one.ask("POST", "/v1/models/times/versions/2:predict", {"instances": [[1, 0]]})[0] == 404
    assert failed == []


@pytest.mark.parametrize("top", ["", "half_plus_two"])
def test_a_model_folder_may_hold_numbered_versions_and_the_highest_counts(site: Site, models: Path, top: str) -> None:
    site.models = site.folder / "archives"
    for number in (3, 4):
        shutil.copytree(models / str(number), site.models / "4" / top / f"000{number}")
    site.write(4, **TENSORFLOW)
    with Client(site.start().ready().port) as one:
        assert one.times() == 4
