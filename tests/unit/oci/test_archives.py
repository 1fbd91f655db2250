"""Archives as people make them, and files that only look like archives."""

from __future__ import annotations

import bz2
import gzip
import io
import resource
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from modelwright.oci.archives import unpack_archive
from modelwright.oci.unpack import Limits, Unpacked
from modelwright.ports.errors import Rejected, Unavailable

FILES = {"model.onnx": b"weights" * 1000, "vars/a.bin": b"", "ümlaut": b"u"}


def tree_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def tar_bytes(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Unseekable(io.RawIOBase):
    """What makes zipfile write data descriptors."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.data += bytes(data)  # type: ignore[call-overload]
        return memoryview(data).nbytes  # type: ignore[arg-type]


def zip_bytes(files: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED, descriptors: bool = False) -> bytes:
    out = Unseekable() if descriptors else io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.data if isinstance(out, Unseekable) else out.getvalue()


ARCHIVES = {
    "tar": tar_bytes(FILES),
    "tar.gz": gzip.compress(tar_bytes(FILES)),
    "gz of two members": gzip.compress(tar_bytes(FILES)[:1000]) + gzip.compress(tar_bytes(FILES)[1000:]),
    "gz padded with zeros": gzip.compress(tar_bytes(FILES)) + bytes(700),
    "zip": zip_bytes(FILES),
    "stored zip": zip_bytes(FILES, method=zipfile.ZIP_STORED),
    "streamed zip": zip_bytes(FILES, descriptors=True),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_every_kind_is_known_by_its_content(tmp_path: Path, kind: str) -> None:
    (tmp_path / "archive").write_bytes(ARCHIVES[kind])
    done = unpack_archive(tmp_path / "archive", tmp_path / "out")
    assert tree_of(tmp_path / "out") == FILES
    assert done == Unpacked(4, 7001)


@pytest.mark.parametrize("kind", ARCHIVES)
def test_every_cut_is_refused(tmp_path: Path, kind: str) -> None:
    data = ARCHIVES[kind]
    used = len(data.rstrip(b"\0"))
    end = used + 512 - used % 512 if kind == "tar" else used
    for cut in range(513, end, max(1, end // 40)):
        (tmp_path / "archive").write_bytes(data[:cut])
        if kind.startswith("gz of") and cut == len(gzip.compress(tar_bytes(FILES)[:1000])):
            continue
        with pytest.raises(Rejected):
            unpack_archive(tmp_path / "archive", tmp_path / str(cut))


def test_what_is_no_archive_becomes_one_file(tmp_path: Path) -> None:
    for number, data in enumerate((b"\x08\x07onnx", b"", b"PK", gzip.compress(b"a,b\n1,2\n"), bytes(1024))):
        (tmp_path / "file").write_bytes(data)
        unpack_archive(tmp_path / "file", tmp_path / str(number), name="model.onnx")
        assert tree_of(tmp_path / str(number)) == {"model.onnx": data}


@pytest.mark.parametrize("name", ["model.skops", "model.keras", "weights.npz", "MODEL.PT"])
def test_formats_that_are_zips_inside_are_kept_whole(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(ARCHIVES["zip"])
    unpack_archive(tmp_path / "file", tmp_path / "out", name=name)
    assert tree_of(tmp_path / "out") == {name: ARCHIVES["zip"]}


def test_an_archive_inside_stays_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(tar_bytes({"inner.zip": ARCHIVES["zip"]}))
    unpack_archive(tmp_path / "a", tmp_path / "out")
    assert tree_of(tmp_path / "out") == {"inner.zip": ARCHIVES["zip"]}


@pytest.mark.parametrize(
    ("data", "name"),
    [(bz2.compress(b"x"), "m.tar.bz2"), (b"\xfd7zXZ\0", "m.txz"), (b"7z\xbc\xaf\x27\x1c", "m"), (b"Rar!\x1a\x07", "m")],
)
def test_archives_we_cannot_read_are_named_as_such(tmp_path: Path, data: bytes, name: str) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(Rejected) as caught:
        unpack_archive(tmp_path / "a", tmp_path / "out", name=name)
    assert caught.value.reason == "ArchiveFormatUnsupported"


@pytest.mark.parametrize("name", ["../model", "/model", "a/b", "", ".", ".wh.a", "a\0b", "x" * 256])
def test_a_single_file_must_have_a_sound_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "a").write_bytes(b"x")
    with pytest.raises(Rejected):
        unpack_archive(tmp_path / "a", tmp_path / "out", name=name)
    assert {path.name for path in tmp_path.iterdir()} <= {"a", "out"}


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip", "file"])
def test_the_size_limit_holds(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a").write_bytes(ARCHIVES.get(kind, b"x" * 7001))
    unpack_archive(tmp_path / "a", tmp_path / "fits", Limits(size=7001))
    with pytest.raises(Rejected) as caught:
        unpack_archive(tmp_path / "a", tmp_path / "out", Limits(size=7000))
    assert caught.value.reason == "ArchiveTooLarge"


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_a_bomb_is_refused_by_its_ratio(tmp_path: Path, kind: str) -> None:
    files = {"zeros": bytes(4 << 20)}
    (tmp_path / "a").write_bytes(gzip.compress(tar_bytes(files)) if kind == "tar.gz" else zip_bytes(files))
    unpack_archive(tmp_path / "a", tmp_path / "fits", Limits(ratio=2000))
    with pytest.raises(Rejected) as caught:
        unpack_archive(tmp_path / "a", tmp_path / "out", Limits(slack=1 << 20))
    assert caught.value.reason == "ArchiveIsBomb"


def test_a_stream_of_empty_gzip_members_ends(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(tar_bytes(FILES)) + gzip.compress(b"") * 10_000)
    with pytest.raises(Rejected) as caught:
        unpack_archive(tmp_path / "a", tmp_path / "out")
    assert caught.value.reason == "ArchiveIsBomb"


@pytest.mark.parametrize("flags", ["-c --format=gnu", "-cz --format=gnu", "-c --format=pax", "-c --format=v7"])
def test_archives_of_the_systems_tar_are_read(tmp_path: Path, flags: str) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / ("n" * (80 if "v7" in flags else 150))).write_bytes(b"x" * 3000)
    (source / "model.bin").write_bytes(bytes(range(256)) * 100)
    subprocess.run(["tar", *flags.split(), "-f", tmp_path / "archive", "-C", source, "."], check=True)
    unpack_archive(tmp_path / "archive", tmp_path / "out")
    assert tree_of(tmp_path / "out") == tree_of(source)


def test_a_large_zip_needs_64_bit_fields_and_is_read(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, archive.open("model.bin", "w", force_zip64=True) as file:
        file.write(b"x" * 100_000)
    (tmp_path / "a").write_bytes(out.getvalue())
    unpack_archive(tmp_path / "a", tmp_path / "out")
    assert tree_of(tmp_path / "out") == {"model.bin": b"x" * 100_000}


def test_more_entries_than_16_bits_count_make_a_zip64_directory(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(66_000):
            spelling = "".join("/." if number >> bit & 1 else "//" for bit in range(17))
            archive.writestr(zipfile.ZipInfo(f"same{spelling}/"), b"")
        archive.writestr("model", b"x")
    (tmp_path / "a").write_bytes(out.getvalue())
    assert unpack_archive(tmp_path / "a", tmp_path / "out") == Unpacked(2, 1)
    with pytest.raises(Rejected) as caught:
        unpack_archive(tmp_path / "a", tmp_path / "no", Limits(entries=66_000))
    assert caught.value.reason == "ArchiveTooManyEntries"


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip", "file"])
def test_a_full_disk_is_told_apart_from_a_bad_archive(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a").write_bytes(ARCHIVES.get(kind, b"x" * 7001))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(Unavailable) as caught:
            unpack_archive(tmp_path / "a", tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.reason == "DiskFull"


def test_what_has_no_room_is_refused_before_it_is_written(tmp_path: Path) -> None:
    header = bytearray(tar_bytes({"model": b""})[:512])
    header[124:136] = b"\x80" + (1 << 58).to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "a").write_bytes(header)
    with pytest.raises(Unavailable) as caught:
        unpack_archive(tmp_path / "a", tmp_path / "out", Limits(size=1 << 60))
    assert caught.value.reason == "DiskFull"
    assert list((tmp_path / "out").iterdir()) == []


def test_the_callers_own_file_may_be_moved_instead_of_copied(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"weights")
    inode = (tmp_path / "a").stat().st_ino
    assert unpack_archive(tmp_path / "a", tmp_path / "out", name="m.onnx", consume=True) == Unpacked(1, 7)
    assert (tmp_path / "out/m.onnx").stat().st_ino == inode
    assert not (tmp_path / "a").exists()
