"""The bodies of the Open Inference Protocol v2 (REST)."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import msgspec

from modelwright import __version__
from modelwright.serve.errors import RequestError
from modelwright.serve.loaded import LoadedModel
from modelwright.serve.tensors import DATATYPES, Array, TensorSpec, datatype_of, depth_of, parse, to_array, to_python


class InferInput(msgspec.Struct, gc=False):
    """A tensor of a request; `data` is flat or nested."""

    name: str
    shape: list[int]
    datatype: str
    data: msgspec.Raw
    parameters: dict[str, Any] | None = None


class RequestedOutput(msgspec.Struct, gc=False):
    """An output that the client wants."""

    name: str
    parameters: dict[str, Any] | None = None


class InferRequest(msgspec.Struct, gc=False):
    """An inference request."""

    inputs: list[InferInput]
    id: str | None = None
    outputs: list[RequestedOutput] | None = None
    parameters: dict[str, Any] | None = None


class InferOutput(msgspec.Struct, gc=False):
    """A tensor of an answer; `data` is flat, in row-major order."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: list[Any]


class InferResponse(msgspec.Struct, gc=False, omit_defaults=True):
    """The answer to an inference request."""

    model_name: str
    model_version: str
    outputs: list[InferOutput]
    id: str | None = None


_request = msgspec.json.Decoder(InferRequest)
_encoder = msgspec.json.Encoder()


def decode_request(body: bytes) -> InferRequest:
    """Raises RequestError for what is not an inference request."""
    try:
        return _request.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"the body is not an inference request: {error}") from error


def request_inputs(request: InferRequest, specs: Mapping[str, TensorSpec]) -> dict[str, Array]:
    """The request's tensors, checked against what the model takes."""
    inputs: dict[str, Array] = {}
    for tensor in request.inputs:
        spec = specs.get(tensor.name)
        if spec is None:
            raise RequestError(f"the model has no input {tensor.name!r}; it takes {_listed(specs)}")
        if tensor.name in inputs:
            raise RequestError(f"input {tensor.name!r} is given twice")
        inputs[tensor.name] = _tensor(tensor, spec)
    missing = specs.keys() - inputs.keys()
    if missing:
        raise RequestError(f"the model needs the inputs {_listed(specs)}; missing: {_listed(missing)}")
    return inputs


def _tensor(tensor: InferInput, spec: TensorSpec) -> Array:
    where = f"input {tensor.name!r}"
    if tensor.datatype != spec.datatype and tensor.datatype not in spec.accepts:
        raise RequestError(f"{where} has datatype {tensor.datatype}; the model takes {spec.datatype}")
    shape = tuple(tensor.shape)
    if any(size < 0 for size in shape):
        raise RequestError(f"{where} has shape {tensor.shape}; every dimension must be zero or more")
    spec.check(shape)
    datatype = DATATYPES[tensor.datatype]
    depth = depth_of(tensor.data)
    if depth not in (1, len(shape)):
        raise RequestError(
            f"{where} has data nested {depth} deep; give it flat or as nested as its shape {tensor.shape}"
        )
    array = to_array(parse(tensor.data, datatype, depth, where), datatype, where)
    if array.shape == shape:
        return array
    if depth > 1 or array.size != prod(shape):
        raise RequestError(f"{where} has shape {tensor.shape} but its data has {_extent(array, depth)}")
    return array.reshape(shape)


def _extent(array: Array, depth: int) -> str:
    return f"the shape {list(array.shape)}" if depth > 1 else f"{array.size} elements"


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in sorted(names))


def wanted_outputs(request: InferRequest, loaded: LoadedModel) -> tuple[str, ...]:
    """The outputs to answer with: those asked for, else all."""
    if not request.outputs:
        return loaded.output_names
    for output in request.outputs:
        if output.name not in loaded.output_names:
            raise RequestError(f"the model has no output {output.name!r}; it gives {_listed(loaded.output_names)}")
    return tuple(output.name for output in request.outputs)


def encode_response(
    request: InferRequest, model_name: str, version: str, results: Mapping[str, Array], names: tuple[str, ...]
) -> bytes:
    """The answer; numbers that JSON cannot spell (NaN, infinities) are null."""
    outputs = [
        InferOutput(name, datatype_of(results[name]), results[name].shape, to_python(results[name].reshape(-1)))
        for name in names
    ]
    return _encoder.encode(InferResponse(model_name, version, outputs, request.id))


def server_metadata() -> dict[str, Any]:
    """What the server is."""
    return {"name": "modelwright", "version": __version__, "extensions": []}


def model_metadata(model_name: str, versions: list[str], loaded: LoadedModel) -> dict[str, Any]:
    """What the model takes and gives."""
    return {
        "name": model_name,
        "versions": versions,
        "platform": loaded.model.platform,
        "inputs": [_described(spec) for spec in loaded.model.inputs],
        "outputs": [_described(spec) for spec in loaded.model.outputs],
    }


def _described(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": spec.shape}
