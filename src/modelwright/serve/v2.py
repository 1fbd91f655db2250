"""The bodies of the Open Inference Protocol v2 (REST)."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import msgspec

from modelwright import __version__
from modelwright.http.asgi import RequestError
from modelwright.serve.binary import Reader, to_bytes
from modelwright.serve.frameworks.base import Model
from modelwright.serve.loaded import LoadedModel
from modelwright.serve.signatures import DEFAULT_SIGNATURE, own_signatures
from modelwright.serve.tensors import (
    Array,
    Datatype,
    TensorSpec,
    datatype_of,
    depth_of,
    parse,
    to_array,
    to_python,
)

NO_TENSORS = memoryview(b"")
NO_NAMES: frozenset[str] = frozenset()


class InferInput(msgspec.Struct, gc=False):
    """A tensor of a request; `data` is flat or nested, or absent if the tensor is binary."""

    name: str
    shape: list[int]
    datatype: str
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    parameters: dict[str, Any] | None = None

    @property
    def binary_size(self) -> object:
        """The size that it announces for its binary data, or None."""
        return self.parameters.get("binary_data_size") if self.parameters else None


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


class InferOutput(msgspec.Struct, gc=False, omit_defaults=True):
    """A tensor of an answer; `data` is flat, in row-major order, or absent if the tensor is binary."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: list[Any] | msgspec.UnsetType = msgspec.UNSET
    parameters: dict[str, Any] | None = None


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


def request_inputs(
    request: InferRequest, specs: Mapping[str, TensorSpec], tensors: memoryview = NO_TENSORS
) -> dict[str, Array]:
    """The request's tensors, checked against what the model takes; `tensors` are those that are binary."""
    inputs: dict[str, Array] = {}
    reader = Reader(tensors)
    for tensor in request.inputs:
        spec = specs.get(tensor.name)
        if spec is None:
            raise RequestError(f"the model has no input {tensor.name!r}; it takes {_listed(specs)}")
        if tensor.name in inputs:
            raise RequestError(f"input {tensor.name!r} is given twice")
        inputs[tensor.name] = _tensor(tensor, spec, reader)
    reader.finish()
    missing = specs.keys() - inputs.keys()
    if missing:
        raise RequestError(f"the model needs the inputs {_listed(specs)}; missing: {_listed(missing)}")
    return inputs


def _tensor(tensor: InferInput, spec: TensorSpec, reader: Reader) -> Array:
    where = f"input {tensor.name!r}"
    if tensor.datatype != spec.datatype and tensor.datatype not in spec.accepts:
        raise RequestError(f"{where} has datatype {tensor.datatype}; the model takes {spec.datatype}")
    shape = tuple(tensor.shape)
    if any(size < 0 for size in shape):
        raise RequestError(f"{where} has shape {tensor.shape}; every dimension must be zero or more")
    spec.check(shape)
    datatype = spec.type_of(tensor.datatype)
    size = tensor.binary_size
    if isinstance(tensor.data, msgspec.UnsetType):
        if size is None:
            raise RequestError(f"{where} has neither data nor a binary_data_size")
        return reader.take(size, datatype, shape, where)
    if size is not None:
        raise RequestError(f"{where} has both data and a binary_data_size; give one")
    return _from_json(tensor.data, datatype, shape, where)


def _from_json(data: msgspec.Raw, datatype: Datatype, shape: tuple[int, ...], where: str) -> Array:
    depth = depth_of(data)
    if depth not in (1, len(shape)):
        raise RequestError(
            f"{where} has data nested {depth} deep; give it flat or as nested as its shape {list(shape)}"
        )
    array = to_array(parse(data, datatype, depth, where), datatype, where)
    if array.shape == shape:
        return array
    if depth > 1 or array.size != prod(shape):
        raise RequestError(f"{where} has shape {list(shape)} but its data has {_extent(array, depth)}")
    return array.reshape(shape)


def _extent(array: Array, depth: int) -> str:
    return f"the shape {list(array.shape)}" if depth > 1 else f"{array.size} elements"


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in sorted(names))


def signature_name(request: InferRequest, model: Model) -> str:
    """What the request names in its parameters, if the model has signatures of its own."""
    name = (request.parameters or {}).get("signature_name", DEFAULT_SIGNATURE)
    if own_signatures(model) is None:
        return DEFAULT_SIGNATURE
    if not isinstance(name, str):
        raise RequestError("parameters.signature_name must be a string, the name of a signature")
    return name


def wanted_outputs(request: InferRequest, known: tuple[str, ...]) -> tuple[str, ...]:
    """The outputs to answer with: those asked for, else all that are known."""
    if not request.outputs:
        return known
    for output in request.outputs:
        if output.name not in known:
            raise RequestError(f"the model has no output {output.name!r}; it gives {_listed(known)}")
    names = tuple(output.name for output in request.outputs)
    if len(set(names)) < len(names):
        raise RequestError("an output is asked for twice")
    return names


def binary_outputs(request: InferRequest, names: tuple[str, ...]) -> frozenset[str]:
    """The outputs that the client wants as binary data."""
    if not request.outputs and not request.parameters:
        return NO_NAMES
    every = bool(request.parameters and request.parameters.get("binary_data_output"))
    asked = {output.name: output.parameters or {} for output in request.outputs or ()}
    return frozenset(name for name in names if asked.get(name, {}).get("binary_data", every))


def encode_response(
    request: InferRequest, model_name: str, version: str, results: Mapping[str, Array], names: tuple[str, ...]
) -> tuple[bytes, int]:
    """The answer, and the length of its JSON part if binary tensors follow it (else 0).

    Numbers that JSON cannot spell (NaN, infinities) are null.
    """
    binary = binary_outputs(request, names)
    blobs = {name: to_bytes(results[name]) for name in names if name in binary}
    outputs = [_output(name, results[name], blobs.get(name)) for name in names]
    head = _encoder.encode(InferResponse(model_name, version, outputs, request.id))
    return (b"".join((head, *blobs.values())), len(head)) if binary else (head, 0)


def _output(name: str, array: Array, blob: bytes | None) -> InferOutput:
    if blob is not None:
        return InferOutput(name, datatype_of(array), array.shape, parameters={"binary_data_size": len(blob)})
    return InferOutput(name, datatype_of(array), array.shape, to_python(array.reshape(-1)))


def server_metadata() -> dict[str, Any]:
    """What the server is."""
    return {"name": "modelwright", "version": __version__, "extensions": ["binary_tensor_data"]}


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
