"""Where a model's file is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwright.ports.errors import Invalid, NotFound, Rejected
from modelwright.serve.folder import find_files, only_file


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
