"""The model's files in images, and how two images differ in them, with as little reading as that takes.

A layer that both images have is not read. A large file has a layer of its own (see `layers`): its header stands first,
and with the same header, other content is another layer. So such a layer is known by its first bytes; only layers of
small files are read, in constant memory.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import BinaryIO, cast

import msgspec

from modelwright.oci import digests, layers, media, tarheader
from modelwright.oci.gunzip import gunzip
from modelwright.oci.names import decode_name, entry_parts
from modelwright.oci.pull import Chosen, choose
from modelwright.oci.tarstream import TarEntry, TarReader
from modelwright.oci.tree import Limits
from modelwright.oci.unpack import refuse_kind, refuse_whiteout
from modelwright.ports.errors import Rejected
from modelwright.ports.images import Descriptor, Digest, Images

READERS = 4
"""Layers under way at once."""


class File(msgspec.Struct, frozen=True):
    """A file below the model's folder; `digest` is of its content, None where the layer alone tells it from others."""

    path: str
    size: int
    layer: Digest
    digest: Digest | None = None


class Side(msgspec.Struct, frozen=True):
    """An image: its repository, and its digest or tag."""

    images: Images
    reference: str


class Comparison(msgspec.Struct, frozen=True):
    """How the files of two images differ, by path; layers are counted with their bytes."""

    added: tuple[File, ...]
    removed: tuple[File, ...]
    changed: tuple[tuple[File, File], ...]
    shared: tuple[Descriptor, ...]
    only_before: tuple[Descriptor, ...]
    only_after: tuple[Descriptor, ...]


def compare(before: Side, after: Side, *, contents: bool = False) -> Comparison:
    """How the files of one image became those of another; with `contents`, each that changed has its own digest.

    Raises NotFound, Mismatch, Rejected (content that no pull would unpack), Unavailable, Forbidden.
    """
    sides = [_Image(side, choose(side.images, side.images.read_manifest(side.reference))) for side in (before, after)]
    first, second = sides
    common = first.digests & second.digests
    with ThreadPoolExecutor(READERS, thread_name_prefix="files") as pool:
        jobs = [(image, layer) for image in sides for layer in image.layers]
        listed = list(pool.map(lambda job: job[0].files_of(job[1], shared=job[1].digest in common), jobs))
    old, new = (first.union(listed[: len(first.layers)]), second.union(listed[len(first.layers) :]))
    both = sorted(old.keys() & new.keys())
    pairs = [(first.known(old[path], new[path]), second.known(new[path], old[path])) for path in both]
    changed = [pair for pair in pairs if _differ(*pair)]
    if contents:
        changed = [pair for pair in _read_all(first, second, changed) if _differ(*pair)]
    return Comparison(
        added=tuple(new[path] for path in sorted(new.keys() - old.keys())),
        removed=tuple(old[path] for path in sorted(old.keys() - new.keys())),
        changed=tuple(changed),
        shared=tuple(layer for layer in second.layers if layer.digest in common),
        only_before=tuple(layer for layer in first.layers if layer.digest not in common),
        only_after=tuple(layer for layer in second.layers if layer.digest not in common),
    )


def _read_all(first: _Image, second: _Image, pairs: list[tuple[File, File]]) -> list[tuple[File, File]]:
    """With the digests of their contents, several at once."""
    with ThreadPoolExecutor(READERS, thread_name_prefix="files") as pool:
        old = pool.map(first.read, [one for one, _ in pairs])
        new = pool.map(second.read, [other for _, other in pairs])
        return list(zip(old, new, strict=True))


def _differ(one: File, other: File) -> bool:
    if one.digest is not None and other.digest is not None:
        return one.digest != other.digest
    return one.size != other.size or one.layer != other.layer


