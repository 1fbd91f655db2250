"""Finding out what a model server speaks and what its model is like."""

from __future__ import annotations

import contextlib

import msgspec

from modelwright.gateway import describe
from modelwright.gateway.describe import Description
from modelwright.gateway.failed import Failed
from modelwright.gateway.upstream import Headers, Upstream
from modelwright.http.connection import Response

SECONDS = 5.0
MAX_BYTES = 8 * 1024 * 1024

_ABSENT, _NOT_IMPLEMENTED, _LOOP = 404, 501, 508
_FORBIDDEN = (401, 403, 407)


class _Error(msgspec.Struct):
    error: str


async def read_description(upstream: Upstream, headers: Headers = ()) -> Description:
    """What the model server says of its model, in each protocol that it speaks; raises Failed.

    A server that says nothing is taken to speak TensorFlow Serving's REST.
    """
    name = upstream.address.quoted
    model = await _get(upstream, f"/v2/models/{name}", headers)
    server = await _get(upstream, "/v2", headers)
    signatures = await _get(upstream, f"/v1/models/{name}/metadata", headers)
    second = describe.from_v2(model.body, server.body) if model.status == 200 else None
    first = describe.from_v1(signatures.body) if signatures.status == 200 else None
    if second is None and first is None:
        _check_answers(upstream, (model, signatures))
        await _check_there(upstream, signatures, headers)
    return describe.both(second, first)


async def _get(upstream: Upstream, path: str, headers: Headers) -> Response:
    return await upstream.ask("GET", path, SECONDS, headers, limit=MAX_BYTES)


def _check_answers(upstream: Upstream, answers: tuple[Response, ...]) -> None:
    """Raises Failed if the answers speak of the server rather than of the model."""
    where = upstream.where
    statuses = [answer.status for answer in answers]
    if _LOOP in statuses:
        raise Failed("LoopDetected", f"{where} leads back to this gateway")
    if any(status >= 500 and status != _NOT_IMPLEMENTED for status in statuses):
        name = upstream.address.model
        raise Failed("NotReady", f"{where} has no model {name!r} that is ready (HTTP {max(statuses)})")
    if any(status in _FORBIDDEN for status in statuses):
        raise Failed("Forbidden", f"{where} does not take requests from the gateway (HTTP {max(statuses)})")


async def _check_there(upstream: Upstream, metadata: Response, headers: Headers) -> None:
    """Raises Failed if a server of the older protocol, which may have no metadata, says that it has no such model."""
    if metadata.status != _ABSENT:
        return
    with contextlib.suppress(msgspec.DecodeError):
        said = msgspec.json.decode(metadata.body, type=_Error).error
        status = await _get(upstream, f"/v1/models/{upstream.address.quoted}", headers)
        if status.status != 200:
            message = f"{upstream.where} has no model {upstream.address.model!r}: {said[:200]}"
            raise Failed("ModelNotFound", message)
