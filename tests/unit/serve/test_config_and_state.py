"""The two files of a server process: what it should serve, and what it says it serves."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelwright.http.statefile import StateFile
from modelwright.ports.errors import Invalid
from modelwright.serve.config import parse, read
from modelwright.serve.options import ServerOptions, config_by_hand
from modelwright.serve.state import ServerState, VersionState

GOOD: dict[str, Any] = {
    "modelName": "digits",
    "frameworkType": "onnx",
    "versions": [{"version": "v2", "number": 2, "path": "/models/ab12", "labels": ["stable"]}],
    "defaultVersion": "v2",
    "threads": 0,
    "later": "fields of a newer control plane are ignored",
}


def test_a_configuration_is_read_with_the_digest_of_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(msgspec.json.encode(GOOD))
    config, digest = read(file)
    assert (config.model_name, config.versions[0].labels, config.max_queue) == ("digits", ("stable",), 128)
    assert digest == hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modelName": ""}, "modelName"),
        ({"modelName": "a/b"}, "modelName"),
        ({"versions": []}, "versions is empty"),
        ({"versions": None}, "Expected `array`"),
        ({"defaultVersion": "v9"}, "'v9' is not listed"),
        ({"versions": GOOD["versions"] * 2}, "listed twice"),
        ({"versions": [*GOOD["versions"], {"version": "v3", "number": 2, "path": "/"}]}, "the same number"),
        ({"versions": [*GOOD["versions"], {"version": "v3", "number": 3, "path": "/", "labels": ["stable"]}]}, "label"),
        ({"versions": [*GOOD["versions"], {"version": "", "number": 3, "path": "/"}]}, "empty name"),
        ({"versions": [*GOOD["versions"], {"version": "v3", "number": -1, "path": "/"}]}, "negative"),
        ({"versions": [{"version": "v2", "number": "2", "path": "/"}]}, "Expected `int`"),
        ({"threads": -1}, "threads"),
        ({"maxRequestBytes": 0}, "maxRequestBytes"),
        ({"maxQueue": -1}, "maxQueue"),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_fault(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=r"server\.json") as caught:
        parse(msgspec.json.encode(GOOD | change), "server.json")
    assert message in caught.value.message
    assert caught.value.reason == "ConfigInvalid"


def test_a_configuration_that_is_missing_or_no_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        read(tmp_path / "none.json")
    with pytest.raises(Invalid, match="cannot be read"):
        parse(b"{", "x")


def test_a_model_can_be_served_by_hand_without_a_file(tmp_path: Path) -> None:
    config = config_by_hand(ServerOptions(model_dir=tmp_path, name="m", framework="onnx"))
    assert (config.model_name, config.default_version, config.versions[0].path) == ("m", "1", str(tmp_path))
    with pytest.raises(Invalid, match="--name NAME"):
        config_by_hand(ServerOptions(model_dir=tmp_path))


def test_the_state_is_replaced_as_a_whole_and_only_when_it_differs(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    file = StateFile(path)
    state = ServerState(pid=7, phase="ready", default_version="v2", versions=(VersionState("v2", 2, "ready"),))
    file.write(state)
    first = path.stat().st_ino
    file.write(state)
    assert path.stat().st_ino == first
    file.write(msgspec.structs.replace(state, phase="draining"))
    assert msgspec.json.decode(path.read_bytes(), type=ServerState).phase == "draining"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_the_state_is_spelled_as_agreed(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    version = VersionState("v2", 2, "failed", "ModelNotFound", "no folder")
    StateFile(path).write(ServerState(pid=7, phase="loading", versions=(version,), config_digest="ab"))
    assert msgspec.json.decode(path.read_bytes()) == {
        "pid": 7,
        "phase": "loading",
        "defaultVersion": None,
        "versions": [
            {"version": "v2", "number": 2, "state": "failed", "reason": "ModelNotFound", "message": "no folder"}
        ],
        "configDigest": "ab",
        "reason": "",
        "message": "",
    }
