"""Unpacking tars that other tools made."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelwright.oci.tree import SafeTree
from modelwright.oci.unpack import Limits, Unpacked, unpack_tar, unpack_tar_into, unpacked_into
from modelwright.ports.errors import AlreadyExists, Rejected


def make_tar(files: dict[str, bytes], *, kind: int = tarfile.PAX_FORMAT, folders: tuple[str, ...] = ()) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as tar:
        for name in folders:
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE
            tar.addfile(info)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mode = 0o4777
            tar.addfile(info, io.BytesIO(data))
    out.seek(0)
    return out


def tree_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_files_and_folders_come_out_as_they_went_in(tmp_path: Path, kind: int) -> None:
    files = {"model.onnx": b"weights" * 1000, "vars/a.bin": b"", f"{'d' * 90}/{'f' * 90}": b"long", "ümlaut": b"u"}
    done = unpack_tar(make_tar(files, kind=kind, folders=("empty/",)), tmp_path / "out")
    assert tree_of(tmp_path / "out") == files
    assert (tmp_path / "out/empty").is_dir()
    assert done == Unpacked(entries=7, size=sum(map(len, files.values())))


def test_very_long_names_come_from_pax_and_gnu_headers(tmp_path: Path) -> None:
    name = "/".join(["n" * 200] * 10)
    for number, kind in enumerate((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)):
        unpack_tar(make_tar({name: b"x"}, kind=kind), tmp_path / str(number))
        assert tree_of(tmp_path / str(number)) == {name: b"x"}


def test_modes_are_fixed_whatever_the_archive_and_the_umask_say(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        unpack_tar(make_tar({"d/f": b"x"}), tmp_path / "out")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "out/d").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "out/d/f").stat().st_mode) == 0o644


def test_only_the_subpath_is_kept_and_stripped(tmp_path: Path) -> None:
    tar = make_tar({"kubedl-model/a/b": b"1", "etc/passwd": b"2", "kubedl-model2/c": b"3"}, folders=("kubedl-model/",))
    assert unpack_tar(tar, tmp_path / "out", subpath="kubedl-model").entries == 2
    assert tree_of(tmp_path / "out") == {"a/b": b"1"}


def test_a_base_image_may_hold_links_outside_of_the_subpath(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        link = tarfile.TarInfo("bin/sh")
        link.type, link.linkname = tarfile.LNKTYPE, "bin/["
        tar.addfile(link)
        info = tarfile.TarInfo("m/x")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    out.seek(0)
    unpack_tar(out, tmp_path / "out", subpath="m")
    assert tree_of(tmp_path / "out") == {"x": b"x"}


@pytest.mark.parametrize(
    "name", ["m/.wh.x", "m/d/.wh..wh..opq", ".wh.m", ".wh..wh..opq", "a/../m/x", "/m/x", "m\\x", "m/.wh.x/y"]
)
def test_the_subpath_is_not_touched_by_tricks_outside(tmp_path: Path, name: str) -> None:
    with pytest.raises(Rejected):
        unpack_tar(make_tar({name: b""}), tmp_path / "out", subpath="m")


def test_whiteouts_elsewhere_are_ignored(tmp_path: Path) -> None:
    unpack_tar(make_tar({"etc/.wh.x": b"", "etc/.wh..wh..opq": b"", "m/x": b"x"}), tmp_path / "out", subpath="m")
    assert tree_of(tmp_path / "out") == {"x": b"x"}


def test_a_link_in_place_of_the_subpaths_parent_is_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        link = tarfile.TarInfo("opt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(link)
    out.seek(0)
    with pytest.raises(Rejected) as caught:
        unpack_tar(out, tmp_path / "out", subpath="opt/model")
    assert caught.value.reason == "ArchiveHasLinks"


def test_layers_share_folders_but_not_files(tmp_path: Path) -> None:
    with SafeTree(tmp_path / "out", Limits()) as tree:
        unpack_tar_into(make_tar({"d/a": b"1"}, folders=("d/",)), tree)
        unpack_tar_into(make_tar({"d/b": b"2"}, folders=("d/",)), tree)
        with pytest.raises(Rejected) as caught:
            unpack_tar_into(make_tar({"d/a": b"3"}), tree)
    assert caught.value.reason == "ArchiveHasDuplicates"
    assert tree_of(tmp_path / "out") == {"d/a": b"1", "d/b": b"2"}


def test_a_later_layer_may_overwrite_a_file_where_it_is_allowed(tmp_path: Path) -> None:
    unpack_tar(make_tar({"d/a": b"long old content"}), tmp_path / "out")
    unpack_tar(make_tar({"d/a": b"new"}), tmp_path / "out", overwrite=True)
    assert tree_of(tmp_path / "out") == {"d/a": b"new"}
    with pytest.raises(Rejected):
        unpack_tar(make_tar({"d": b"new"}), tmp_path / "out", overwrite=True)


def test_overwriting_never_writes_through_a_link(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("safe")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a").symlink_to(canary)
    (tmp_path / "out/d").symlink_to(tmp_path)
    unpack_tar(make_tar({"a": b"new"}), tmp_path / "out", overwrite=True)
    with pytest.raises(Rejected):
        unpack_tar(make_tar({"d/canary": b"new"}), tmp_path / "out", overwrite=True)
    assert canary.read_text() == "safe"
    assert not (tmp_path / "out/a").is_symlink()


def test_a_destination_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(OSError):
        unpack_tar(make_tar({"a": b"x"}), tmp_path / "link")
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(entries=2), "ArchiveTooManyEntries"),
        (Limits(size=9), "ArchiveTooLarge"),
        (Limits(depth=1), "ArchiveTooDeep"),
    ],
)
def test_limits_hold(tmp_path: Path, limits: Limits, reason: str) -> None:
    with pytest.raises(Rejected) as caught:
        unpack_tar(make_tar({"d/a": b"12345", "d/b": b"12345"}), tmp_path / "out", limits)
    assert caught.value.reason == reason


def test_limits_hold_exactly(tmp_path: Path) -> None:
    limits = Limits(entries=3, size=10, depth=2)
    assert unpack_tar(make_tar({"d/a": b"12345", "d/b": b"12345"}), tmp_path / "out", limits) == Unpacked(3, 10)


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    whole = make_tar({"a": b"x" * 700, "d/b": b"y" * 100}, kind=tarfile.USTAR_FORMAT).getvalue()
    end = len(whole.rstrip(b"\0")) + 512 - len(whole.rstrip(b"\0")) % 512 + 512
    for cut in range(0, end, 37):
        with pytest.raises(Rejected) as caught:
            unpack_tar(io.BytesIO(whole[:cut]), tmp_path / str(cut))
        assert caught.value.reason == "ArchiveTruncated"


def test_the_stream_is_read_to_its_end(tmp_path: Path) -> None:
    tar = make_tar({"a": b"x"})
    unpack_tar(tar, tmp_path / "out")
    assert tar.read() == b""


def test_a_staged_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(Rejected), unpacked_into(tmp_path / "deep/final") as staging:
        unpack_tar(make_tar({"a": b"x", "../b": b"y"}), staging)
    assert list((tmp_path / "deep").iterdir()) == []
    with unpacked_into(tmp_path / "deep/final") as staging:
        unpack_tar(make_tar({"a": b"x"}), staging)
        assert not (tmp_path / "deep/final").exists()
    assert tree_of(tmp_path / "deep") == {"final/a": b"x"}
    assert stat.S_IMODE((tmp_path / "deep/final").stat().st_mode) == 0o755


def test_a_staged_folder_never_replaces_content(tmp_path: Path) -> None:
    (tmp_path / "final").mkdir()
    (tmp_path / "final/mine").write_text("mine")
    with pytest.raises(AlreadyExists), unpacked_into(tmp_path / "final") as staging:
        unpack_tar(make_tar({"a": b"x"}), staging)
    assert tree_of(tmp_path) == {"final/mine": b"mine"}


def test_what_a_killed_process_left_is_removed_by_the_next_and_a_running_one_is_not(tmp_path: Path) -> None:
    program = f"""
        import sys
        from pathlib import Path
        from modelwright.oci.unpack import unpacked_into
        with unpacked_into(Path({str(tmp_path / "first")!r})) as staging:
            (staging / "half").write_bytes(b"x")
            print(staging, flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        os.utime(left, (0, 0))  # its time of grace is over
        with unpacked_into(tmp_path / "second"):
            assert (left / "half").exists()
        process.kill()
    with unpacked_into(tmp_path / "third"):
        assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["second", "third"]


part = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.lists(part, min_size=1, max_size=4).map("/".join), st.binary(max_size=600), max_size=6))
def test_any_names_either_come_out_exactly_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    place = tmp_path_factory.mktemp("any")
    try:
        tar = make_tar(files)
    except ValueError:
        return  # tarfile itself cannot write the name
    try:
        unpack_tar(tar, place / "out")
    except Rejected:
        assert {path.name for path in place.iterdir()} <= {"out"}
    else:
        normal = {"/".join(p for p in name.split("/") if p not in ("", ".")): data for name, data in files.items()}
        assert tree_of(place / "out") == normal


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 4095), st.integers(0, 255))
def test_a_flipped_byte_never_leaves_the_folder_nor_ends_in_another_error(
    tmp_path_factory: pytest.TempPathFactory, at: int, value: int
) -> None:
    place = tmp_path_factory.mktemp("flip")
    data = bytearray(make_tar({"d/a": b"x" * 900, "n" * 120: b"y"}).getvalue())
    data[at] = value
    try:
        unpack_tar(io.BytesIO(data), place / "out")
    except Rejected as error:
        assert error.reason.startswith("Archive")
    assert {path.name for path in place.iterdir()} <= {"out"}
