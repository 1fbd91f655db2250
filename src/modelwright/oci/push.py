"""Pushing: hash ahead, ask what is there, mount or upload in parallel, then manifests, then the tag.

So a tag never names an image that is not whole.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from modelwright.oci import folder, image, layers
from modelwright.oci.base import NO_BASE, Base, RemoteBlob
from modelwright.oci.image import HASHERS, Image
from modelwright.oci.layers import Layer, LayerPlan
from modelwright.ports.errors import AlreadyExists, Invalid
from modelwright.ports.images import Digest, Images, Progress

UPLOADS = 4
"""Blobs under way at once."""


class Pushed(msgspec.Struct, frozen=True):
    """What a push did: the image's digest, the tag that names it, layer bytes and files, layers really uploaded."""

    digest: Digest
    tag: str | None
    size: int
    layers: int
    uploaded_layers: int
    uploaded_bytes: int
    files: int = 0


class Watcher(Protocol):
    """Who wants to see how a push goes on; called from several threads."""

    def planned(self, size: int, count: int) -> None:
        """The image has this many bytes in this many layers."""

    def hashed(self, count: int) -> None:
        """So many more bytes have been read for their digests."""

    def moved(self, count: int) -> None:
        """So many more bytes have been uploaded, or need not be."""


class Unwatched:
    """A Watcher that does not look."""

    def planned(self, size: int, count: int) -> None:
        """Nothing."""

    def hashed(self, count: int) -> None:
        """Nothing."""

    def moved(self, count: int) -> None:
        """Nothing."""


def push_folder(
    path: Path,
    images: Images,
    tags: tuple[str, ...] = (),
    *,
    base: Base = NO_BASE,
    sources: tuple[str, ...] = (),
    watcher: Watcher | None = None,
) -> Pushed:
    """Build the image of a folder or file and push it; the first of `tags` that is free, or is this image, names it.

    `sources` are repositories of the same registry to mount layers from.
    Raises what `folder.scan` and `images` raise, Conflict (StorageChanged), AlreadyExists (ImageTagTaken).
    """
    with hashing(path, watcher) as hashes:
        return hashes.push(images, tags, base=base, sources=sources)


def push(
    built: Image,
    images: Images,
    tags: tuple[str, ...] = (),
    *,
    sources: tuple[str, ...] = (),
    watcher: Watcher | None = None,
) -> Pushed:
    """Push an image that is built already; otherwise as `push_folder`."""
    with _running(Hashing(built.layers, watcher or Unwatched())) as hashes:
        return hashes.push(images, tags, base=built.base, sources=sources)


@contextmanager
def hashing(path: Path, watcher: Watcher | None = None) -> Iterator[Hashing]:
    """Start to hash a folder or file, so that it goes on while the registry is being connected to."""
    with _running(Hashing(layers.plan(folder.scan(path)), watcher or Unwatched())) as hashes:
        yield hashes


class _Stopped(Exception):
    """Another thread failed."""


class Hashing:
    """Layers that threads are hashing, to be pushed; made by `hashing`."""

    def __init__(self, plans: tuple[LayerPlan | Layer, ...], watcher: Watcher) -> None:
        if not plans:
            raise Invalid("an image without a layer holds no model", reason="StorageEmpty")
        self.watcher = watcher
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(HASHERS, thread_name_prefix="hash")
        watcher.planned(sum(plan.size for plan in plans), len(plans))
        self.layers = [self._pool.submit(self._hash, plan) for plan in plans]

    def push(
        self, images: Images, tags: tuple[str, ...] = (), *, base: Base = NO_BASE, sources: tuple[str, ...] = ()
    ) -> Pushed:
        """As `push_folder`, which see."""
        return _Push(self, images, sources, base).run(tags)

    def finished(self) -> tuple[Layer, ...]:
        """The layers, once all are hashed; the first error instead, as soon as there is one."""
        all_done(self.layers)
        return tuple(future.result() for future in self.layers)

    def unless_stopped(self, progress: Progress) -> Progress:
        """The same progress, which ends its thread once another one has failed."""

        def checked(count: int) -> None:
            if self._stop.is_set():
                raise _Stopped
            progress(count)

        return checked

    def close(self, pool: ThreadPoolExecutor | None = None, *, failed: bool) -> None:
        """Wait for the threads of a pool, or the own ones; after a failure they end soon."""
        if failed:
            self._stop.set()
        (pool or self._pool).shutdown(wait=True, cancel_futures=failed)

    def _hash(self, plan: LayerPlan | Layer) -> Layer:
        if isinstance(plan, Layer):
            self.watcher.hashed(plan.size)
            return plan
        return plan.hashed(self.unless_stopped(self.watcher.hashed))


