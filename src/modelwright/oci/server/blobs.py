"""Reading and deleting blobs: distribution-spec, "Pulling blobs" and "Deleting blobs"; ranges by RFC 9110."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from functools import partial

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from modelwright.oci import digests
from modelwright.oci.server.context import Call, Registry
from modelwright.oci.server.faults import Fault
from modelwright.ports.images import Digest

_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})\Z")


def common_headers(digest: Digest) -> dict[str, str]:
    """Content under a digest never changes."""
    return {
        "Docker-Content-Digest": digest,
        "ETag": f'"{digest}"',
        "Cache-Control": "max-age=31536000, immutable",
        "Accept-Ranges": "bytes",
    }


async def head(call: Call) -> Response:
    """Whether a blob is there, and its length."""
    digest = digests.parse(call.target)
    if not await call.registry.work(lambda: call.repository.has_blob(digest)):
        raise Fault(404, "BLOB_UNKNOWN", f"{call.repository.name} has no blob {digest}")
    size = call.repository.blob_path(digest).stat().st_size
    headers = common_headers(digest) | {"Content-Length": str(size)}
    return Response(status_code=200, headers=headers, media_type="application/octet-stream")


async def get(call: Call) -> Response:
    """The blob, or a range of it."""
    digest = digests.parse(call.target)
    descriptor = await call.registry.work(lambda: call.repository.open_blob(digest))
    try:
        size = os.fstat(descriptor).st_size
        status, start, end = _wanted(call.request.headers.get("range"), size)
    except BaseException:
        os.close(descriptor)
        raise
    headers = common_headers(digest) | {"Content-Length": str(end - start)}
    if status == 206:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    chunks = _Chunks(call.registry, descriptor, start, end)
    return _BlobResponse(chunks, status, headers, "application/octet-stream")


async def delete(call: Call) -> Response:
    """Delete a blob that no manifest needs."""
    digest = digests.parse(call.target)
    await call.registry.work(lambda: call.repository.delete_blob(digest))
    return Response(status_code=202)


def _wanted(header: str | None, size: int) -> tuple[int, int, int]:
    """Status, first byte and end. What is not one range of bytes is ignored, as RFC 9110 allows."""
    match = _RANGE.match(header or "")
    if match is None or match[0] == "bytes=-":
        return 200, 0, size
    first, last = match[1], match[2]
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return 200, 0, size
    if start >= size or start >= end:
        raise Fault(416, "RANGE_INVALID", f"the blob has {size} bytes", {"Content-Range": f"bytes */{size}"})
    return 206, start, end


class _Chunks:
    """Bytes of an open file, read in threads; closes it."""

    def __init__(self, registry: Registry, descriptor: int, start: int, end: int) -> None:
        self._registry, self._descriptor, self._start, self._end = registry, descriptor, start, end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        at = self._start
        while at < self._end:
            count = min(digests.CHUNK, self._end - at)
            chunk = await self._registry.work(partial(os.pread, self._descriptor, count, at))
            if not chunk:
                raise OSError(f"a blob of {self._end} bytes ended at {at}")
            yield chunk
            at += len(chunk)

    def close(self) -> None:
        os.close(self._descriptor)


class _BlobResponse(StreamingResponse):
    """Closes the file whatever becomes of the connection."""

    def __init__(self, chunks: _Chunks, status: int, headers: dict[str, str], media_type: str) -> None:
        super().__init__(chunks, status, headers, media_type)
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._chunks.close()
