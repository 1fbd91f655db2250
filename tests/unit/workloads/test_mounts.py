"""Mounts of a command: links to what is real, and what may not be mounted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from modelwright.adapters.embedded.workloads import mounts
from modelwright.ports.errors import Forbidden, Invalid, Terminal
from modelwright.ports.workloads import Claim, Download, HostPath, Kept, ModelSource, Mount, Scratch

DATA = Download("http://x/d")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    (path / "hard-examples" / "default" / "jis").mkdir(parents=True)
    (path / "run").mkdir()
    return path


def layout(data_dir: Path, given: Sequence[Mount], models: dict[ModelSource, Path] | None = None) -> mounts.Layout:
    return mounts.Layout(given, data_dir / "run" / "root", models or {}, data_dir)


def test_paths_below_and_above_mounts_are_made_real(data_dir: Path, tmp_path: Path) -> None:
    model, root = tmp_path / "model", data_dir / "run" / "root"
    given = (
        Mount(HostPath(str(model), create=True), "/kubedl-model", read_only=False),
        Mount(DATA, "/datasets/d"),
        Mount(Scratch(), "/scratch"),
        Mount(Kept("default/other"), "/kept"),
    )
    made = layout(data_dir, given, {DATA: tmp_path / "cache"})
    made.make()
    layout(data_dir, given, {DATA: tmp_path / "cache"}).make()
    assert made.real("/kubedl-model") == str(model)
    assert made.real("/kubedl-model/sub/x") == str(model / "sub" / "x")
    assert made.real("/datasets") == str(root / "datasets")
    assert made.real("/datasets/d/train.csv") == str(tmp_path / "cache" / "train.csv")
    assert made.real("/scratch") == str(root / "scratch")
    assert made.real("/kept") == str(data_dir / "hard-examples" / "default" / "other")
    assert (root / "datasets" / "d").readlink() == tmp_path / "cache"
    assert (root / "scratch").is_dir()
    assert model.is_dir()
    for other in ("/etc", "/", "kubedl-model", "text", "/kubedl-models"):
        assert made.real(other) == other


def test_scratch_may_hold_mounts_and_the_innermost_counts(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "a.csv").write_text("1")
    given = (Mount(DATA, "/datasets/d"), Mount(Scratch(), "/datasets"))
    mounts.check(given)
    made = layout(data_dir, given, {DATA: tmp_path / "cache"})
    made.make()
    assert made.real("/datasets/d/a.csv") == str(tmp_path / "cache" / "a.csv")
    assert [path.name for path in Path(made.real("/datasets")).iterdir()] == ["d"]
    assert Path(made.real("/datasets/d/a.csv")).read_text() == "1"


@pytest.mark.parametrize(
    "given",
    [
        (Mount(Scratch(), "/a/../x"),),
        (Mount(Scratch(), "a"),),
        (Mount(Scratch(), "/"),),
        (Mount(Kept("../x"), "/a"),),
        (Mount(Claim("c"), "/a"),),
        (Mount(Scratch(), "/a"), Mount(DATA, "/a")),
        (Mount(HostPath("/x"), "/a"), Mount(DATA, "/a/b")),
        (Mount(DATA, "/a/b"), Mount(HostPath("/x"), "/a")),
    ],
)
def test_mounts_that_make_no_sense_are_refused(given: Sequence[Mount]) -> None:
    with pytest.raises(Terminal):
        mounts.check(given)


@pytest.mark.parametrize("inside", [".", "run", "run/new", "..", "../data", "models/x"])
@pytest.mark.parametrize("create", [True, False])
def test_the_data_directory_is_not_for_commands(data_dir: Path, inside: str, *, create: bool) -> None:
    volume = HostPath(str(data_dir / inside), create=create)
    for read_only in (True, False):
        with pytest.raises(Forbidden) as refused:
            layout(data_dir, [Mount(volume, "/m", read_only=read_only)])
        assert refused.value.reason == "StorageForbidden"
    assert not (data_dir / "models").exists()


def test_a_link_into_the_data_directory_is_seen_through(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data_dir)
    with pytest.raises(Forbidden):
        layout(data_dir, [Mount(HostPath(str(tmp_path / "link" / "new"), create=True), "/m", read_only=False)])
    assert not (data_dir / "new").exists()


def test_hard_examples_may_be_read_and_not_written(data_dir: Path) -> None:
    volume = HostPath(str(data_dir / "hard-examples" / "default" / "jis"))
    assert layout(data_dir, [Mount(volume, "/m")]).real("/m") == volume.path
    with pytest.raises(Forbidden):
        layout(data_dir, [Mount(volume, "/m", read_only=False)])


def test_a_folder_that_cannot_be_made_is_said(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Invalid) as refused:
            layout(data_dir, [Mount(HostPath(str(path), create=True), "/m", read_only=False)])
        assert refused.value.reason == "StoragePathInvalid"
        assert str(path) in refused.value.message


def test_a_folder_that_is_not_there_is_said(data_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(Invalid) as refused:
        layout(data_dir, [Mount(HostPath(str(tmp_path / "no")), "/m")])
    assert refused.value.reason == "StoragePathMissing"
