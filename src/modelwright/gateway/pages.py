"""What the gateway says of its model besides answers: metadata and status, in both protocols."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

from modelwright import __version__
from modelwright.gateway.address import parse_url
from modelwright.gateway.describe import BINARY, DEFAULT_SIGNATURE, Description, Signature
from modelwright.gateway.failed import Failed
from modelwright.gateway.joint import Joint
from modelwright.gateway.side import Headers, Side
from modelwright.gateway.tensors import Spec
from modelwright.http.asgi import Answer, RequestError, json_answer
from modelwright.http.routes import Route

PLATFORM = "modelwright_gateway"

_DTYPES = {"BOOL": "DT_BOOL", "BYTES": "DT_STRING", "FP16": "DT_HALF", "FP32": "DT_FLOAT", "FP64": "DT_DOUBLE"}


def server_metadata() -> dict[str, Any]:
    """What the gateway is."""
    return {"name": "modelwright-gateway", "version": __version__, "extensions": [BINARY]}


def v2_ready(_: Route, joint: Joint) -> Answer:
    """Whether a model can be asked."""
    ready = joint.pair.edge.ready or joint.pair.cloud.ready
    return json_answer({"name": joint.config.name, "ready": ready}, 200 if ready else 503)


def v2_metadata(route: Route, joint: Joint) -> Answer:
    """What the joint model takes and gives: as the edge model, without what the cloud model could not give."""
    found = _known(joint)
    outputs = [spec for spec in found.outputs or () if spec.name in _common(joint, found.outputs or ())]
    return json_answer(
        {
            "name": joint.config.name,
            "versions": [route.key] if route.selector else list(found.versions),
            "platform": PLATFORM,
            "inputs": [_described(spec) for spec in found.inputs or ()],
            "outputs": [_described(spec) for spec in outputs],
        }
    )


def v1_metadata(route: Route, joint: Joint) -> Answer:
    """The signatures of the edge model, without what the cloud model could not give."""
    found = _known(joint)
    signatures = found.signatures or {DEFAULT_SIGNATURE: Signature(found.inputs or (), found.outputs or ())}
    version = route.key if route.selector == "versions" else next(iter(found.versions), "")
    return json_answer(
        {
            "model_spec": {"name": joint.config.name, "signature_name": "", "version": version},
            "metadata": {
                "signature_def": {"signature_def": {name: _signature(joint, each) for name, each in signatures.items()}}
            },
        }
    )


async def v1_status(route: Route, joint: Joint, headers: Headers) -> Answer:
    """The edge model's status as it is, else the cloud model's; raises Failed if neither gives one."""
    deadline = asyncio.get_running_loop().time() + joint.config.timeout_seconds
    fault: Failed | None = None
    for side in (joint.pair.edge, joint.pair.cloud):
        try:
            answer = await _status_of(side, route, headers, deadline)
        except Failed as failed:
            fault = fault or failed
            continue
        if answer is not None:
            return answer
    if fault is not None:
        raise Failed("NoModelAnswers", f"no model says how it is now (edge or cloud: {fault.reason}); try again later")
    raise RequestError(f"no model has the {route.selector.removesuffix('s') or 'model'} {route.key!r}", 404)


async def _status_of(side: Side, route: Route, headers: Headers, deadline: float) -> Answer | None:
    """The status that a model server tells; None if it knows nothing of what is asked for. Raises Failed."""
    description = side.description
    if description is not None and not description.v1:
        versions = [version for version in description.versions or ("1",) if route.key in ("", version)]
        return (
            json_answer({"model_version_status": [_available(version) for version in versions]}) if versions else None
        )
    chosen = f"/{route.selector}/{quote(route.key, safe='')}" if route.selector else ""
    quoted = parse_url(side.url).quoted if side.url else ""
    response = await side.fetch("GET", f"/v1/models/{quoted}{chosen}", headers, deadline)
    if response.status == 200 and response.headers.get("content-type", "").startswith("application/json"):
        return Answer(response.body, headers=((b"x-served-by", side.name.encode()),))
    if 400 <= response.status < 500:
        return None
    raise Failed("ServerError", f"HTTP {response.status}")


def _available(version: str) -> dict[str, Any]:
    return {"version": version, "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}


def _known(joint: Joint) -> Description:
    """The edge model's description, else the cloud model's; raises RequestError (503) if neither is known."""
    found = joint.pair.edge.description or joint.pair.cloud.description
    if found is None:
        message = "neither model has said yet what it takes and gives; ask /v2/health/ready"
        raise RequestError(message, 503, ((b"retry-after", b"1"),))
    return found


def _common(joint: Joint, specs: tuple[Spec, ...]) -> tuple[str, ...]:
    return joint.pair.common(tuple(spec.name for spec in specs))


def _described(spec: Spec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape or ())}


def _signature(joint: Joint, signature: Signature) -> dict[str, Any]:
    names = _common(joint, signature.outputs)
    return {
        "inputs": {spec.name: _tensor_info(spec) for spec in signature.inputs},
        "outputs": {spec.name: _tensor_info(spec) for spec in signature.outputs if spec.name in names},
        "method_name": "tensorflow/serving/predict",
    }


def _tensor_info(spec: Spec) -> dict[str, Any]:
    dtype = _DTYPES.get(spec.datatype) or (f"DT_{spec.datatype}" if spec.datatype else "DT_INVALID")
    dims = [{"size": str(size), "name": ""} for size in spec.shape or ()]
    return {
        "dtype": dtype,
        "tensor_shape": {"dim": dims, "unknown_rank": spec.shape is None},
        "name": f"{spec.name}:0",
    }
