"""Receiving blobs: distribution-spec, "Pushing blobs": in one request, in two, in chunks, or by mounting.

Bytes are hashed as they are written, one MiB at a time, and what arrived outlives a broken connection.
"""

from __future__ import annotations

import re
from asyncio import create_task
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from anyio import sleep
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from modelwright.oci import digests
from modelwright.oci.server.context import Call
from modelwright.oci.server.faults import Fault
from modelwright.oci.staging import Staged
from modelwright.ports.errors import Conflict, Invalid, ModelwrightError, Unavailable
from modelwright.ports.images import Digest

_CONTENT_RANGE = re.compile(r"(?:bytes )?([0-9]{1,19})-([0-9]{1,19})(?:/.*)?\Z")
_PATIENCE, _PAUSE = 50, 0.1


async def start(call: Call) -> Response:
    """Begin an upload, or take a whole blob, or mount one."""
    query = call.request.query_params
    if "mount" in query and (mounted := await _mount(call, query["mount"], query.get("from"))):
        return mounted
    digest = digests.parse(query["digest"]) if "digest" in query else None
    with await call.registry.work(call.repository.staging.new) as staged:
        if digest is not None:
            return await _take_whole(call, staged, digest)
        call.registry.running.keep(staged)
        return _accepted(call, staged)


async def status(call: Call) -> Response:
    """How much of an upload is there."""
    async with _resumed(call) as staged:
        return _accepted(call, staged, 204)


async def append(call: Call) -> Response:
    """Take another chunk."""
    async with _resumed(call) as staged:
        _check_position(call, staged)
        await _receive(call, staged)
        return _accepted(call, staged)


async def finish(call: Call) -> Response:
    """Take the last chunk, if any, and make the upload a blob."""
    digest = digests.parse(call.request.query_params.get("digest", ""))
    async with _resumed(call) as staged:
        _check_position(call, staged)
        await _receive(call, staged)
        return await _store(call, staged, digest)


async def cancel(call: Call) -> Response:
    """Forget an upload."""
    async with _resumed(call) as staged:
        staged.discard()
    return Response(status_code=204)


async def _mount(call: Call, wanted: str, source: str | None) -> Response | None:
    try:
        digest = digests.parse(wanted)
        origin = call.registry.storage.repository(source) if source else None
    except Invalid:
        return None
    if await call.registry.work(lambda: call.repository.adopt_blob(digest, origin)):
        return _created(call, digest)
    return None


async def _take_whole(call: Call, staged: Staged, digest: Digest) -> Response:
    try:
        await _receive(call, staged)
        return await _store(call, staged, digest)
    finally:
        staged.discard()


@asynccontextmanager
async def _resumed(call: Call) -> AsyncIterator[Staged]:
    running = call.registry.running
    with await _reopened(call) as staged:
        staged.continue_hash(running.take(call.target))
        try:
            yield staged
        finally:
            if staged.path.exists():
                running.keep(staged)


async def _reopened(call: Call) -> Staged:
    """The upload; a request whose connection broke may still be finishing with it."""
    for _ in range(_PATIENCE):
        with suppress(Conflict):
            return await call.registry.work(lambda: call.repository.staging.resume(call.target))
        await sleep(_PAUSE)
    return await call.registry.work(lambda: call.repository.staging.resume(call.target))


async def _receive(call: Call, staged: Staged) -> None:
    """Write the request's body. What came before a broken connection stays; after any other failure nothing does.

    While one portion is hashed and written in a thread, the next one is received.
    """
    size, writing = staged.size, None
    try:
        try:
            async for chunks in _gathered(call):
                size += sum(map(len, chunks))
                _check_size(call, size)
                if writing is not None:
                    await writing
                writing = create_task(call.registry.work(partial(staged.append, chunks)))
        finally:
            if writing is not None:
                await writing
    except (Fault, Unavailable):
        staged.discard()
        raise


def _check_size(call: Call, size: int) -> None:
    limit = call.registry.max_blob_bytes
    if size > limit:
        raise Fault(413, "SIZE_INVALID", f"a blob may have {limit} bytes at most")


async def _gathered(call: Call) -> AsyncIterator[list[bytes]]:
    """The body in portions of about 1 MiB, so that going to a thread costs little; what came before a cut too."""
    waiting: list[bytes] = []
    size = 0
    try:
        async for chunk in call.request.stream():
            waiting.append(chunk)
            size += len(chunk)
            if size >= digests.CHUNK:
                yield waiting
                waiting, size = [], 0
    except ClientDisconnect:
        if size:
            yield waiting
        raise
    if size:
        yield waiting


def _check_position(call: Call, staged: Staged) -> None:
    header = call.request.headers.get("content-range")
    if header is None:
        return
    match = _CONTENT_RANGE.match(header)
    length = call.request.headers.get("content-length")
    if match is None or int(match[1]) != staged.size or (length and int(match[2]) - int(match[1]) + 1 != int(length)):
        raise Fault(
            416, "BLOB_UPLOAD_INVALID", f"the upload has {staged.size} bytes: go on there", _progress(call, staged)
        )


async def _store(call: Call, staged: Staged, digest: Digest) -> Response:
    found = await call.registry.work(staged.digest)
    if found != digest:
        staged.discard()
        raise Fault(400, "DIGEST_INVALID", f"the content is {found}, not {digest}: send it again")
    try:
        await call.registry.work(lambda: call.repository.add_blobs([(staged, digest)]))
    except ModelwrightError:
        staged.discard()
        raise
    return _created(call, digest)


def _created(call: Call, digest: Digest) -> Response:
    headers = {"Location": call.url("blobs", digest), "Docker-Content-Digest": digest}
    return Response(status_code=201, headers=headers)


def _accepted(call: Call, staged: Staged, status_code: int = 202) -> Response:
    return Response(status_code=status_code, headers=_progress(call, staged))


def _progress(call: Call, staged: Staged) -> dict[str, str]:
    return {
        "Location": call.url("blobs", "uploads", staged.id),
        "Range": f"0-{max(0, staged.size - 1)}",
        "Docker-Upload-UUID": staged.id,
    }