class _Image:
    """One image, whose layers are listed in their order."""

    def __init__(self, side: Side, chosen: Chosen) -> None:
        self._images = side.images
        self.layers = chosen.manifest.layers
        path = chosen.config.environment.get(media.MODEL_PATH_VARIABLE, "").strip("/")
        self._below = entry_parts(path or media.MODEL_FOLDER)

    @property
    def digests(self) -> set[Digest]:
        return {layer.digest for layer in self.layers}

    def files_of(self, layer: Descriptor, *, shared: bool) -> tuple[File, ...]:
        """The files of a layer; those of a shared one are left out where no other layer can hold them too."""
        name = layer.annotations.get(media.FILE_PATH, "")
        if shared and name:
            return ()
        if layer.media_type in media.PLAIN_LAYERS and self._below == (media.MODEL_FOLDER,):
            start = self._start(layer)
            if shared and start.startswith(layers.ROOT_HEADER):
                return ()
            single = self._single(start, layer, name)
            if single is not None:
                return (single,)
        return tuple(self._read(layer))

    def union(self, listed: list[tuple[File, ...]]) -> dict[str, File]:
        """The files by path: a later layer replaces what an earlier one holds."""
        found = {file.path: file for files in listed for file in files}
        if len(found) > Limits().entries:
            raise Rejected(f"over {Limits().entries} files cannot be compared", reason="ArchiveTooManyEntries")
        return found

    def known(self, file: File, other: File) -> File:
        """With the digest of its content, where only that can be compared with the other."""
        comparable = file.digest is not None or other.digest is None or file.size != other.size
        return file if comparable else self.read(file)

    def read(self, file: File) -> File:
        """With the digest of its content."""
        if file.digest is not None:
            return file
        layer = next(layer for layer in self.layers if layer.digest == file.layer)
        return {found.path: found for found in self._read(layer)}[file.path]

    def _start(self, layer: Descriptor) -> bytes:
        """The first bytes of a plain layer; the connection is given up behind them."""
        with self._images.read_blob(layer.digest) as chunks:
            return next(chunks, b"")

    def _single(self, start: bytes, layer: Descriptor, name: str) -> File | None:
        """The one large file that our builder has made a layer for, by the layer's first bytes; None for any other."""
        if not name or layer.size < layers.LARGE:
            return None
        try:
            entry = next((entry for entry in TarReader(io.BytesIO(start)) if entry.kind == "file"), None)
            if entry is None or self._path(entry) != name:
                return None
        except Rejected:
            return None  # reading it all will say what is wrong
        head = layers.head_of(name, entry.size)
        size = len(head) + entry.size + tarheader.padding(entry.size) + len(tarheader.END)
        return File(name, entry.size, layer.digest) if start.startswith(head) and layer.size == size else None

    def _read(self, layer: Descriptor) -> Iterator[File]:
        """Every file, hashed; the layer is verified once all is read."""
        with self._opened(layer) as stream:
            reader = TarReader(stream)
            for number, entry in enumerate(reader):
                if number > Limits().entries:
                    raise Rejected(
                        f"the layer {layer.digest} has over {Limits().entries} entries", reason="ArchiveTooManyEntries"
                    )
                path = self._path(entry)
                if path:
                    yield File(path, entry.size, layer.digest, _hashed(reader))

    @contextmanager
    def _opened(self, layer: Descriptor) -> Iterator[BinaryIO]:
        if layer.media_type not in media.PLAIN_LAYERS | media.GZIP_LAYERS:
            raise Rejected(
                f"the layer {layer.digest} is of type {layer.media_type[:100]!r}: plain and gzip tar can be compared",
                reason="LayerTypeUnknown",
            )
        with self._images.read_blob(layer.digest) as chunks:
            verified = digests.verified(chunks, layer.digest, layer.size, what=f"{self._images.name}: the layer")
            with closing(_Chunks(verified)) as raw:
                plain = cast("BinaryIO", raw)
                yield plain if layer.media_type in media.PLAIN_LAYERS else gunzip(plain, Limits())

    def _path(self, entry: TarEntry) -> str:
        """The path below the model's folder; empty for a folder, or what lies elsewhere."""
        parts = entry_parts(decode_name(entry.name))
        refuse_whiteout(parts, self._below)
        if parts[: len(self._below)] != self._below:
            return ""
        refuse_kind(entry.kind, entry.name)
        return "/".join(parts[len(self._below) :]) if entry.kind == "file" else ""


def _hashed(reader: TarReader) -> Digest:
    running = hashlib.sha256()
    while data := reader.read(digests.CHUNK):
        running.update(data)
    return digests.finish(running)


class _Chunks(io.RawIOBase):
    """An iterator of bytes as a stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks = chunks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, at least one before the end."""
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._left = memoryview(chunk)
        count = len(self._left) if size < 0 else size
        data, self._left = bytes(self._left[:count]), self._left[count:]
        return data
