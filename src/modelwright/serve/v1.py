"""The bodies of TensorFlow Serving's REST API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from modelwright.http.asgi import RequestError
from modelwright.serve.loaded import LoadedModel
from modelwright.serve.signatures import DEFAULT_SIGNATURE, own_definitions
from modelwright.serve.state import VersionState
from modelwright.serve.tensors import Array, TensorSpec, depth_of, parse, to_array, to_python

_DTYPES = {"BOOL": "DT_BOOL", "BYTES": "DT_STRING", "FP16": "DT_HALF", "FP32": "DT_FLOAT", "FP64": "DT_DOUBLE"}
_STATES = {"loading": "LOADING", "ready": "AVAILABLE", "unloading": "UNLOADING", "failed": "END"}
_ERROR_CODES = {
    "ModelNotFound": "NOT_FOUND",
    "ModelInvalid": "INVALID_ARGUMENT",
    "UnsafeFormat": "PERMISSION_DENIED",
    "UnsafePath": "PERMISSION_DENIED",
    "FrameworkUnavailable": "UNIMPLEMENTED",
}


class PredictRequest(msgspec.Struct, gc=False):
    """A request in row format (`instances`) or columnar format (`inputs`); the values are raw JSON or decoded."""

    instances: Any = msgspec.UNSET
    inputs: Any = msgspec.UNSET
    signature_name: str = DEFAULT_SIGNATURE


class _RawRequest(msgspec.Struct, gc=False):
    instances: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    inputs: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    signature_name: str | None = None


_decoder = msgspec.json.Decoder(_RawRequest)
_encoder = msgspec.json.Encoder()


def decode_request(body: bytes) -> PredictRequest:
    """Raises RequestError for what is not a predict request."""
    try:
        raw = _decoder.decode(body)
        request = PredictRequest(raw.instances, raw.inputs, raw.signature_name or DEFAULT_SIGNATURE)
    except (msgspec.DecodeError, RecursionError) as error:
        request = _decode_tokens(body, error)
    if (request.instances is msgspec.UNSET) == (request.inputs is msgspec.UNSET):
        raise RequestError("give the request's tensors either as 'instances' (rows) or as 'inputs' (columns)")
    return request


def _decode_tokens(body: bytes, error: Exception) -> PredictRequest:
    """TensorFlow Serving also takes the tokens NaN and Infinity, which strict JSON does not have."""
    refused = RequestError(f"the body is not a predict request: {error}")
    if b"NaN" not in body and b"Infinity" not in body:
        raise refused from error
    try:
        return msgspec.convert(json.loads(body), PredictRequest)
    except (ValueError, RecursionError, msgspec.ValidationError):
        raise refused from error


def request_inputs(request: PredictRequest, specs: Mapping[str, TensorSpec]) -> dict[str, Array]:
    """The request's tensors, checked against what the model takes."""
    if request.instances is not msgspec.UNSET:
        return _rows(request.instances, specs)
    named = _object(request.inputs)
    if named is None or (len(specs) == 1 and named.keys() == {"b64"}):
        return {spec.name: _tensor(request.inputs, spec) for spec in (_only(specs, "inputs"),)}
    _check_names(named, specs, "inputs")
    return {name: _tensor(value, specs[name]) for name, value in named.items()}


def _rows(instances: Any, specs: Mapping[str, TensorSpec]) -> dict[str, Array]:
    if not specs:
        raise RequestError("the signature takes no tensors, so there are no rows; give 'inputs': {}")
    rows = _named_rows(instances)
    if rows is None or (len(specs) == 1 and rows[0].keys() == {"b64"}):
        spec = _only(specs, "instances")
        return {spec.name: _tensor(instances, spec, "instances")}
    for row in rows:
        _check_names(row, specs, "an instance")
    return {name: _stacked([row[name] for row in rows], spec) for name, spec in specs.items()}


def _stacked(values: list[Any], spec: TensorSpec) -> Array:
    where = f"input {spec.name!r}"
    datatype = spec.type_of()
    depth = max(len(spec.shape) - 1, 0) if spec.shape else _depth(values[0])
    array = to_array([parse(value, datatype, depth, where) for value in values], datatype, where)
    spec.check(array.shape)
    return array


def _tensor(value: Any, spec: TensorSpec, where: str = "") -> Array:
    where = where or f"input {spec.name!r}"
    datatype = spec.type_of()
    depth = len(spec.shape) or _depth(value)
    array = to_array(parse(value, datatype, depth, where), datatype, where)
    if array.ndim != depth:  # lists that are empty end early
        raise RequestError(f"{where} is empty; the model takes {list(spec.shape)} (-1: any size)")
    spec.check(array.shape, where)
    return array


def _depth(value: Any) -> int:
    if isinstance(value, msgspec.Raw):
        return depth_of(value)
    return 1 + _depth(value[0]) if isinstance(value, list) and value else int(isinstance(value, list))


