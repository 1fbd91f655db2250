"""Pulling: an image's layers, each verified before it is unpacked, into a folder that appears whole or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import platform
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from modelwright.oci import digests, manifests, media
from modelwright.oci.disk import disk_errors
from modelwright.oci.gunzip import gunzip
from modelwright.oci.manifests import ImageConfig, ImageManifest
from modelwright.oci.recorder import Recorder
from modelwright.oci.retry import Retry
from modelwright.oci.tree import Limits, SafeTree
from modelwright.oci.unpack import unpack_tar_into, unpacked_into
from modelwright.ports.errors import AlreadyExists, Conflict, Invalid, Mismatch, Rejected, Unavailable
from modelwright.ports.images import Descriptor, Digest, Images, Manifest

Report = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

DOWNLOADS = 3
"""Layers under way at once."""

_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "armv7l": "arm"}


class Pulled(msgspec.Struct, frozen=True):
    """What was pulled: the digest asked for (an index's, where there is one), files and folders, bytes of files."""

    digest: Digest
    entries: int
    size: int


class Chosen(msgspec.Struct, frozen=True):
    """The image of one platform: its manifest and config, checked against each other."""

    digest: Digest
    manifest: ImageManifest
    config: ImageConfig


def pull(
    images: Images,
    reference: str,
    destination: Path,
    *,
    report: Report | None = None,
    partial: Path | None = None,
    durable: bool = True,
    retry: Retry | None = None,
    recorder: Recorder | None = None,
) -> Pulled:
    """Put the model of an image into `destination`, which must not exist yet or be empty.

    `reference` is a tag or digest. Broken downloads are gone on with, also by a later pull:
    what has arrived is kept in `partial`, by default a hidden folder beside the destination, until all is done.
    `recorder` notes what each file is.
    Raises NotFound, Mismatch, Rejected (hostile content), AlreadyExists (DestinationExists), Conflict (PullUnderWay),
    Unavailable (DiskFull, and what the registry does), Invalid (NoModelInImage).
    """
    _refuse_occupied(destination)
    root = images.read_manifest(reference)
    chosen = choose(images, root)
    kept = partial or destination.parent / f".modelwright-pull-{digests.hexadecimal(chosen.digest)[:16]}"
    with disk_errors(), _locked(kept):
        _check_room(kept, chosen)
        with unpacked_into(destination, durable=durable) as staging:
            entries, size = _Pull(images, chosen, kept, report, retry or Retry()).into(staging, recorder)
        shutil.rmtree(kept, ignore_errors=True)
    return Pulled(root.digest, entries, size)


def choose(images: Images, manifest: Manifest) -> Chosen:
    """The image that a manifest is, or out of an index the one for this machine, or else any.

    Model files are the same for every platform. Raises NotFound, Mismatch, Rejected.
    """
    content = manifests.decode(manifest)
    if isinstance(content, manifests.Index):
        descriptor = _for_this_machine(content.manifests, manifest.digest)
        manifest = images.read_manifest(descriptor.digest)
        if len(manifest.data) != descriptor.size:
            raise Mismatch(
                f"the manifest {manifest.digest} has another size than its index says", reason="SizeMismatch"
            )
        content = manifests.decode(manifest)
    if not isinstance(content, ImageManifest):
        raise Rejected(f"{images.name}: an index that lists an index is not pulled", reason="ManifestUnknown")
    config = manifests.decode_config(read_small(images, content.config))
    if len(config.rootfs.diff_ids) != len(content.layers):
        raise Rejected(f"{images.name}: config and manifest disagree on the number of layers", reason="ConfigUnknown")
    return Chosen(manifest.digest, content, config)


def read_small(images: Images, descriptor: Descriptor) -> bytes:
    """A blob that fits into memory, such as a config, verified. Raises Rejected, Mismatch, NotFound."""
    if descriptor.size > media.MAX_MANIFEST_BYTES:
        raise Rejected(
            f"the config {descriptor.digest} is over {media.MAX_MANIFEST_BYTES} bytes", reason="ConfigTooLarge"
        )
    with images.read_blob(descriptor.digest) as chunks:
        return b"".join(digests.verified(chunks, descriptor.digest, descriptor.size, what="the config"))


class _Pull:
    """One pull: downloads ahead in threads, unpacking in order."""

    def __init__(self, images: Images, chosen: Chosen, kept: Path, report: Report | None, retry: Retry) -> None:
        self._images, self._chosen, self._kept, self._retry = images, chosen, kept, retry
        self._report = report
        self._total = sum({layer.digest: layer.size for layer in chosen.manifest.layers}.values())
        self._arrived: dict[Digest, int] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def into(self, staging: Path, recorder: Recorder | None) -> tuple[int, int]:
        """Unpack all layers; entries and bytes."""
        layers = self._chosen.manifest.layers
        for layer in layers:
            _refuse_unknown(layer)
        below = self._model_folder()
        with self._pool() as pool, SafeTree(staging, Limits(), overwrite=True, recorder=recorder) as tree:
            different = {layer.digest: layer for layer in layers}.values()
            arriving = {layer.digest: pool.submit(self._download, layer) for layer in different}
            for number, diff_id in enumerate(self._chosen.config.rootfs.diff_ids):
                path = arriving[layers[number].digest].result()
                _unpack(path, layers[number], diff_id, tree, below)
                if all(later.digest != layers[number].digest for later in layers[number + 1 :]):
                    path.unlink()
            unpacked = tree.unpacked
        if not any(path.is_file() for path in staging.rglob("*")):
            raise Invalid(
                f"{self._images.name} holds no file below /{below}: it is no model image", reason="NoModelInImage"
            )
        return unpacked.entries, unpacked.size

    def _model_folder(self) -> str:
        path = self._chosen.config.environment.get(media.MODEL_PATH_VARIABLE, "").strip("/")
        return path or media.MODEL_FOLDER

    @contextmanager
    def _pool(self) -> Iterator[ThreadPoolExecutor]:
        pool = ThreadPoolExecutor(DOWNLOADS, thread_name_prefix="pull")
        try:
            yield pool
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _download(self, layer: Descriptor) -> Path:
        """The file of a verified layer; pauses count anew whenever bytes have arrived."""
        path = self._kept / digests.hexadecimal(layer.digest)
        partial = path.with_suffix(".partial")
        if path.exists() and path.stat().st_size == layer.size and _digest(path) == layer.digest:
            self._at(layer, layer.size)
            return path
        number, before = 1, -1
        while True:
            try:
                self._continue(layer, partial)
                partial.replace(path)
                return path
            except Unavailable as error:
                size = partial.stat().st_size if partial.exists() else 0
                number, before = (1 if size > before >= 0 else number), size
                if error.reason == "DiskFull" or not self._retry.rest(number, error):
                    raise
                number += 1

    def _continue(self, layer: Descriptor, partial: Path) -> None:
        """Append what is missing. What had arrived earlier and turns out wrong is fetched once more."""
        resumed = partial.exists() and partial.stat().st_size > 0
        try:
            self._append(layer, partial)
        except Mismatch:
            partial.unlink(missing_ok=True)
            if not resumed:
                raise
            self._append(layer, partial)

    def _append(self, layer: Descriptor, partial: Path) -> None:
        verifier = digests.Verifier(layer.digest, layer.size, what=f"{self._images.name}: the layer")
        with disk_errors(), partial.open("a+b", buffering=0) as file:
            file.seek(0)
            while chunk := file.read(digests.CHUNK):
                verifier.update(chunk)
            if verifier.count < layer.size:
                self._fetch(layer, verifier, file)
        verifier.check()

    def _fetch(self, layer: Descriptor, verifier: digests.Verifier, file: io.FileIO) -> None:
        with self._images.read_blob(layer.digest, verifier.count) as chunks:
            for chunk in chunks:
                if self._stop.is_set():
                    raise Conflict("another layer failed", reason="PullStopped")
                verifier.update(chunk)
                view = memoryview(chunk)
                while view:
                    view = view[file.write(view) :]
                self._at(layer, verifier.count)

    def _at(self, layer: Descriptor, position: int) -> None:
        if self._report is None:
            return
        with self._lock:
            self._arrived[layer.digest] = position
            self._report(sum(self._arrived.values()), self._total)


def _unpack(path: Path, layer: Descriptor, diff_id: str, tree: SafeTree, below: str) -> None:
    with path.open("rb") as file:
        plain = layer.media_type in media.PLAIN_LAYERS
        stream = _Hashing(cast("BinaryIO", file) if plain else gunzip(cast("BinaryIO", file), Limits()))
        unpack_tar_into(cast("BinaryIO", stream), tree, subpath=below)
        if stream.digest() != diff_id:
            raise Mismatch(
                f"the layer {layer.digest} unpacks to {stream.digest()}, not to {diff_id}", reason="DigestMismatch"
            )


class _Hashing(io.RawIOBase):
    """Hashes what is read through it."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream
        self._running = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._running.update(data)
        return data

    def digest(self) -> Digest:
        """Of all that was read."""
        return digests.finish(self._running)


def _digest(path: Path) -> Digest:
    with path.open("rb", buffering=0) as file:
        return digests.of_stream(cast("BinaryIO", file))[0]


def _for_this_machine(listed: list[Descriptor], index: Digest) -> Descriptor:
    own = _ARCHITECTURES.get(platform.machine().lower(), "")
    candidates = [
        one for one in listed if one.media_type in media.MANIFESTS and (one.platform or {}).get("os") != "unknown"
    ]
    if not candidates:
        raise Rejected(f"the index {index} lists no image", reason="ManifestUnknown")
    for wanted in (own, "amd64"):
        for one in candidates:
            if (one.platform or {}).get("architecture") == wanted:
                return one
    return candidates[0]


def _refuse_unknown(layer: Descriptor) -> None:
    if layer.media_type not in media.PLAIN_LAYERS | media.GZIP_LAYERS:
        raise Rejected(
            f"the layer {layer.digest} is of type {layer.media_type[:100]!r}: plain and gzip tar are unpacked; "
            "build the image again without other compression",
            reason="LayerTypeUnknown",
        )


def _refuse_occupied(destination: Path) -> None:
    with disk_errors():
        occupied = os.path.lexists(destination) and not (destination.is_dir() and not any(destination.iterdir()))
    if occupied:
        raise AlreadyExists(f"{destination} exists already: name a folder that does not", reason="DestinationExists")


def _check_room(kept: Path, chosen: Chosen) -> None:
    """Layers lie beside what is unpacked from them for a while; what has arrived before is on the disk already."""
    largest = max((layer.size for layer in chosen.manifest.layers), default=0)
    arrived = sum(file.stat().st_size for file in kept.iterdir())
    needed = sum(layer.size for layer in chosen.manifest.layers) + largest - arrived
    free = shutil.disk_usage(kept).free
    if free < needed:
        raise Unavailable(
            f"{kept.parent} has {free} bytes free and the image needs about {needed}: make room and try again",
            reason="DiskFull",
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two pulls of one image to one place would write to the same files."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"another pull writes to {folder}: wait for it", reason="PullUnderWay") from None
        yield
    finally:
        os.close(descriptor)
