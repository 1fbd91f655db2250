"""Where a model's file is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwright.ports.errors import Invalid, NotFound, Rejected
from modelwright.serve.folder import find_files, find_folder, numbered_folders, only_file


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize("place", ["model.onnx", "resnet-v2/model.onnx", "any name/M.ONNX"])
def test_the_root_and_one_top_folder_are_looked_into(tmp_path: Path, place: str) -> None:
    touch(tmp_path / place, tmp_path / ".hidden.onnx", tmp_path / ".modelwright/metrics.onnx", tmp_path / "README")
    assert only_file(find_files(tmp_path, [".onnx"]), tmp_path, "*.onnx") == tmp_path / place


def test_the_root_comes_before_a_folder(tmp_path: Path) -> None:
    touch(tmp_path / "a.onnx", tmp_path / "folder/b.onnx")
    assert find_files(tmp_path, [".onnx"]) == [tmp_path / "a.onnx"]


def test_a_single_file_is_a_model_too(tmp_path: Path) -> None:
    touch(tmp_path / "a.onnx")
    assert find_files(tmp_path / "a.onnx", [".onnx"]) == [tmp_path / "a.onnx"]
    assert find_files(tmp_path / "a.onnx", [".skops"]) == []


def test_no_file_several_files_and_no_folder_are_told_apart(tmp_path: Path) -> None:
    touch(tmp_path / "one/a.onnx", tmp_path / "two/b.onnx")
    with pytest.raises(NotFound, match=r"holds no \*.onnx file") as none:
        only_file(find_files(tmp_path, [".onnx"]), tmp_path, "*.onnx")
    touch(tmp_path / "c.onnx", tmp_path / "d.onnx")
    with pytest.raises(Invalid, match=r"2 \*.onnx files \(c.onnx, d.onnx\)") as several:
        only_file(find_files(tmp_path, [".onnx"]), tmp_path, "*.onnx")
    with pytest.raises(NotFound, match="no model folder") as missing:
        find_files(tmp_path / "none", [".onnx"])
    reasons = [caught.value.reason for caught in (none, several, missing)]
    assert reasons == ["ModelNotFound", "ModelInvalid", "ModelNotFound"]


def test_links_inside_the_folder_are_fine_and_links_out_of_it_are_refused(tmp_path: Path) -> None:
    model = tmp_path / "model"
    touch(model / "data/a.onnx", tmp_path / "secret.onnx")
    (model / "a.onnx").symlink_to("data/a.onnx")
    assert find_files(model, [".onnx"]) == [model / "a.onnx"]
    (model / "data/weights.bin").symlink_to(tmp_path / "secret.onnx")
    with pytest.raises(Rejected, match="leads out of the model folder") as caught:
        find_files(model, [".onnx"])
    assert caught.value.reason == "UnsafePath"


@pytest.mark.parametrize("place", ["1", "top/00000123", "v1", "."])
def test_a_folder_is_found_by_a_file_in_it(tmp_path: Path, place: str) -> None:
    touch(tmp_path / place / "saved_model.pb", tmp_path / place / "variables/variables.index")
    assert find_folder(tmp_path, "saved_model.pb") == tmp_path / place


@pytest.mark.parametrize("top", ["", "top"])
def test_of_numbered_folders_the_highest_number_is_the_model(tmp_path: Path, top: str) -> None:
    for name in ("2", "10", "010", "9", "11x", ".12"):
        touch(tmp_path / top / name / "model.onnx")
    assert only_file(find_files(tmp_path, [".onnx"]), tmp_path, "*.onnx") == tmp_path / top / "10/model.onnx"
    assert list(numbered_folders(tmp_path / top)) == [2, 9, 10]


def test_a_folder_that_is_not_there_and_a_lone_file_hold_no_folder(tmp_path: Path) -> None:
    touch(tmp_path / "a/b/c/saved_model.pb", tmp_path / "saved_model.pbtxt")
    for path in (tmp_path, tmp_path / "saved_model.pbtxt"):
        with pytest.raises(NotFound, match=r"holds no saved_model\.pb, neither"):
            find_folder(path, "saved_model.pb")
    with pytest.raises(NotFound, match="no model folder"):
        find_folder(tmp_path / "none", "saved_model.pb")
