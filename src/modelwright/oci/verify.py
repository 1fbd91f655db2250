"""Walking an image in a registry: every manifest and blob is read, and must be what the parts above it say."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from modelwright.oci import digests, manifests, media
from modelwright.oci.manifests import ImageManifest, Index
from modelwright.ports.errors import ModelwrightError
from modelwright.ports.images import Descriptor, Digest, Images, Manifest, Progress

_TYPES = media.INDEXES | media.MANIFESTS
_MAX_DEPTH = 4


class Checked(msgspec.Struct, frozen=True):
    """One part of an image; `fault` says what is wrong with it, and is empty if nothing is."""

    digest: Digest
    media_type: str
    size: int
    fault: str = ""


def verify(images: Images, reference: str, *, progress: Progress | None = None) -> Iterator[Checked]:
    """Each part of an image once, the top first. Raises only if the reference itself cannot be read.

    Layers of foreign `urls` are looked for in this repository only.
    """
    top = images.read_manifest(reference)
    walk = _Walk(images, progress or (lambda _count: None))
    yield Checked(top.digest, top.media_type, len(top.data))
    yield from walk.below(top, 0)


class _Walk:
    def __init__(self, images: Images, progress: Progress) -> None:
        self._images, self._progress = images, progress
        self._seen: set[Digest] = set()

    def below(self, manifest: Manifest, depth: int) -> Iterator[Checked]:
        content = manifests.decode(manifest)
        for descriptor in manifests.children(content):
            if descriptor.digest not in self._seen:
                self._seen.add(descriptor.digest)
                yield from self._part(descriptor, content, depth + 1)
        if isinstance(content, ImageManifest):
            yield from self._config(content)

    def _part(self, descriptor: Descriptor, parent: Index | ImageManifest, depth: int) -> Iterator[Checked]:
        if not isinstance(parent, Index):
            yield _checked(descriptor, lambda: self._read_blob(descriptor))
            return
        found: list[Manifest] = []
        yield _checked(descriptor, lambda: found.append(self._read_manifest(descriptor, depth)))
        if found:
            yield from self.below(found[0], depth)

    def _read_manifest(self, descriptor: Descriptor, depth: int) -> Manifest:
        if depth > _MAX_DEPTH or descriptor.media_type not in _TYPES:
            raise ModelwrightError(f"an index lists no {descriptor.media_type[:100]!r} at this depth")
        manifest = self._images.read_manifest(descriptor.digest)
        digests.verify(manifest.data, descriptor, what="the manifest")
        if manifest.media_type != descriptor.media_type:
            raise ModelwrightError(f"it is served as {manifest.media_type[:100]!r}")
        return manifest

    def _read_blob(self, descriptor: Descriptor) -> None:
        with self._images.read_blob(descriptor.digest) as chunks:
            for chunk in digests.verified(chunks, descriptor.digest, descriptor.size, what="the blob"):
                self._progress(len(chunk))

    def _config(self, content: ImageManifest) -> Iterator[Checked]:
        """The config must name the uncompressed digests of the layers; of plain layers, the digests themselves."""
        if content.config.media_type not in media.CONFIGS:
            return
        checked = _checked(content.config, lambda: self._compare(content))
        if checked.fault:
            yield checked

    def _compare(self, content: ImageManifest) -> None:
        from modelwright.oci.pull import read_small

        diff_ids = manifests.decode_config(read_small(self._images, content.config)).rootfs.diff_ids
        if len(diff_ids) != len(content.layers):
            raise ModelwrightError(f"the config names {len(diff_ids)} layers, the manifest {len(content.layers)}")
        for layer, diff_id in zip(content.layers, diff_ids, strict=True):
            if layer.media_type in media.PLAIN_LAYERS and layer.digest != diff_id:
                raise ModelwrightError(f"the config says {diff_id[:100]!r} of the plain layer {layer.digest}")


def _checked(descriptor: Descriptor, check: Callable[[], None]) -> Checked:
    fault = ""
    try:
        check()
    except ModelwrightError as error:
        fault = error.message
    return Checked(descriptor.digest, descriptor.media_type, descriptor.size, fault)
