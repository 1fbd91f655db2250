"""The versions of a running server: switched, kept, reported."""

from __future__ import annotations

import hashlib
import shutil
import signal
from typing import Any

import msgspec


def digest(site: Any) -> str:
    return hashlib.sha256(site.config.read_bytes()).hexdigest()


def applied(site: Any, process: Any) -> Any:
    return process.shows(lambda state: state.config_digest == digest(site), "the configuration to be applied")


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
        "configDigest": digest(site),
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
    before = digest(site)
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
