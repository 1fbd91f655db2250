"""The image below the model, for consumers that need a shell or a runtime: by default none.

Its layers come first and are taken over as they are, by mounting or copying; they are not unpacked or changed.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import msgspec

from modelwright.oci import digests, manifests, media
from modelwright.oci.manifests import ImageManifest, Index
from modelwright.ports.errors import Invalid, Mismatch, Rejected
from modelwright.ports.images import Descriptor, Digest, Images

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PLATFORMS: tuple[dict[str, str], ...] = (
    {"architecture": "amd64", "os": "linux"},
    {"architecture": "arm64", "os": "linux"},
    {"architecture": "arm", "os": "linux", "variant": "v7"},
)
"""What model images are made for."""

_AS_OCI = {media.DOCKER_LAYER: media.LAYER, media.DOCKER_LAYER_GZIP: media.LAYER_GZIP}
_KNOWN_LAYERS = media.PLAIN_LAYERS | media.GZIP_LAYERS | {media.LAYER_ZSTD}


class BasePlatform(msgspec.Struct, frozen=True):
    """What one platform of a base image brings: its layers, their uncompressed digests, and its `config`."""

    platform: dict[str, str]
    layers: tuple[Descriptor, ...] = ()
    diff_ids: tuple[str, ...] = ()
    run: dict[str, Any] = {}


class RemoteBlob(msgspec.Struct, frozen=True):
    """A `Content` that stays in another repository."""

    images: Images
    digest: Digest
    size: int

    def open(self) -> BinaryIO:
        """The bytes from the start."""
        return cast("BinaryIO", _RemoteStream(self))


class Base(msgspec.Struct, frozen=True):
    """A base image: the platforms that it shares with model images, its layers, and `host/repository` of these."""

    platforms: tuple[BasePlatform, ...] = ()
    contents: tuple[RemoteBlob, ...] = ()
    source: str = ""


NO_BASE = Base()


def load(images: Images, reference: str) -> Base:
    """The base image of this tag or digest; `images` must stay usable until the model image is pushed.

    Raises NotFound, Mismatch, Rejected, Invalid (BasePlatforms) if it is for no platform of model images.
    """
    manifest = images.read_manifest(reference)
    content = manifests.decode(manifest)
    found = [_platform(images, content, {})] if isinstance(content, ImageManifest) else list(_listed(images, content))
    platforms = tuple(one for wanted in PLATFORMS for one in found if one.platform == wanted)
    if not platforms:
        raise Invalid(
            f"the base image {images.name}:{reference} is for none of linux/amd64, linux/arm64 and linux/arm/v7",
            reason="BasePlatforms",
        )
    layers = {layer.digest: layer for one in platforms for layer in one.layers}
    blobs = tuple(RemoteBlob(images, layer.digest, layer.size) for layer in layers.values())
    return Base(platforms, blobs, images.name)


def _listed(images: Images, index: Index) -> Iterator[BasePlatform]:
    for descriptor in index.manifests:
        platform = _normal(descriptor.platform or {})
        if descriptor.media_type in media.MANIFESTS and platform in PLATFORMS:
            manifest = images.read_manifest(descriptor.digest)
            digests.verify(manifest.data, descriptor, what="the base image's manifest")
            content = manifests.decode(manifest)
            if isinstance(content, ImageManifest):
                yield _platform(images, content, platform)


def _platform(images: Images, manifest: ImageManifest, platform: dict[str, str]) -> BasePlatform:
    with images.read_blob(manifest.config.digest) as chunks:
        data = b"".join(digests.verified(chunks, manifest.config.digest, manifest.config.size, what="the config"))
    config = manifests.decode_config(data)
    if len(config.rootfs.diff_ids) != len(manifest.layers):
        raise Mismatch(f"config and manifest of {images.name} disagree on the number of layers", reason="ConfigUnknown")
    own = _normal({"architecture": config.architecture, "os": config.os, "variant": config.variant})
    layers = tuple(_as_oci(layer) for layer in manifest.layers)
    return BasePlatform(platform or own, layers, tuple(config.rootfs.diff_ids), config.config or {})


def _as_oci(layer: Descriptor) -> Descriptor:
    """The layer under OCI's name for its type: manifests may not mix docker's types with OCI's."""
    if layer.media_type not in _KNOWN_LAYERS:
        raise Rejected(
            f"the base image has a layer of type {layer.media_type[:100]!r}, which cannot be taken over",
            reason="LayerTypeUnknown",
        )
    return Descriptor(_AS_OCI.get(layer.media_type, layer.media_type), layer.digest, layer.size)


def _normal(platform: dict[str, str]) -> dict[str, str]:
    """arm64 is arm64/v8 whether it says so or not; nothing but architecture, system and variant matters."""
    kept = {key: value for key in ("architecture", "os", "variant") if (value := platform.get(key))}
    if kept.get("architecture") == "arm64" and kept.get("variant") == "v8":
        del kept["variant"]
    return kept


class _RemoteStream(io.RawIOBase):
    """The bytes of a blob, fetched when they are read."""

    def __init__(self, blob: RemoteBlob) -> None:
        super().__init__()
        self._blob = blob
        self._offset = 0
        self._stack = ExitStack()
        self._chunks: Iterator[bytes] | None = None
        self._rest = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence or self._chunks is not None:
            raise io.UnsupportedOperation("a remote blob is sought before it is read, and from its start")
        self._offset = offset
        return offset

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        if self._chunks is None:
            self._chunks = self._stack.enter_context(self._blob.images.read_blob(self._blob.digest, self._offset))
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        count = min(len(view), len(self._rest))
        view[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        self._stack.close()
        super().close()
