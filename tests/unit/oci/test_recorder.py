"""What is noted of files while they are unpacked is what is read of them afterwards."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from modelwright.agent.manifest import describe
from modelwright.oci.archives import unpack_archive
from modelwright.oci.recorder import Recorder, Written
from modelwright.oci.tree import Limits, SafeTree
from modelwright.oci.unpack import unpack_tar, unpack_tar_into
from modelwright.ports.errors import Rejected

LARGE = bytes(range(256)) * (5 << 12) + b"and more"
"""Over 5 MiB, which another thread hashes, and no whole number of chunks."""
FILES = {"empty": b"", "variables/small": b"small", "variables/large": LARGE}


def packed(files: dict[str, bytes], mode: str = "w") -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def zipped(files: dict[str, bytes]) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer


@pytest.mark.parametrize("form", ["tar", "tar.gz", "zip"])
def test_all_files_of_an_archive_are_noted_as_they_are(form: str, tmp_path: Path) -> None:
    made = {"tar": packed(FILES), "tar.gz": packed(FILES, "w:gz"), "zip": zipped(FILES)}[form]
    (tmp_path / "archive").write_bytes(made.getvalue())
    with Recorder() as recorder:
        unpack_archive(tmp_path / "archive", tmp_path / "model", recorder=recorder)
    assert set(recorder.files) == set(FILES)
    assert describe(tmp_path / "model", "", recorder.files) == describe(tmp_path / "model")


def test_a_file_that_a_later_layer_replaces_is_noted_as_the_later_one(tmp_path: Path) -> None:
    with Recorder() as recorder, SafeTree(tmp_path / "model", Limits(), overwrite=True, recorder=recorder) as tree:
        unpack_tar_into(packed(FILES), tree)
        unpack_tar_into(packed({"variables/large": b"smaller now"}), tree)
    assert recorder.files["variables/large"].size == len(b"smaller now")
    assert describe(tmp_path / "model", "", recorder.files) == describe(tmp_path / "model")


def test_a_file_that_ends_too_early_is_not_noted(tmp_path: Path) -> None:
    cut = io.BytesIO(packed({"first": b"whole", "large": LARGE}).getvalue()[: 1 << 21])
    with Recorder() as recorder, pytest.raises(Rejected):
        unpack_tar(cut, tmp_path / "model", recorder=recorder)
    assert set(recorder.files) == {"first"}


def test_what_is_noted_of_another_length_is_read(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"content")
    noted = {"weights": Written(3, "0" * 64)}
    assert describe(tmp_path, "", noted) == describe(tmp_path)
