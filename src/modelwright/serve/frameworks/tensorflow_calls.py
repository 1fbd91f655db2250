"""The signatures of a SavedModel, as functions on arrays."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from modelwright.ports.errors import Invalid
from modelwright.serve.frameworks import savedmodel
from modelwright.serve.frameworks.base import Signature
from modelwright.serve.signatures import DEFAULT_SIGNATURE
from modelwright.serve.tensors import Array, TensorSpec

_LONGEST_MESSAGE = 400
_NAMES = {"DT_FLOAT": "FP32", "DT_DOUBLE": "FP64", "DT_HALF": "FP16", "DT_BFLOAT16": "FP32", "DT_STRING": "BYTES"}
_NAMES |= {f"DT_{name}": name for name in ("BOOL", "INT8", "INT16", "INT32", "INT64")}
_NAMES |= {f"DT_UINT{bits}": f"UINT{bits}" for bits in (8, 16, 32, 64)}

log = logging.getLogger("modelwright.server")


def signatures_of(tensorflow: Any, session: Any, meta: Any) -> dict[str, Signature]:
    """Those that the protocols can carry; raises Invalid (ModelInvalid) if the default is not, or none is."""
    found, faults = {}, {}
    for name, definition in savedmodel.signatures(meta).items():
        try:
            call = Call(tensorflow, session, definition)
            found[name] = Signature(call.inputs, call.outputs, call)
        except Exception as error:  # what is wrong with one signature need not concern the others
            faults[name] = first_line(error)
    told = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
    if not found or DEFAULT_SIGNATURE in faults:
        raise Invalid(f"the SavedModel has no signature that can be served ({told or 'none'})", reason="ModelInvalid")
    if told:
        log.warning("signatures that cannot be served are left out: %s", told)
    return found


def first_line(error: BaseException) -> str:
    """What the library says, without the stack of the graph that follows it."""
    text = str(getattr(error, "message", error)).strip()
    return (text.splitlines() or [type(error).__name__])[0][:_LONGEST_MESSAGE]


class Feed:
    """One input: checks and converts what is given for it."""

    def __init__(self, tensorflow: Any, spec: TensorSpec, info: Any) -> None:
        self.name = spec.name
        self._scalar = not spec.shape and not info.tensor_shape.unknown_rank
        self._converted = tensorflow.bfloat16.as_numpy_dtype if _dtype(info) == "DT_BFLOAT16" else None

    def take(self, inputs: dict[str, Array]) -> Array:
        """The array that the session takes; raises ValueError if it has a dimension and must not."""
        array = inputs[self.name]
        if self._scalar and array.ndim:
            raise ValueError(f"input {self.name!r} has shape {list(array.shape)}; the model takes a single value")
        return array if self._converted is None else array.astype(self._converted)


class Call:
    """One signature of a session. Raises ValueError if the protocols cannot carry it."""

    def __init__(self, tensorflow: Any, session: Any, definition: Any) -> None:
        self.inputs = tuple(_spec(name, definition.inputs[name]) for name in sorted(definition.inputs))
        self.outputs = tuple(_spec(name, definition.outputs[name]) for name in sorted(definition.outputs))
        if not self.outputs:
            raise ValueError("it gives nothing")
        self._feeds = [Feed(tensorflow, spec, definition.inputs[spec.name]) for spec in self.inputs]
        tensors = [definition.outputs[spec.name].name for spec in self.outputs]
        fetches = sorted(set(tensors))
        self._places = [fetches.index(tensor) for tensor in tensors]
        self._run = _callable(session, [definition.inputs[spec.name].name for spec in self.inputs], fetches)
        self._refusals = _refusals(tensorflow.errors)

    def __call__(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """All outputs; raises ValueError if an operation refuses these shapes or values."""
        feeds = [feed.take(inputs) for feed in self._feeds]
        try:
            results = self._run(*feeds)
        except self._refusals as error:
            raise ValueError(first_line(error)) from error
        given = zip(self.outputs, self._places, strict=True)
        return {spec.name: np.asarray(results[place], spec.type_of().dtype) for spec, place in given}


def _refusals(errors: Any) -> tuple[type[Exception], ...]:
    """What operations raise because of what they are given, and not because something is broken."""
    return (
        errors.InvalidArgumentError,
        errors.NotFoundError,
        errors.OutOfRangeError,
        errors.ResourceExhaustedError,
        errors.UnimplementedError,
    )


def _callable(session: Any, feeds: list[str], fetches: list[str]) -> Any:
    """Takes and gives lists of arrays; ten times quicker than `Session.run`, and what Keras has used for years."""
    from tensorflow.core.protobuf import config_pb2

    if len(set(feeds)) < len(feeds):
        raise ValueError("two of its inputs are the same tensor")
    return session._make_callable_from_options(config_pb2.CallableOptions(feed=feeds, fetch=fetches))


def _spec(name: str, info: Any) -> TensorSpec:
    if info.WhichOneof("encoding") != "name":
        raise ValueError(f"{name!r} is not a plain tensor")
    datatype = _NAMES.get(_dtype(info))
    if datatype is None:
        raise ValueError(f"{name!r} is of type {_dtype(info)}, which the protocols cannot carry")
    return TensorSpec(name, datatype, tuple(dim.size for dim in info.tensor_shape.dim), binary=True)


def _dtype(info: Any) -> str:
    from tensorflow.core.framework import types_pb2

    return str(types_pb2.DataType.Name(info.dtype))
