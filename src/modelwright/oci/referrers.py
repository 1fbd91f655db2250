"""Artifacts that refer to an image by its digest: attached to it afterwards, without changing it.

OCI image-spec 1.1 (guidelines for artifact usage) and distribution-spec 1.1 (referrers); registries without the
referrers API are given the fallback tag by `Images.write_manifest`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from modelwright.oci import digests, manifests, media
from modelwright.oci.image import Blob, manifest_of
from modelwright.ports.errors import Mismatch, NotFound, Rejected
from modelwright.ports.images import Descriptor, Digest, Images, Manifest

MAX_READ = 64
"""Artifacts of one image that are read; anybody who may push can attach any number."""

_EMPTY = Blob(b"{}", digests.of(b"{}"))


class Artifact(msgspec.Struct, frozen=True):
    """One document of a media type, which is the artifact's type too."""

    type: str
    data: bytes
    annotations: dict[str, str] = {}


class Attached(msgspec.Struct, frozen=True):
    """What refers to an image: documents of one type, how many artifacts of others, and why some were refused."""

    documents: tuple[bytes, ...] = ()
    others: int = 0
    refused: tuple[str, ...] = ()


def attach(images: Images, subject: Digest, artifact: Artifact) -> Digest:
    """Attach a document to the image of this digest; the same one again changes nothing. The referrer's digest.

    Raises NotFound if the image is not there, and what writing raises.
    """
    found = images.resolve(subject)
    if found is None:
        raise NotFound(f"{images.name} has no image {subject} to attach to", reason="ImageNotFound")
    document = Blob(artifact.data, digests.of(artifact.data))
    for blob in (_EMPTY, document):
        images.write_blob(blob)
    manifest = _manifest(artifact, document, found)
    images.write_manifest(manifest)
    return manifest.digest


def attached(images: Images, subject: Digest, type_: str, max_bytes: int) -> Attached:
    """The documents of a type that are attached to an image, by the order of their referrers' digests.

    What is not what it claims to be, or too large, is told in `refused` and spoils nothing. Raises Unavailable,
    Forbidden.
    """
    found = images.referrers(subject)
    wanted = [one for one in found if one.artifact_type == type_]
    documents: list[bytes] = []
    refused: list[str] = []
    for one in wanted[:MAX_READ]:
        try:
            documents += _documents(images, one, subject, type_, max_bytes)
        except (NotFound, Mismatch, Rejected) as error:
            refused.append(error.message)
    if len(wanted) > MAX_READ:
        refused.append(f"{len(wanted) - MAX_READ} more are not read: there are too many")
    return Attached(tuple(documents), len(found) - len(wanted), tuple(refused))


def _manifest(artifact: Artifact, document: Blob, subject: Descriptor) -> Manifest:
    content: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": media.MANIFEST,
        "artifactType": artifact.type,
        "config": Descriptor(media.EMPTY, _EMPTY.digest, _EMPTY.size),
        "layers": [Descriptor(artifact.type, document.digest, document.size, artifact.annotations)],
        "subject": Descriptor(subject.media_type, subject.digest, subject.size),
        "annotations": artifact.annotations,
    }
    return manifest_of(media.MANIFEST, content)


def _documents(images: Images, referrer: Descriptor, subject: Digest, type_: str, max_bytes: int) -> list[bytes]:
    manifest = images.read_manifest(referrer.digest)
    content = manifests.decode(manifest)
    if content.subject is None or content.subject.digest != subject:
        raise Mismatch(f"{referrer.digest} is listed for {subject}, and refers to another", reason="DigestMismatch")
    layers = content.layers if isinstance(content, manifests.ImageManifest) else []
    return [_read(images, layer, max_bytes) for layer in layers if layer.media_type == type_]


def _read(images: Images, layer: Descriptor, max_bytes: int) -> bytes:
    if layer.size > max_bytes:
        raise Rejected(
            f"the document {layer.digest} has {layer.size} bytes, more than {max_bytes}", reason="DocumentTooLarge"
        )
    with images.read_blob(layer.digest) as chunks:
        return b"".join(digests.verified(chunks, layer.digest, layer.size, what="the document"))
