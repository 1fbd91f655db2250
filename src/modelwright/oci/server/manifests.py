"""Manifests over HTTP: distribution-spec, "Pulling manifests", "Pushing Manifests", "Deleting tags, manifests"."""

from __future__ import annotations

from starlette.responses import Response

from modelwright.oci import digests, media
from modelwright.oci import manifests as formats
from modelwright.oci.reference import check_tag
from modelwright.oci.server.blobs import common_headers
from modelwright.oci.server.context import Call
from modelwright.oci.server.faults import Fault
from modelwright.ports.errors import Invalid
from modelwright.ports.images import Manifest


async def get(call: Call) -> Response:
    """The manifest of a tag or digest, as its exact bytes, or their length and digest (HEAD)."""
    try:
        manifest = await call.registry.work(lambda: call.repository.read_manifest(call.target))
    except Invalid as error:
        raise Fault(404, "MANIFEST_UNKNOWN", error.message) from error
    headers = common_headers(manifest.digest) | {"Content-Type": manifest.media_type}
    if not digests.is_digest(call.target):
        headers["Cache-Control"] = "no-cache"
    etag = call.request.headers.get("if-none-match", "")
    if etag and headers["ETag"] in (part.strip() for part in etag.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(manifest.data, headers=headers)


async def put(call: Call) -> Response:
    """Store a manifest under its digest, and under a tag if one is named.

    `If-None-Match: *` refuses to move a tag (RFC 9110, 13.1.2): 412 if it names other content.
    """
    data = await _body(call)
    digest = digests.of(data)
    tag = None if ":" in call.target else call.target
    if tag is None and digests.parse(call.target) != digest:
        raise Fault(400, "DIGEST_INVALID", f"the manifest is {digest}, not {call.target}")
    _check_tag(tag)
    manifest = Manifest(_media_type(call), digest, data)
    move = call.request.headers.get("if-none-match", "").strip() != "*"
    await call.registry.work(lambda: call.repository.put_manifest(manifest, tag, move=move))
    headers = {"Location": call.url("manifests", digest), "Docker-Content-Digest": digest}
    subject = formats.decode(manifest).subject
    if subject is not None:
        headers["OCI-Subject"] = subject.digest
    return Response(status_code=201, headers=headers)


async def delete(call: Call) -> Response:
    """Delete a tag, or a manifest with all its tags."""
    if ":" in call.target:
        digest = digests.parse(call.target)
        await call.registry.work(lambda: call.repository.delete_manifest(digest))
    else:
        await call.registry.work(lambda: call.repository.delete_tag(call.target))
    return Response(status_code=202)


async def _body(call: Call) -> bytes:
    data = bytearray()
    async for chunk in call.request.stream():
        data += chunk
        if len(data) > media.MAX_MANIFEST_BYTES:
            raise Fault(413, "MANIFEST_INVALID", f"a manifest may have {media.MAX_MANIFEST_BYTES} bytes at most")
    return bytes(data)


def _media_type(call: Call) -> str:
    found = call.request.headers.get("content-type", "").partition(";")[0].strip()
    if found not in media.ACCEPTED:
        raise Fault(400, "MANIFEST_INVALID", f"a manifest's Content-Type is one of {', '.join(media.ACCEPTED)}")
    return found


def _check_tag(tag: str | None) -> None:
    try:
        check_tag(tag)
    except Invalid as error:
        raise Fault(400, "TAG_INVALID", error.message) from error
