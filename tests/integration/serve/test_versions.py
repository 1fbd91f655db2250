"""The versions of a running server: switched, kept, reported."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


def applied(site: Any, process: Any) -> Any:
    return process.shows(lambda state: state.config_digest == site.digest, "the configuration to be applied")


def test_many_switches_under_load_fail_no_request(site: Any, load: Any) -> None:
    site.write(1)
    process = site.start().ready()
    with load(process.port) as running:
        for number in [2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4]:
            running.more()
            site.write(number)
            process.popen.send_signal(signal.SIGHUP)
            assert applied(site, process).default_version == f"v{number}"
        running.more()
    assert running.faults == []
    assert set(running.answers) == set(range(1, 10))
    assert process.end(signal.SIGINT) == 0


def test_the_file_is_watched_without_a_signal(site: Any) -> None:
    site.write(1)
    process = site.start().ready()
    site.write(1, 2)
    state = applied(site, process)
    assert msgspec.to_builtins(state) == {
        "pid": process.popen.pid,
        "phase": "ready",
        "defaultVersion": "v2",
        "versions": tuple(
            {"version": f"v{number}", "number": number, "state": "ready", "reason": "", "message": ""}
            for number in (1, 2)
        ),
        "configDigest": site.digest,
        "reason": "",
        "message": "",
    }


def test_a_bad_new_version_keeps_the_old_one_and_is_tried_again_when_asked(site: Any, client: Any) -> None:
    site.models = shutil.copytree(site.models, site.folder / "models")
    (site.models / "2" / "model.onnx").write_bytes(b"broken")
    site.write(1)
    process = site.start().ready()
    site.write(2)
    state = applied(site, process)
    assert [(version.version, version.state) for version in state.versions] == [("v1", "ready"), ("v2", "failed")]
    assert state.versions[1].reason == "ModelInvalid"
    assert state.default_version == "v1"
    with client(process.port) as one:
        assert one.times() == 1
        status = one.ask("GET", "/v1/models/times/versions/2")[2]["model_version_status"][0]
        assert (status["state"], status["status"]["error_code"]) == ("END", "INVALID_ARGUMENT")
    shutil.copy(site.models / "3" / "model.onnx", site.models / "2" / "model.onnx")
    process.popen.send_signal(signal.SIGHUP)
    state = process.shows(lambda state: state.default_version == "v2", "the second attempt")
    process.shows(lambda state: len(state.versions) == 1, "the old version to be unloaded")


def test_a_configuration_that_makes_no_sense_changes_nothing_and_is_reported(site: Any, client: Any) -> None:
    site.write(1)
    process = site.start().ready()
    before = site.digest
    site.config.write_text("{")
    state = process.shows(lambda state: state.reason, "the fault to be reported")
    assert (state.reason, state.phase, state.config_digest) == ("ConfigInvalid", "ready", before)
    with client(process.port) as one:
        assert one.times() == 1
    site.write(2)
    state = applied(site, process)
    assert (state.reason, state.default_version) == ("", "v2")


def test_versions_and_labels_are_reached_over_http(site: Any, client: Any) -> None:
    site.write(3, 4)
    process = site.start().ready()
    with client(process.port) as one:
        for path, number in {"": 4, "/versions/3": 3, "/labels/l3": 3, "/versions/4": 4}.items():
            answer = one.ask("POST", f"/v1/models/times{path}:predict", {"inputs": [[1, 0]]})
            assert answer[2] == {"outputs": [[number, 0.0]]}
        body = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
        status, headers, answer = one.ask("POST", "/v2/models/times/versions/v3/infer", body)
        assert (status, headers["X-Model-Version"], answer["outputs"][0]["data"]) == (200, "v3", [3.0, 6.0])


@contextlib.contextmanager
def by_hand(site: Any, base: Path) -> Iterator[int]:
    """A server on a folder; its port."""
    command = [sys.executable, "-m", "modelwright.serve", "--model-dir", str(base), "--name", "times"]
    with (
        (site.folder / "log").open("wb") as log,
        subprocess.Popen(
            [*command, "--framework", "onnx", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            assert line.startswith("ready"), (site.folder / "log").read_text()
            yield int(line.rpartition(":")[2])
        finally:
            process.send_signal(signal.SIGINT)


def status(one: Any) -> list[tuple[str, str]]:
    answer = one.ask("GET", "/v1/models/times")[2]["model_version_status"]
    return [(each["version"], each["state"]) for each in answer]


def test_the_highest_numbered_folder_is_served_and_a_new_one_follows_without_a_failed_request(
    site: Any, client: Any, until: Any, tmp_path: Path
) -> None:
    base, staged = tmp_path / "base", tmp_path / "staged"
    for number in (1, 2):
        shutil.copytree(site.models / str(number), base / str(number))
    shutil.copytree(site.models / "7", staged)
    failures: list[Any] = []
    with by_hand(site, base) as port, client(port) as one:

        def answer() -> int:
            code, headers, body = one.ask("POST", "/v1/models/times:predict", {"instances": [[1, 0]]})
            if code != 200 or headers["X-Model-Version"] != str(int(body["predictions"][0][0])):
                failures.append(body)
            return int(headers["X-Model-Version"])

        assert (answer(), status(one)) == (2, [("2", "AVAILABLE")])
        shutil.copytree(site.models / "3", base / "3")  # in place, file by file
        until(lambda: answer() == 3, "the third version")
        staged.rename(base / "7")
        until(lambda: answer() == 7, "the seventh version")
        until(lambda: status(one) == [("7", "AVAILABLE")], "the former one to be unloaded")
        assert one.ask("POST", "/v1/models/times/versions/7:predict", {"instances": [[1, 0]]})[0] == 200
        assert one.ask("POST", "/v1/models/times/versions/3:predict", {"instances": [[1, 0]]})[0] == 404
        (base / "8").mkdir()
        (base / "8/model.onnx").write_bytes(b"not a model yet")
        until(lambda: ("8", "END") in status(one), "the broken version to be said")
        assert answer() == 7
        shutil.copy(site.models / "8" / "model.onnx", base / "8/model.onnx")
        until(lambda: answer() == 8, "the mended version")
        shutil.rmtree(base / "8")
        until(lambda: answer() == 7, "the highest that is left")
    assert failures == []


def test_a_broken_newest_version_at_the_start_leaves_the_next_one_to_serve(
    site: Any, client: Any, until: Any, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    for number in (1, 2):
        shutil.copytree(site.models / str(number), base / str(number))
    (base / "3").mkdir()
    (base / "3/model.onnx").write_bytes(b"half a cop")
    with by_hand(site, base) as port, client(port) as one:
        body = {"instances": [[1, 0]]}
        assert one.ask("POST", "/v1/models/times:predict", body)[2] == {"predictions": [[2.0, 0.0]]}
        assert "version 3: ModelInvalid" in (site.folder / "log").read_text()
        shutil.copy(site.models / "3" / "model.onnx", base / "3/model.onnx")

        def third() -> bool:
            return bool(one.ask("POST", "/v1/models/times:predict", body)[2] == {"predictions": [[3.0, 0.0]]})

        until(third, "the mended version")
