"""The answer to the client, in its protocol, from tensors under the edge model's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from modelwright.gateway import v1, v2
from modelwright.gateway.pose import Posed, Request, Told
from modelwright.gateway.tensors import Tensor
from modelwright.http.asgi import Answer, RequestError, json_answer
from modelwright.http.connection import Response


class _Shell(msgspec.Struct, omit_defaults=True):
    """A v2 answer whose tensors nobody looks at."""

    model_name: str
    outputs: msgspec.Raw
    model_version: str = ""
    id: str | None = None
    parameters: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode_shell = msgspec.json.Decoder(_Shell).decode


def passed_on(request: Request, posed: Posed, told: Told, names: Sequence[str], service: str) -> Answer | None:
    """A model's answer as it is, if it is just what the client should get; a v2 answer gets the service's name."""
    if posed.protocol != request.protocol or not posed.untouched or tuple(told.tensors) != tuple(names):
        return None
    if posed.protocol == "v1":
        return Answer(told.content)
    head, blobs, _ = v2.split(told.content, told.binary_header)
    shell = msgspec.json.encode(msgspec.structs.replace(_decode_shell(head), model_name=service))
    return _answer(v2.Body(shell + bytes(blobs), len(shell)) if told.binary_header else v2.Body(shell))


def composed(request: Request, tensors: Sequence[Tensor], version: str, service: str) -> Answer:
    """An answer made of tensors. Raises ValueError if a value does not fit its data type, RequestError (400) if the
    tensors have no rows, which the client wants them in."""
    if isinstance(request, v2.Request):
        binary = {tensor.name: request.wants_binary(tensor.name) for tensor in tensors}
        body = v2.encode_answer(tensors, name=service, version=version, request_id=request.id, binary=binary)
        return _answer(body)
    if not request.columnar and any(tensor.rows != request.rows for tensor in tensors):
        raise RequestError("the outputs have no row for each instance; use the columnar format ('inputs')")
    return Answer(v1.encode_answer(tensors, columnar=request.columnar))


def says(
    answer: Answer, by: str, versions: Mapping[str, str], *, cloud_rows: Sequence[int] = (), fallback: str = ""
) -> Answer:
    """The answer with headers that say who gave it; `versions` has the models' versions by side."""
    found = [*answer.headers, (b"x-served-by", by.encode())]
    if versions.get("edge"):
        found.append((b"x-model-version", _header(versions["edge"])))
    if versions.get("cloud"):
        found.append((b"x-cloud-model-version" if by == "mixed" else b"x-model-version", _header(versions["cloud"])))
    if by == "mixed" and (spelled := ranges(cloud_rows)):
        found.append((b"x-cloud-rows", spelled.encode()))
    if fallback:
        found.append((b"x-fallback", fallback.encode()))
    return answer._replace(headers=tuple(found))


def error_of(response: Response, side: str) -> Answer:
    """A model's refusal as it is; a body that is neither JSON nor text is not passed on."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    headers = ((b"x-served-by", side.encode()), (b"x-content-type-options", b"nosniff"))
    if kind in ("application/json", "text/plain") and len(response.body) <= _LONGEST_ERROR:
        return Answer(response.body, response.status, headers, kind.encode())
    message = f"the {side} model refuses the request with HTTP {response.status}"
    return json_answer({"error": message}, response.status, headers)


_LONGEST_ERROR = 65536
_LONGEST_RANGES = 2048


def ranges(rows: Sequence[int]) -> str:
    """Rising numbers as `0,3-5`; empty if that would be long."""
    parts: list[list[int]] = []
    for row in rows:
        if parts and row == parts[-1][-1] + 1:
            parts[-1][1:] = [row]
        else:
            parts.append([row])
        if len(parts) > _LONGEST_RANGES // 4:
            return ""
    spelled = ",".join("-".join(map(str, part)) for part in parts)
    return spelled if len(spelled) <= _LONGEST_RANGES else ""


def _header(version: str) -> bytes:
    return quote(version, safe=" /:+@%").encode()


def _answer(body: v2.Body) -> Answer:
    if not body.json_bytes:
        return Answer(body.content)
    size = (v2.HEADER.lower().encode(), str(body.json_bytes).encode())
    return Answer(body.content, 200, (size,), v2.BINARY_TYPE.encode())
