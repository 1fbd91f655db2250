"""The hostile classes: each is refused by name, and nothing outside of the destination changes."""

from __future__ import annotations

import gzip
import io
import os
import random
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelwright.oci.archives import unpack_archive
from modelwright.oci.unpack import Limits
from modelwright.ports.errors import Rejected

SMALL = Limits(entries=2000, size=64 << 20, slack=1 << 20)


def header(
    name: bytes = b"x",
    *,
    kind: bytes = b"0",
    size: int | bytes = 0,
    link: bytes = b"",
    magic: bytes = b"ustar\x0000",
    prefix: bytes = b"",
    mode: bytes = b"0000644\0",
) -> bytes:
    number = size if isinstance(size, bytes) else b"%011o\0" % size
    block = name.ljust(100, b"\0") + mode + b"0000000\0" * 2 + number + b"00000000000\0" + b" " * 8 + kind
    block += link.ljust(100, b"\0") + magic + bytes(80) + prefix.ljust(155, b"\0") + bytes(12)
    block = block[:257] + magic + block[257 + len(magic) :]
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def data(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


END = bytes(1024)


def entry(name: bytes, content: bytes = b"evil", **fields: bytes) -> bytes:
    return header(name, size=len(content), **fields) + data(content)


def pax(kind: bytes = b"x", **records: bytes) -> bytes:
    content = b""
    for key, value in records.items():
        rest = b" %s=%s\n" % (key.replace("__", ".").encode(), value)
        length = len(rest) + 1
        while len(b"%d" % length) + len(rest) != length:
            length += 1
        content += b"%d" % length + rest
    return header(b"pax", kind=kind, size=len(content)) + data(content)


def gnu_name(name: bytes) -> bytes:
    return header(b"././@LongLink", kind=b"L", size=len(name), magic=b"ustar  \0") + data(name)


def link(name: bytes, target: bytes, kind: bytes = b"2") -> bytes:
    return header(name, kind=kind, link=target)


NAMES: dict[str, tuple[bytes, str]] = {
    "dot dot": (b"../canary", "ArchiveEscapes"),
    "dot dot inside": (b"a/../../canary", "ArchiveEscapes"),
    "dot dot harmless": (b"a/../b", "ArchiveEscapes"),
    "dot dot at the end": (b"a/..", "ArchiveEscapes"),
    "absolute": (b"/tmp/canary", "ArchiveEscapes"),
    "absolute twice": (b"//canary", "ArchiveEscapes"),
    "drive": (b"C:/canary", "ArchiveEscapes"),
    "drive relative": (b"c:canary", "ArchiveEscapes"),
    "UNC": (b"\\\\host\\share", "ArchiveEscapes"),
    "backslash": (b"..\\canary", "ArchiveEscapes"),
    "control": (b"a\x1b[31mb", "ArchiveNameInvalid"),
    "newline": (b"a\nb", "ArchiveNameInvalid"),
    "delete character": (b"a\x7f", "ArchiveNameInvalid"),
    "bidirectional": ("model\u202exgp.exe".encode(), "ArchiveNameInvalid"),
    "isolate": ("a\u2066b".encode(), "ArchiveNameInvalid"),
    "line separator": ("a\u2028b".encode(), "ArchiveNameInvalid"),
    "no UTF-8": (b"\xff\xfe", "ArchiveNameInvalid"),
    "overlong slash": (b"..\xc0\xafcanary", "ArchiveNameInvalid"),
    "long component": (b"n" * 256, "ArchiveNameInvalid"),
    "long component in bytes": ("ü".encode() * 128, "ArchiveNameInvalid"),
    "long path": (b"/".join([b"n" * 200] * 21), "ArchiveNameInvalid"),
    "deep": (b"a/" * 33 + b"x", "ArchiveTooDeep"),
    "very deep": (b"a/" * 2000 + b"x", "ArchiveTooDeep"),
    "whiteout": (b"d/.wh.x", "ArchiveHasWhiteouts"),
    "opaque whiteout": (b"d/.wh..wh..opq", "ArchiveHasWhiteouts"),
    "the folder itself": (b".", "ArchiveEscapes"),
    "the folder itself, longer": (b"./.", "ArchiveEscapes"),
}

TARS: dict[str, tuple[bytes, str]] = {
    "symbolic link out": (link(b"a", b"/etc/passwd"), "ArchiveHasLinks"),
    "symbolic link to a sibling, then through it": (link(b"a", b"..") + entry(b"a/canary"), "ArchiveHasLinks"),
    "symbolic link harmless": (entry(b"b") + link(b"a", b"b"), "ArchiveHasLinks"),
    "symbolic link with slash": (link(b"a/", b".."), "ArchiveHasLinks"),
    "symbolic link equal to the destination": (link(b".", b".."), "ArchiveHasLinks"),
    "symbolic link chain": (b"".join(link(b"%d" % n, b"a" * 99) for n in range(50)), "ArchiveHasLinks"),
    "long link name": (header(b"k", kind=b"K", size=200) + data(b"a" * 200), "ArchiveHasLinks"),
    "hard link out": (link(b"a", b"../canary", b"1"), "ArchiveHasLinks"),
    "hard link to symbolic link": (link(b"a", b"/etc") + link(b"b", b"a", b"1"), "ArchiveHasLinks"),
    "hard link harmless": (entry(b"b") + link(b"a", b"b", b"1"), "ArchiveHasLinks"),
    "character device": (header(b"a", kind=b"3"), "ArchiveHasSpecialFiles"),
    "block device": (header(b"a", kind=b"4"), "ArchiveHasSpecialFiles"),
    "FIFO": (header(b"a", kind=b"6"), "ArchiveHasSpecialFiles"),
    "contiguous": (header(b"a", kind=b"7"), "ArchiveHasSpecialFiles"),
    "GNU sparse": (header(b"a", kind=b"S"), "ArchiveHasSpecialFiles"),
    "socket": (header(b"a", kind=b"s"), "ArchiveHasSpecialFiles"),
    "multi-volume": (header(b"a", kind=b"M"), "ArchiveHasSpecialFiles"),
    "volume label": (header(b"a", kind=b"V"), "ArchiveHasSpecialFiles"),
    "dump folder": (header(b"a", kind=b"D"), "ArchiveHasSpecialFiles"),
    "pax sparse": (pax(GNU__sparse__major=b"1") + entry(b"a"), "ArchiveHasSpecialFiles"),
    "pax path": (pax(path=b"../canary") + entry(b"a"), "ArchiveEscapes"),
    "pax path with NUL": (pax(path=b"a\0b") + entry(b"a"), "ArchiveNameInvalid"),
    "pax path empty": (pax(path=b"") + entry(b"a"), "ArchiveNameInvalid"),
    "pax path twice": (pax(path=b"a") + pax(path=b"b") + entry(b"a"), "ArchiveAmbiguous"),
    "pax linkpath": (pax(linkpath=b"/etc") + link(b"a", b"b"), "ArchiveHasLinks"),
    "pax size longer": (pax(size=b"1024") + entry(b"a"), "ArchiveAmbiguous"),
    "pax size hides an entry": (pax(size=b"0") + entry(b"a", entry(b"b")), "ArchiveAmbiguous"),
    "pax size beyond the end": (pax(size=b"8589934592") + header(b"a"), "ArchiveTooLarge"),
    "pax size negative": (pax(size=b"-512") + entry(b"a"), "ArchiveCorrupt"),
    "pax size fraction": (pax(size=b"5.5") + entry(b"a"), "ArchiveCorrupt"),
    "pax size huge": (pax(size=b"9" * 20) + entry(b"a"), "ArchiveTooLarge"),
    "pax size absurd": (pax(size=b"9" * 5000) + entry(b"a"), "ArchiveCorrupt"),
    "pax size of a folder": (pax(size=b"512") + header(b"a/", kind=b"5"), "ArchiveAmbiguous"),
    "pax malformed": (header(b"p", kind=b"x", size=9) + data(b"99 path=a"), "ArchiveCorrupt"),
    "pax without length": (header(b"p", kind=b"x", size=7) + data(b"path=a\n"), "ArchiveCorrupt"),
    "pax length zero": (header(b"p", kind=b"x", size=9) + data(b"0 path=a\n"), "ArchiveCorrupt"),
    "pax length without end": (header(b"p", kind=b"x", size=600) + data(b"1" * 600), "ArchiveCorrupt"),
    "pax huge": (header(b"p", kind=b"x", size=8 << 30), "ArchiveCorrupt"),
    "pax global path": (pax(b"g", path=b"../canary") + entry(b"a"), "ArchiveAmbiguous"),
    "pax global size": (pax(b"g", size=b"0") + entry(b"a"), "ArchiveAmbiguous"),
    "pax at the end": (pax(path=b"a"), "ArchiveCorrupt"),
    "GNU name": (gnu_name(b"../canary\0") + entry(b"a"), "ArchiveEscapes"),
    "GNU name with NUL": (gnu_name(b"a\0../canary\0") + entry(b"a"), "ArchiveNameInvalid"),
    "GNU name and pax path": (gnu_name(b"b\0") + pax(path=b"c") + entry(b"a"), "ArchiveAmbiguous"),
    "GNU name twice": (gnu_name(b"b\0") + gnu_name(b"c\0") + entry(b"a"), "ArchiveAmbiguous"),
    "GNU name, folder by name only": (gnu_name(b"a/\0") + entry(b"a", kind=b"\0"), "ArchiveAmbiguous"),
    "GNU name huge": (header(b"l", kind=b"L", size=8 << 30), "ArchiveCorrupt"),
    "GNU name empty": (gnu_name(b"") + entry(b"a"), "ArchiveNameInvalid"),
    "folder by name, file by type": (entry(b"a/"), "ArchiveAmbiguous"),
    "folder with data": (entry(b"a/", kind=b"5"), "ArchiveAmbiguous"),
    "link with data": (entry(b"a", kind=b"2"), "ArchiveAmbiguous"),
    "prefix leads out": (entry(b"canary", prefix=b"../.."), "ArchiveEscapes"),
    "prefix absolute": (entry(b"canary", prefix=b"/tmp"), "ArchiveEscapes"),
    "name with NUL": (entry(b"a\0../canary"), "ArchiveNameInvalid"),
    "no name": (entry(b"a") + entry(b""), "ArchiveNameInvalid"),
    "duplicate": (entry(b"a") + entry(b"a"), "ArchiveHasDuplicates"),
    "duplicate spelt differently": (entry(b"d/a") + entry(b"./d//a"), "ArchiveHasDuplicates"),
    "file, link, file": (entry(b"a") + link(b"a", b"..") + entry(b"a/b"), "ArchiveHasLinks"),
    "file, then folder": (entry(b"a") + header(b"a/", kind=b"5"), "ArchiveHasDuplicates"),
    "file, then below it": (entry(b"a") + entry(b"a/b"), "ArchiveHasDuplicates"),
    "folder, then file": (header(b"a/", kind=b"5") + entry(b"a"), "ArchiveHasDuplicates"),
    "case": (entry(b"README") + entry(b"readme"), "ArchiveNamesCollide"),
    "case of a folder": (entry(b"D/a") + entry(b"d/b"), "ArchiveNamesCollide"),
    "sharp s": (entry("stra\u00dfe".encode()) + entry(b"strasse"), "ArchiveNamesCollide"),
    "composed and decomposed": (entry("\u00e9".encode()) + entry("e\u0301".encode()), "ArchiveNamesCollide"),
    "ligature": (entry("\ufb01x".encode()) + entry(b"fix"), "ArchiveNamesCollide"),
    "negative size": (header(b"a", size=b"\xff" * 12), "ArchiveCorrupt"),
    "signed size": (header(b"a", size=b"-0000000010\0"), "ArchiveCorrupt"),
    "size in letters": (header(b"a", size=b"zzzzzzzzzzz\0"), "ArchiveCorrupt"),
    "size with a gap": (header(b"a", size=b"1 1        \0"), "ArchiveCorrupt"),
    "huge size": (header(b"a", size=b"\x80" + b"\xff" * 11), "ArchiveTooLarge"),
    "huge size skipped": (header(b"a", kind=b"2", size=b"\x80" + b"\xff" * 11), "ArchiveAmbiguous"),
    "size beyond the end": (header(b"a", size=5000), "ArchiveTruncated"),
    "bad checksum": (entry(b"a") + header(b"b").replace(b"0000644", b"0000777"), "ArchiveCorrupt"),
    "entries without end": (b"".join(header(b"%d" % n) for n in range(2001)), "ArchiveTooManyEntries"),
    "folders without end": (
        b"".join(header(b"/".join([b"%d" % n] * 32), kind=b"5") for n in range(70)),
        "ArchiveTooManyEntries",
    ),
    "data behind the end": (entry(b"a") + END + entry(b"b"), "ArchiveAmbiguous"),
    "data behind half an end": (entry(b"a") + bytes(512) + entry(b"b"), "ArchiveAmbiguous"),
    "endless padding": (entry(b"a", random.Random(1).randbytes(40_000)) + bytes(1200 << 10), "ArchiveAmbiguous"),
}


def zip_of(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return out.getvalue()


def unix(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


def patched(archive: bytes, at: int, new: bytes) -> bytes:
    return archive[:at] + new + archive[at + len(new) :]


def renamed_locally(name: bytes) -> bytes:
    archive = zip_of(("x" * len(name), b"evil"))
    return patched(archive, 30, name)


def central(archive: bytes, offset: int, new: bytes) -> bytes:
    return patched(archive, archive.rindex(b"PK\x01\x02") + offset, new)


def overlapping() -> bytes:
    """Two directory entries for one local entry: the overlap bomb in its smallest form."""
    archive = zip_of(("a", b"evil"))
    at, end = archive.index(b"PK\x01\x02"), archive.index(b"PK\x05\x06")
    directory = archive[at:end] * 2
    record = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 2, 2, len(directory), at, 0)
    return archive[:at] + directory + record


def with_gap() -> bytes:
    """An entry that the directory does not list, which a reader of local headers sees."""
    hidden, shown = zip_of(("hidden", b"evil")), zip_of(("shown", b"good"))
    data_end = hidden.index(b"PK\x01\x02")
    at, end = shown.index(b"PK\x01\x02"), shown.index(b"PK\x05\x06")
    directory = shown[at:end]
    record = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 1, 1, len(directory), at + data_end, 0)
    return shown[:at] + hidden[:data_end] + directory + record


def unicode_path() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("safe")
    second = b"\x01" + struct.pack("<I", zlib.crc32(b"safe")) + b"../canary"
    info.extra = struct.pack("<HH", 0x7075, len(second)) + second
    return info


PLAIN = zip_of(("a", b"some content, some content"))

ZIPS: dict[str, tuple[bytes, str]] = {
    "symbolic link": (zip_of((unix("a", stat.S_IFLNK | 0o777), b"/etc/passwd")), "ArchiveHasLinks"),
    "FIFO": (zip_of((unix("a", stat.S_IFIFO | 0o777), b"")), "ArchiveHasSpecialFiles"),
    "device": (zip_of((unix("a", stat.S_IFCHR | 0o777), b"")), "ArchiveHasSpecialFiles"),
    "file by mode, folder by name": (zip_of((unix("a/", stat.S_IFREG | 0o644), b"")), "ArchiveAmbiguous"),
    "folder by mode, file by name": (zip_of((unix("a", stat.S_IFDIR | 0o755), b"")), "ArchiveAmbiguous"),
    "folder with data": (zip_of(("a/", b"evil")), "ArchiveAmbiguous"),
    "case": (zip_of(("A", b"1"), ("a", b"2")), "ArchiveNamesCollide"),
    "duplicate spelt differently": (zip_of(("a", b"1"), ("./a", b"2")), "ArchiveHasDuplicates"),
    "another name locally": (renamed_locally(b"../canary"), "ArchiveAmbiguous"),
    "two names": (zip_of((unicode_path(), b"evil")), "ArchiveAmbiguous"),
    "encrypted": (central(PLAIN, 8, b"\x01\x00"), "ArchiveEncrypted"),
    "encrypted locally": (patched(PLAIN, 6, b"\x01\x00"), "ArchiveAmbiguous"),
    "another method": (patched(central(PLAIN, 10, b"\x0c\x00"), 8, b"\x0c\x00"), "ArchiveFormatUnsupported"),
    "methods disagree": (central(PLAIN, 10, b"\x00\x00"), "ArchiveAmbiguous"),
    "checksums disagree": (central(PLAIN, 16, b"\0\0\0\0"), "ArchiveAmbiguous"),
    "wrong checksum": (patched(central(PLAIN, 16, b"\1\1\1\1"), 14, b"\1\1\1\1"), "ArchiveCorrupt"),
    "shorter than it is": (patched(central(PLAIN, 24, b"\4\0\0\0"), 22, b"\4\0\0\0"), "ArchiveAmbiguous"),
    "longer than it is": (patched(central(PLAIN, 24, b"\x40\0\0\0"), 22, b"\x40\0\0\0"), "ArchiveTruncated"),
    "overlap": (overlapping(), "ArchiveAmbiguous"),
    "hidden entry": (with_gap(), "ArchiveAmbiguous"),
    "two end records": (PLAIN[:-2] + b"\x16\0" + PLAIN[-22:], "ArchiveAmbiguous"),
    "data behind the end": (PLAIN + b"x", "ArchiveTruncated"),
    "several volumes": (patched(PLAIN, len(PLAIN) - 18, b"\1\0"), "ArchiveCorrupt"),
    "counts disagree": (patched(PLAIN, len(PLAIN) - 14, b"\2\0"), "ArchiveCorrupt"),
    "more entries than there are": (patched(PLAIN, len(PLAIN) - 14, b"\2\0\2\0"), "ArchiveTruncated"),
    "directory elsewhere": (patched(PLAIN, len(PLAIN) - 6, b"\0\0\0\0"), "ArchiveAmbiguous"),
    "expands without end": (zip_of(*((f"{n}", bytes(1 << 20)) for n in range(8))), "ArchiveIsBomb"),
    "claims a terabyte": (
        patched(central(PLAIN, 24, b"\xfe\xff\xff\xff"), 22, b"\xfe\xff\xff\xff"),
        "ArchiveTooLarge",
    ),
}


def cases() -> Iterator[tuple[str, bytes, str]]:
    for title, (name, reason) in NAMES.items():
        for how, start in spellings(name):
            yield f"{how}: {title}", start + entry(b"a") + END, reason
        if name.isascii() or name.decode("utf-8", "replace").encode() == name:
            yield f"zip: {title}", zip_of((name.decode(), b"evil")), reason
    for title, (archive, reason) in TARS.items():
        yield f"tar: {title}", entry(b"first", b"1") + archive + END, reason
    for title, (archive, reason) in ZIPS.items():
        yield f"zip: {title}", archive, reason


def spellings(name: bytes) -> Iterator[tuple[str, bytes]]:
    """The same entry name in the header, in a pax record and as a GNU long name."""
    if len(name) <= 100:
        yield "ustar", entry(name)
    yield "pax", pax(path=name) + entry(b"decoy")
    yield "GNU", gnu_name(name + b"\0") + entry(b"decoy", magic=b"ustar  \0")


CASES = list(cases())


def wrap_plain(archive: bytes) -> bytes:
    return archive


WRAPS: dict[str, Callable[[bytes], bytes]] = {"plain": wrap_plain, "gzip": gzip.compress}


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize(("title", "archive", "reason"), CASES, ids=[title for title, _, _ in CASES])
def test_a_hostile_archive_is_refused_and_nothing_outside_changes(
    tmp_path: Path, title: str, archive: bytes, reason: str, wrap: str
) -> None:
    if wrap == "gzip" and title.startswith("zip"):
        wrap = "plain"
    canary = tmp_path / "canary"
    canary.write_text("safe")
    (tmp_path / "archive").write_bytes(WRAPS[wrap](archive))
    before = {path: path.stat().st_mtime_ns for path in (canary, tmp_path / "archive")}
    with pytest.raises(Rejected) as caught:
        unpack_archive(tmp_path / "archive", tmp_path / "out", SMALL)
    assert caught.value.reason == reason, caught.value.message
    assert caught.value.message.isascii()
    assert caught.value.message.isprintable()
    assert {path.name for path in tmp_path.iterdir()} <= {"canary", "archive", "out"}
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert all(stat.S_ISREG(mode) or stat.S_ISDIR(mode) for mode in modes(tmp_path))


def modes(folder: Path) -> list[int]:
    return [os.lstat(path).st_mode for path in folder.rglob("*")]


def test_modes_that_grant_too_much_are_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(entry(b"a", mode=b"0006777\0") + END)
    unpack_archive(tmp_path / "a", tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out/a").stat().st_mode) == 0o644


def test_harmless_pax_records_are_ignored(tmp_path: Path) -> None:
    records = pax(b"g", comment=b"1234") + pax(mtime=b"1.5", uid=b"-1", SCHILY__xattr__user__x=b"\0\xff")
    (tmp_path / "a").write_bytes(records + entry(b"a") + END)
    unpack_archive(tmp_path / "a", tmp_path / "out")
    assert (tmp_path / "out/a").read_bytes() == b"evil"


def test_a_name_with_prefix_and_one_of_gnu_without_are_read_as_their_formats_say(tmp_path: Path) -> None:
    gnu = header(b"gnu", magic=b"ustar  \0", prefix=b"14000000000")
    (tmp_path / "a").write_bytes(entry(b"name", prefix=b"long/prefix") + gnu + END)
    unpack_archive(tmp_path / "a", tmp_path / "out")
    assert (tmp_path / "out/long/prefix/name").read_bytes() == b"evil"
    assert (tmp_path / "out/gnu").read_bytes() == b""


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([PLAIN, zip_of(("d/a", b"x" * 300), ("b", b""))]), st.data())
def test_a_damaged_zip_gives_the_right_bytes_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, archive: bytes, draw: st.DataObject
) -> None:
    place = tmp_path_factory.mktemp("zip")
    at = draw.draw(st.integers(0, len(archive) - 1))
    damaged = patched(archive, at, bytes([draw.draw(st.integers(0, 255))]))
    (place / "a").write_bytes(damaged)
    try:
        unpack_archive(place / "a", place / "out", SMALL)
    except Rejected:
        pass
    assert {path.name for path in place.iterdir()} <= {"a", "out"}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=3000), st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b\x08\0", header()]))
