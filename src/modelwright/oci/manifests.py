"""Reading manifests that we do not trust: OCI image-spec 1.1 (manifest.md, image-index.md) and docker's schema 2."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

from modelwright.oci import digests, media
from modelwright.ports.errors import Mismatch, Rejected
from modelwright.ports.images import Descriptor, Manifest

_MAX_LISTED = 1000

T = TypeVar("T", "Index", "ImageManifest")


class Index(msgspec.Struct, frozen=True, rename="camel"):
    """A manifest that lists manifests."""

    manifests: list[Descriptor]
    media_type: str = ""
    subject: Descriptor | None = None
    annotations: dict[str, str] | None = None
    artifact_type: str | None = None


class ImageManifest(msgspec.Struct, frozen=True, rename="camel"):
    """A manifest of one image: its config and layers."""

    config: Descriptor
    layers: list[Descriptor]
    media_type: str = ""
    subject: Descriptor | None = None
    annotations: dict[str, str] | None = None
    artifact_type: str | None = None


class ImageConfig(msgspec.Struct, frozen=True):
    """What we read in an image's config."""

    class RootFS(msgspec.Struct, frozen=True):
        """The digests of the uncompressed layers."""

        diff_ids: list[str] = []

    architecture: str = ""
    os: str = ""
    variant: str = ""
    config: dict[str, object] | None = None
    rootfs: RootFS = RootFS()

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of `config`."""
        listed = (self.config or {}).get("Env")
        pairs = (entry.partition("=") for entry in listed if isinstance(entry, str)) if isinstance(listed, list) else ()
        return {name: value for name, _, value in pairs}


class _Shape(msgspec.Struct, frozen=True, rename="camel"):
    media_type: str | None = None
    manifests: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    layers: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    config: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    fs_layers: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


# Made here, by one thread. What msgspec knows of a type it makes up at the type's first use, and two threads that
# decode it for the first time at once crash the process.
_INDEX, _IMAGE = msgspec.json.Decoder(Index), msgspec.json.Decoder(ImageManifest)
_CONFIG, _SHAPE = msgspec.json.Decoder(ImageConfig), msgspec.json.Decoder(_Shape)


def decode(manifest: Manifest) -> Index | ImageManifest:
    """What a manifest says. Raises Rejected if it could be read in two ways, or is none that we know."""
    where = f"the manifest {manifest.digest}"
    if len(manifest.data) > media.MAX_MANIFEST_BYTES:
        raise Rejected(f"{where} is over {media.MAX_MANIFEST_BYTES} bytes", reason="ManifestTooLarge")
    shape = _shape(manifest, where)
    if shape.media_type is not None and shape.media_type != manifest.media_type:
        raise Rejected(
            f"{where} is served as {manifest.media_type[:100]!r} but calls itself {shape.media_type[:100]!r}",
            reason="ManifestConfusing",
        )
    listing, single = shape.manifests is not msgspec.UNSET, shape.layers is not msgspec.UNSET
    if (listing and single) or (listing and shape.config is not msgspec.UNSET) or shape.fs_layers is not msgspec.UNSET:
        raise Rejected(f"{where} claims to be both an image and an index of images", reason="ManifestConfusing")
    if manifest.media_type in media.INDEXES and listing:
        return _checked(_decode(manifest, _INDEX, where), where)
    if manifest.media_type in media.MANIFESTS and single:
        return _checked(_decode(manifest, _IMAGE, where), where)
    raise Rejected(
        f"{where} of type {manifest.media_type[:100]!r} is neither an image nor an index", reason="ManifestUnknown"
    )


def children(content: Index | ImageManifest) -> list[Descriptor]:
    """All that a manifest points to, the subject left out."""
    return content.manifests if isinstance(content, Index) else [content.config, *content.layers]


def decode_config(data: bytes) -> ImageConfig:
    """An image's config. Raises Rejected."""
    try:
        return _CONFIG.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Rejected(f"the image's config is no image config: {error}", reason="ConfigUnknown") from error


def _shape(manifest: Manifest, where: str) -> _Shape:
    _refuse_repeated_keys(manifest.data, where)
    try:
        return _SHAPE.decode(manifest.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Rejected(f"{where} is not a JSON object: {error}", reason="ManifestUnknown") from error


def _refuse_repeated_keys(data: bytes, where: str) -> None:
    """Parsers disagree about which of two equal keys counts, and about the case of keys."""

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        keys = [key.lower() for key, _ in found]
        if len(set(keys)) != len(keys):
            raise Rejected(f"{where} has a key twice", reason="ManifestConfusing")
        return dict(found)

    try:
        json.loads(data, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{where} is not a JSON object: {error}", reason="ManifestUnknown") from error


def _decode(manifest: Manifest, decoder: msgspec.json.Decoder[T], where: str) -> T:
    try:
        return decoder.decode(manifest.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Rejected(f"{where} breaks the image specification: {error}", reason="ManifestUnknown") from error


def _checked(content: T, where: str) -> T:
    listed: list[Descriptor] = children(content)
    if len(listed) > _MAX_LISTED:
        raise Rejected(f"{where} lists over {_MAX_LISTED} parts", reason="ManifestTooLarge")
    for descriptor in [*listed, *([content.subject] if content.subject else [])]:
        if not digests.is_digest(descriptor.digest) or descriptor.size < 0:
            raise Mismatch(f"{where} points to {descriptor.digest[:100]!r}, no sha256 digest", reason="InvalidDigest")
    return content