@contextmanager
def _running(hashes: Hashing, pool: ThreadPoolExecutor | None = None) -> Iterator[Hashing]:
    """Threads never outlive the block, and end soon if it fails or is interrupted."""
    try:
        yield hashes
    except BaseException:
        hashes.close(pool, failed=True)
        raise
    hashes.close(pool, failed=False)


class _Push:
    """One push of layers that are being hashed, and what was uploaded."""

    def __init__(self, hashes: Hashing, images: Images, sources: tuple[str, ...], base: Base) -> None:
        self._hashes, self._images, self._sources, self._base = hashes, images, sources, base
        self._lock = threading.Lock()
        self._uploaded: dict[Digest, int] = {}

    def run(self, tags: tuple[str, ...]) -> Pushed:
        """Everything in its order."""
        self._refuse_taken_tags(tags)
        uploaders = ThreadPoolExecutor(UPLOADS, thread_name_prefix="push")
        with _running(self._hashes, uploaders):
            blobs = [uploaders.submit(self._upload, layer) for layer in self._hashes.layers]
            all_done([*self._hashes.layers, *blobs], until=self._hashes.layers)
            built = image.assemble(self._hashes.finished(), self._base)
            blobs += [uploaders.submit(self._images.write_blob, config) for config in built.configs]
            blobs += [uploaders.submit(self._bring, blob) for blob in self._base.contents]
            all_done(blobs)
            all_done([uploaders.submit(self._images.write_manifest, manifest) for manifest in built.manifests])
        return self._finish(built, tags)

    def _finish(self, built: Image, tags: tuple[str, ...]) -> Pushed:
        tag = self._tag(built, tags)
        sizes = [self._uploaded.get(layer.digest, 0) for layer in built.layers]
        uploaded = sum(1 for size in sizes if size)
        files = sum(1 for layer in built.layers for entry in layer.plan.entries if not entry.directory)
        return Pushed(built.digest, tag, built.size, len(built.layers), uploaded, sum(sizes), files)

    def _tag(self, built: Image, tags: tuple[str, ...]) -> str | None:
        if not tags:
            self._images.write_manifest(built.index)
            return None
        for tag in tags:
            try:
                self._images.write_manifest(built.index, tag)
                return tag
            except AlreadyExists as error:
                refused = error
        raise refused

    def _refuse_taken_tags(self, tags: tuple[str, ...]) -> None:
        """If no tag is free, upload nothing before it is known that one of them names this very image."""
        found = [self._images.resolve(tag) for tag in tags]
        if not tags or any(descriptor is None for descriptor in found):
            return
        digest = image.assemble(self._hashes.finished(), self._base).digest
        if all(descriptor is not None and descriptor.digest != digest for descriptor in found):
            raise AlreadyExists(
                f"{self._images.name}:{tags[-1]} holds other content; tags are never overwritten: choose another",
                reason="ImageTagTaken",
            )

    def _upload(self, hashed: Future[Layer]) -> None:
        layer = hashed.result()
        sent = 0

        def progress(count: int) -> None:
            nonlocal sent
            sent += count
            self._hashes.watcher.moved(count)

        self._images.write_blob(layer, sources=self._sources, progress=self._hashes.unless_stopped(progress))
        self._hashes.watcher.moved(layer.size - sent)
        with self._lock:
            self._uploaded[layer.digest] = max(sent, self._uploaded.get(layer.digest, 0))

    def _bring(self, blob: RemoteBlob) -> None:
        """A layer of the base image: mounted if it is on the same registry, else copied."""
        progress = self._hashes.unless_stopped(lambda _count: None)
        self._images.write_blob(blob, sources=(self._base.source,), progress=progress)


def all_done(futures: Sequence[Future[Any]], *, until: Sequence[Future[Any]] | None = None) -> None:
    """Wait for all, or only until some of them are done; raise the first error of any as soon as there is one."""
    pending = set(futures)
    wanted = pending if until is None else set(until)
    while pending & wanted:
        done, pending = wait(pending, return_when=FIRST_COMPLETED)
        for error in [future.exception() for future in done]:
            if error is not None and not isinstance(error, _Stopped):
                raise error
