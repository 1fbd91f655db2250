"""A model image: layers, one config and manifest per platform, and the index that a tag names (OCI image-spec 1.1).

Nothing in it but content: no time, no name, no host. The same files give the same digest everywhere.
"""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from modelwright.oci import digests, folder, layers, media
from modelwright.oci.base import NO_BASE, PLATFORMS, Base, BasePlatform
from modelwright.oci.layers import Layer
from modelwright.ports.errors import Invalid
from modelwright.ports.images import Descriptor, Digest, Manifest, Progress

HASHERS = 4
"""Files hashed at once: more would only compete for the disk."""
_MAX_ALL_LAYERS = 127
"""What container runtimes can stack."""


class Blob(msgspec.Struct, frozen=True):
    """A small `Content` in memory, such as a config."""

    data: bytes
    digest: Digest

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return len(self.data)

    def open(self) -> BinaryIO:
        """The bytes from the start."""
        return io.BytesIO(self.data)


class Image(msgspec.Struct, frozen=True):
    """All that a registry must hold for one model image; `base` are layers that come from another image."""

    index: Manifest
    manifests: tuple[Manifest, ...]
    configs: tuple[Blob, ...]
    layers: tuple[Layer, ...]
    base: Base = NO_BASE

    @property
    def digest(self) -> Digest:
        """The identity of the image: the digest of its index."""
        return self.index.digest

    @property
    def size(self) -> int:
        """Bytes of all layers, those of the base left out."""
        return sum(layer.size for layer in self.layers)


def build(path: Path, *, base: Base = NO_BASE, progress: Progress | None = None) -> Image:
    """The image of a folder or file; every byte is read once, for the digests, and kept nowhere.

    Raises what `folder.scan` raises, and Conflict (StorageChanged) if a file changes meanwhile.
    """
    plans = layers.plan(folder.scan(path))
    with ThreadPoolExecutor(HASHERS, thread_name_prefix="hash") as pool:
        hashed = tuple(pool.map(lambda plan: plan.hashed(progress), plans))
    return assemble(hashed, base)


def assemble(hashed: tuple[Layer, ...], base: Base = NO_BASE) -> Image:
    """The image of layers whose digests are known. Raises Invalid if they are too many for container runtimes."""
    platforms = base.platforms or tuple(BasePlatform(platform) for platform in PLATFORMS)
    if len(hashed) + max(len(platform.layers) for platform in platforms) > _MAX_ALL_LAYERS:
        raise Invalid(
            f"the base image has too many layers: with the model's {len(hashed)}, over {_MAX_ALL_LAYERS}",
            reason="TooManyLayers",
        )
    configs = tuple(_blob(_config(platform, hashed)) for platform in platforms)
    pairs = zip(configs, platforms, strict=True)
    manifests = tuple(_manifest(config, platform, hashed) for config, platform in pairs)
    return Image(_index(manifests, platforms), manifests, configs, hashed, base)


def manifest_of(media_type: str, content: object) -> Manifest:
    """A manifest from its JSON value, encoded once and for all: its digest is over these bytes."""
    data = msgspec.json.encode(content)
    return Manifest(media_type, digests.of(data), data)


def descriptor_of(manifest: Manifest, platform: dict[str, str] | None = None) -> Descriptor:
    """What points to a manifest."""
    return Descriptor(manifest.media_type, manifest.digest, len(manifest.data), platform=platform)


def _blob(content: object) -> Blob:
    data = msgspec.json.encode(content)
    return Blob(data, digests.of(data))


def _config(platform: BasePlatform, hashed: tuple[Layer, ...]) -> dict[str, Any]:
    run = dict(platform.run)
    variable = f"{media.MODEL_PATH_VARIABLE}="
    inherited = [entry for entry in run.get("Env") or [] if not entry.startswith(variable)]
    run["Env"] = [*inherited, f"{variable}/{media.MODEL_FOLDER}"]
    diff_ids = [*platform.diff_ids, *(layer.digest for layer in hashed)]
    return {**platform.platform, "config": run, "rootfs": {"type": "layers", "diff_ids": diff_ids}}


def _manifest(config: Blob, platform: BasePlatform, hashed: tuple[Layer, ...]) -> Manifest:
    return manifest_of(
        media.MANIFEST,
        {
            "schemaVersion": 2,
            "mediaType": media.MANIFEST,
            "config": Descriptor(media.CONFIG, config.digest, config.size),
            "layers": [*platform.layers, *(layer.descriptor for layer in hashed)],
        },
    )


def _index(manifests: tuple[Manifest, ...], platforms: tuple[BasePlatform, ...]) -> Manifest:
    pairs = zip(manifests, platforms, strict=True)
    listed = [descriptor_of(manifest, base.platform) for manifest, base in pairs]
    return manifest_of(media.INDEX, {"schemaVersion": 2, "mediaType": media.INDEX, "manifests": listed})