def test_noise_behind_any_magic_ends_in_files_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, magic: bytes
) -> None:
    place = tmp_path_factory.mktemp("noise")
    (place / "a").write_bytes(magic + noise)
    try:
        unpack_archive(place / "a", place / "out", SMALL)
    except Rejected:
        pass
    assert {path.name for path in place.iterdir()} <= {"a", "out"}


def test_the_standard_librarys_reader_agrees_on_what_we_accept(tmp_path: Path) -> None:
    archive = (
        entry(b"a", b"1") + pax(path=b"d/b", size=b"2") + entry(b"x", b"22") + gnu_name(b"e\0") + entry(b"y") + END
    )
    (tmp_path / "a").write_bytes(archive)
    unpack_archive(tmp_path / "a", tmp_path / "out")
    with tarfile.open(tmp_path / "a") as tar:
        assert sorted(tar.getnames()) == ["a", "d/b", "e"]
    assert {p.name for p in (tmp_path / "out").rglob("*") if p.is_file()} == {"a", "b", "e"}


def test_a_folder_named_as_the_root_is_the_destination_itself(tmp_path: Path) -> None:
    archive = tmp_path / "model.tar"
    archive.write_bytes(header(b"/", kind=b"5") + entry(b"model.onnx", b"weights") + END)
    destination = tmp_path / "model"
    destination.mkdir()
    unpack_archive(archive, destination, SMALL)
    assert [path.name for path in destination.iterdir()] == ["model.onnx"]


def test_a_file_named_as_the_root_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "model.tar"
    archive.write_bytes(entry(b"/") + END)
    destination = tmp_path / "model"
    destination.mkdir()
    with pytest.raises(Rejected):
        unpack_archive(archive, destination, SMALL)
    assert list(destination.iterdir()) == []
