"""A model's folder given by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwright.ports.errors import Invalid
from modelwright.serve.model_dir import Watch, configurations, versions_in
from modelwright.serve.options import ServerOptions


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def served(folder: Path) -> list[tuple[str, int, str]]:
    options = ServerOptions(model_dir=folder, name="m", framework="onnx")
    versions = [config.versions for config in configurations(options)]
    assert all(len(each) == 1 for each in versions)
    return [(version.version, version.number, version.path) for (version,) in versions]


def test_the_highest_number_comes_first_and_the_others_stand_by(tmp_path: Path) -> None:
    touch(*(tmp_path / name / "model.onnx" for name in ("1", "10", "9", "tmp")), tmp_path / "README.md")
    assert served(tmp_path) == [(str(number), number, str(tmp_path / str(number))) for number in (10, 9, 1)]


def test_numbers_may_have_leading_zeros(tmp_path: Path) -> None:
    touch(tmp_path / "00000123/model.onnx")
    assert served(tmp_path) == [("123", 123, str(tmp_path / "00000123"))]


@pytest.mark.parametrize("names", [["model.onnx", "1/weights.bin"], ["top/model.onnx"], []])
def test_a_folder_that_is_a_model_itself_is_version_1(tmp_path: Path, names: list[str]) -> None:
    touch(*(tmp_path / name for name in names))
    assert served(tmp_path) == [("1", 1, str(tmp_path))]


def test_a_file_or_nothing_has_no_numbered_versions(tmp_path: Path) -> None:
    touch(tmp_path / "model.onnx")
    assert versions_in(tmp_path / "model.onnx") == versions_in(tmp_path / "none") == ()


def test_what_is_not_said_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="--name NAME"):
        configurations(ServerOptions(model_dir=tmp_path, framework="onnx"))


def test_a_new_version_is_noticed_when_its_copy_is_complete(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    assert watch.look(None) is None
    touch(tmp_path / "1/model.onnx")
    assert watch.look("1") is None
    settled = watch.look("1")
    assert settled is not None
    assert watch.look("1") == settled
    (tmp_path / "1/model.onnx").write_bytes(b"changed under the server")
    assert watch.look("1") == settled
    touch(tmp_path / "2/model.onnx")
    assert watch.look("1") is None
    (tmp_path / "2/model.onnx").write_bytes(b"more of it")
    assert watch.look("1") is None
    second = watch.look("1")
    assert second not in (None, settled)
    (tmp_path / "2/model.onnx").write_bytes(b"a better copy of what could not be loaded")
    assert watch.look("1") is None
    assert watch.look("1") not in (None, second)


def test_a_folder_without_numbers_is_not_watched(tmp_path: Path) -> None:
    touch(tmp_path / "model.onnx")
    watch = Watch(tmp_path)
    assert [watch.look("1") for _ in range(3)] == [None] * 3
