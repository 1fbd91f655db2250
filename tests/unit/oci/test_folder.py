"""Reading model folders: what is packed, and what is refused."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from modelwright.oci import folder
from modelwright.oci.folder import scan
from modelwright.oci.layers import plan
from modelwright.ports.errors import Conflict, Invalid, NotFound, Rejected


def read_all(path: Path) -> None:
    for layer in plan(scan(path)):
        layer.hashed()


def test_entries_are_sorted_by_their_bytes(tmp_path: Path) -> None:
    for name in ("b", "a-b", "a", "Z", "é"):
        (tmp_path / name).write_text(name)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "d").write_text("")
    assert [entry.path for entry in scan(tmp_path).entries] == ["Z", "a", "a-b", "b", "c", "c/d", "é"]


def test_private_notes_at_the_root_are_not_packed(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "sub"):
        (place / ".modelwright").mkdir(parents=True)
        (place / ".modelwright" / "metrics.json").write_text("{}")
    assert [entry.path for entry in scan(tmp_path).files] == ["sub/.modelwright/metrics.json"]


def test_a_link_to_the_folder_itself_may_be_given(tmp_path: Path) -> None:
    (tmp_path / "v3").mkdir()
    (tmp_path / "v3" / "a").write_text("a")
    (tmp_path / "current").symlink_to("v3")
    assert scan(tmp_path / "current") == scan(tmp_path / "v3")


def test_a_single_file_is_packed_alone(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("model")
    (tmp_path / "other").write_text("other")
    assert [entry.path for entry in scan(tmp_path / "model.onnx").entries] == ["model.onnx"]


def make_socket(path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("/etc/passwd"),
        lambda path: path.symlink_to("inside"),
        lambda path: path.symlink_to(".."),
        lambda path: path.symlink_to("nowhere"),
        os.mkfifo,
        make_socket,
    ],
    ids=["link out", "link in", "link up", "dead link", "pipe", "socket"],
)
def test_what_is_neither_file_nor_folder_is_refused_by_name(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inside").write_text("x")
    make(tmp_path / "sub" / "odd")
    with pytest.raises(Rejected) as caught:
        scan(tmp_path)
    assert caught.value.reason == "StorageNotPlain"
    assert "sub/odd" in caught.value.message


def test_the_message_about_a_link_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "weights").symlink_to("/tmp")
    with pytest.raises(Rejected, match="cp -rL"):
        scan(tmp_path)


@pytest.mark.parametrize("name", [b".wh.model", b"a\\b", b"a\nb", b"\xff\xfe", "a\u202eb".encode()])
def test_names_that_no_reader_would_unpack_are_refused(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).touch()
    with pytest.raises(Rejected) as caught:
        scan(tmp_path)
    assert "rename" in caught.value.message
    assert caught.value.message.isprintable()


def test_names_that_are_one_on_other_systems_are_refused(tmp_path: Path) -> None:
    (tmp_path / "Model").write_text("1")
    (tmp_path / "model").write_text("2")
    with pytest.raises(Rejected, match="same name"):
        scan(tmp_path)


def test_folders_without_end_are_refused(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 33)
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    with pytest.raises(Rejected, match="deeper"):
        scan(tmp_path)


def test_another_file_system_below_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "file").write_text("x")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        walk = folder.walk(descriptor, "", tmp_path, device=tmp_path.stat().st_dev + 1)
        with pytest.raises(Rejected, match="another file system"):
            list(walk)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: (path / "sub").mkdir(parents=True)])
def test_a_folder_without_a_file_is_empty(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "model")
    with pytest.raises(Invalid) as caught:
        scan(tmp_path / "model")
    assert caught.value.reason == "StorageEmpty"


@pytest.mark.parametrize("path", ["nowhere", "file/below", "nowhere/at/all"])
def test_a_missing_path_is_not_found(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotFound) as caught:
        scan(tmp_path / path)
    assert caught.value.reason == "StoragePathNotFound"


def test_a_path_with_nul_is_invalid() -> None:
    with pytest.raises(Invalid):
        scan(Path("a\0b"))


def test_a_link_that_leads_to_itself_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(Invalid) as caught:
        scan(tmp_path / "loop")
    assert caught.value.reason == "StoragePathInvalid"


UNREADABLE = """
import sys
from pathlib import Path
from modelwright.oci import image
from modelwright.ports.errors import Forbidden
import os
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    image.build(Path(sys.argv[1]))
except Forbidden as error:
    print(error.reason, error.message)
"""


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users can enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("locked", ["file", "folder"])
def test_what_cannot_be_read_is_named(public_folder: Path, locked: str) -> None:
    model = public_folder / "model"
    (model / "folder").mkdir(parents=True)
    (model / "file").write_text("secret")
    (model / "folder" / "inner").write_text("x")
    (model / locked).chmod(0)
    done = subprocess.run([sys.executable, "-c", UNREADABLE, str(model)], capture_output=True, text=True)
    (model / locked).chmod(0o755)
    assert done.stdout.startswith(f"FileUnreadable {model / locked}"), done.stderr
    assert "chmod" in done.stdout


def rewrite(path: Path) -> None:
    path.write_text("other, and longer")


def swap_for_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def swap_for_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def swap_for_twin(path: Path) -> None:
    before = path.stat()
    data = path.read_bytes()
    other = path.with_name("other")
    other.write_bytes(data)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def swap_parent_for_link(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.symlink_to("moved")


@pytest.mark.parametrize(
    "swap", [rewrite, swap_for_link, swap_for_pipe, swap_for_twin, swap_parent_for_link, Path.unlink]
)
def test_a_file_that_is_another_one_when_it_is_read_is_noticed(tmp_path: Path, swap: Callable[[Path], None]) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_text("content")
    layers = plan(scan(tmp_path))
    swap(tmp_path / "sub" / "file")
    with pytest.raises(Conflict) as caught:
        layers[0].hashed()
    assert caught.value.reason == "StorageChanged"
    assert "sub/file" in caught.value.message


@pytest.mark.parametrize("change", ["grow", "shrink", "touch"])
def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path: Path, change: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(os.urandom(3_000_000))
    (layer,) = plan(scan(tmp_path))

    def interfere(_count: int) -> None:
        if change == "grow":
            with file.open("ab") as out:
                out.write(b"more")
        elif change == "shrink":
            os.truncate(file, 100)
        else:
            os.utime(file, ns=(1, 1))

    with pytest.raises(Conflict) as caught:
        layer.hashed(interfere)
    assert caught.value.reason == "StorageChanged"


def test_reading_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(bytes(9_000_000))
    before = len(list(Path("/dev/fd").iterdir()))
    read_all(tmp_path)
    (layer,) = plan(scan(tmp_path))
    with layer.open() as stream:
        stream.read(5000)
    assert len(list(Path("/dev/fd").iterdir())) == before