def _object(value: Any) -> dict[str, Any] | None:
    """The members of a JSON object, or None if it is something else."""
    if isinstance(value, msgspec.Raw):
        if bytes(memoryview(value)[:1]) != b"{":
            return None
        return dict(msgspec.json.decode(value, type=dict[str, msgspec.Raw]))
    return value if isinstance(value, dict) else None


def _named_rows(value: Any) -> list[dict[str, Any]] | None:
    """The rows if they are objects, or None if they are something else."""
    kind: Any = msgspec.Raw if isinstance(value, msgspec.Raw) else Any
    if isinstance(value, msgspec.Raw) and bytes(memoryview(value)[1:32]).lstrip()[:1] not in (b"{", b""):
        return None
    try:
        if isinstance(value, msgspec.Raw):
            return msgspec.json.decode(value, type=list[dict[str, kind]]) or None
        return msgspec.convert(value, list[dict[str, kind]]) or None
    except (msgspec.DecodeError, RecursionError):
        return None


def _only(specs: Mapping[str, TensorSpec], where: str) -> TensorSpec:
    if len(specs) != 1:
        names = ", ".join(sorted(specs))
        raise RequestError(f"the model has {len(specs)} inputs; name them in {where}: {names}")
    return next(iter(specs.values()))


def _check_names(given: Mapping[str, Any], specs: Mapping[str, TensorSpec], where: str) -> None:
    if given.keys() != specs.keys():
        raise RequestError(f"{where} names {sorted(given)}; the model takes {sorted(specs)}")


def encode_response(
    request: PredictRequest, inputs: Mapping[str, Array], results: Mapping[str, Array], names: tuple[str, ...]
) -> bytes:
    """The answer, in the format of the request; numbers that are not finite are the tokens NaN and Infinity."""
    answer: dict[str, Any]
    if request.instances is msgspec.UNSET:
        outputs = {name: _values(results[name], name) for name in names}
        answer = {"outputs": outputs if len(names) > 1 else outputs[names[0]]}
    else:
        rows = len(next(iter(inputs.values())))
        columns = [_column(results[name], rows, name) for name in names]
        answer = {"predictions": columns[0] if len(names) == 1 else _objects(names, columns)}
    if all(_finite(results[name]) for name in names):
        return _encoder.encode(answer)
    return json.dumps(answer, separators=(",", ":")).encode()


def _finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _column(array: Array, rows: int, name: str) -> list[Any]:
    if array.ndim == 0 or len(array) != rows:
        raise RequestError(
            f"output {name!r} has shape {list(array.shape)}, not a row for each of the {rows} instances; "
            "use the columnar format ('inputs')"
        )
    return list(_values(array, name))


def _values(array: Array, name: str) -> Any:
    """TensorFlow Serving's convention: strings of an output `*_bytes` are base64, others text."""
    return to_python(array, as_base64=name.endswith("_bytes"))


def _objects(names: tuple[str, ...], columns: list[list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def model_status(states: Iterable[VersionState]) -> dict[str, Any]:
    """The status of versions, the highest number first."""
    ordered = sorted(states, key=lambda state: -state.number)
    return {"model_version_status": [_status(state) for state in ordered]}


def _status(state: VersionState) -> dict[str, Any]:
    code = _ERROR_CODES.get(state.reason, "UNKNOWN") if state.state == "failed" else "OK"
    return {
        "version": str(state.number),
        "state": _STATES[state.state],
        "status": {"error_code": code, "error_message": state.message},
    }


def model_metadata(model_name: str, loaded: LoadedModel) -> dict[str, Any]:
    """The signatures of a version, as TensorFlow Serving's metadata API spells them."""
    definitions = own_definitions(loaded.model)
    return {
        "model_spec": {"name": model_name, "signature_name": "", "version": str(loaded.config.number)},
        "metadata": {"signature_def": {"signature_def": _definitions(loaded) if definitions is None else definitions}},
    }


def _definitions(loaded: LoadedModel) -> dict[str, Any]:
    inputs = {spec.name: _tensor_info(spec) for spec in loaded.model.inputs}
    outputs = {spec.name: _tensor_info(spec) for spec in loaded.model.outputs}
    return {
        signature: {
            "inputs": inputs,
            "outputs": {name: outputs[name] for name in function.shown},
            "method_name": "tensorflow/serving/predict",
        }
        for signature, function in loaded.functions.items()
    }


def _tensor_info(spec: TensorSpec) -> dict[str, Any]:
    dims = [{"size": str(size), "name": ""} for size in spec.shape]
    return {
        "dtype": _DTYPES.get(spec.datatype) or f"DT_{spec.datatype}",
        "tensor_shape": {"dim": dims, "unknown_rank": not spec.shape},
        "name": f"{spec.name}:0",
    }
