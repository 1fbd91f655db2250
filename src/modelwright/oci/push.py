"""Pushing: hash ahead, ask what is there, mount or upload in parallel, then manifests, then the tag.

So a tag never names an image that is not whole.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
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
    """What a push did: the image's digest, the tag that names it, layer bytes of the image, layers really uploaded."""

    digest: Digest
    tag: str | None
    size: int
    layers: int
    uploaded_layers: int
    uploaded_bytes: int


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
    plans = layers.plan(folder.scan(path))
    return _Push(images, sources, watcher or Unwatched()).run(plans, tags, base)


def push(
    built: Image,
    images: Images,
    tags: tuple[str, ...] = (),
    *,
    sources: tuple[str, ...] = (),
    watcher: Watcher | None = None,
) -> Pushed:
    """Push an image that is built already; otherwise as `push_folder`."""
    return _Push(images, sources, watcher or Unwatched()).run(built.layers, tags, built.base)


class _Stopped(Exception):
    """Another thread failed."""


class _Push:
    """One push: its threads, and what they have done."""

    def __init__(self, images: Images, sources: tuple[str, ...], watcher: Watcher) -> None:
        self._images, self._sources, self._watcher = images, sources, watcher
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._uploaded: dict[Digest, int] = {}

    def run(self, plans: tuple[LayerPlan | Layer, ...], tags: tuple[str, ...], base: Base) -> Pushed:
        """Everything in its order."""
        if not plans:
            raise Invalid("an image without a layer holds no model", reason="StorageEmpty")
        self._watcher.planned(sum(plan.size for plan in plans), len(plans))
        with self._pool(HASHERS) as hashers, self._pool(UPLOADS) as uploaders:
            hashing = [hashers.submit(self._hash, plan) for plan in plans]
            self._refuse_taken_tags(tags, hashing, base)
            uploading = [uploaders.submit(self._upload, future) for future in hashing]
            _all_done([*hashing, *uploading])
            built = image.assemble(_results(hashing), base)
            small = [uploaders.submit(self._images.write_blob, config) for config in built.configs]
            _all_done([*small, *(uploaders.submit(self._bring, blob, base.source) for blob in base.contents)])
        return self._finish(built, tags)

    def _finish(self, built: Image, tags: tuple[str, ...]) -> Pushed:
        for manifest in built.manifests:
            self._images.write_manifest(manifest)
        tag = self._tag(built, tags)
        sizes = {layer.digest: self._uploaded.get(layer.digest, 0) for layer in built.layers}
        return Pushed(
            built.digest,
            tag,
            built.size,
            len(built.layers),
            sum(1 for size in sizes.values() if size),
            sum(sizes.values()),
        )

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

    def _refuse_taken_tags(self, tags: tuple[str, ...], hashing: list[Future[Layer]], base: Base) -> None:
        """If no tag is free, upload nothing before it is known that one of them names this very image."""
        found = [self._images.resolve(tag) for tag in tags]
        if not tags or any(descriptor is None for descriptor in found):
            return
        _all_done(hashing)
        digest = image.assemble(_results(hashing), base).digest
        if all(descriptor is not None and descriptor.digest != digest for descriptor in found):
            raise AlreadyExists(
                f"{self._images.name}:{tags[-1]} holds other content; tags are never overwritten: choose another",
                reason="ImageTagTaken",
            )

    def _hash(self, plan: LayerPlan | Layer) -> Layer:
        if isinstance(plan, Layer):
            self._watcher.hashed(plan.size)
            return plan
        return plan.hashed(self._unless_stopped(self._watcher.hashed))

    def _upload(self, hashing: Future[Layer]) -> None:
        layer = hashing.result()
        sent = 0

        def progress(count: int) -> None:
            nonlocal sent
            sent += count
            self._watcher.moved(count)

        self._images.write_blob(layer, sources=self._sources, progress=self._unless_stopped(progress))
        self._watcher.moved(layer.size - sent)
        with self._lock:
            self._uploaded[layer.digest] = max(sent, self._uploaded.get(layer.digest, 0))

    def _bring(self, blob: RemoteBlob, source: str) -> None:
        """A layer of the base image: mounted if it is on the same registry, else copied."""
        self._images.write_blob(blob, sources=(source,), progress=self._unless_stopped(lambda _count: None))

    def _unless_stopped(self, progress: Progress) -> Progress:
        def checked(count: int) -> None:
            if self._stop.is_set():
                raise _Stopped
            progress(count)

        return checked

    @contextmanager
    def _pool(self, size: int) -> Iterator[ThreadPoolExecutor]:
        """Threads that end soon after any error, or an interrupt."""
        pool = ThreadPoolExecutor(size, thread_name_prefix="push")
        try:
            yield pool
        except BaseException:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            pool.shutdown(wait=True)


def _results(hashing: list[Future[Layer]]) -> tuple[Layer, ...]:
    return tuple(future.result() for future in hashing)


def _all_done(futures: Sequence[Future[Any]]) -> None:
    """Wait for all; raise the first error as soon as there is one."""
    done, _ = wait(futures, return_when=FIRST_EXCEPTION)
    errors = [error for future in futures if future in done and (error := future.exception()) is not None]
    for error in errors:
        if not isinstance(error, _Stopped):
            raise error
