"""What a model server says of its model, in either protocol."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import msgspec

from modelwright.gateway.tensors import Spec

DEFAULT_SIGNATURE = "serving_default"
BINARY = "binary_tensor_data"
_REMEMBERED = 256

_DTYPES = {"DT_BOOL": "BOOL", "DT_STRING": "BYTES", "DT_HALF": "FP16", "DT_FLOAT": "FP32", "DT_DOUBLE": "FP64"}
_DTYPES |= {f"DT_{kind}{bits}": f"{kind}{bits}" for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)}


class Signature(msgspec.Struct, frozen=True, dict=True):
    """What TensorFlow Serving's REST takes and gives under one name."""

    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.outputs)

    @cached_property
    def input_names(self) -> frozenset[str]:
        return frozenset(spec.name for spec in self.inputs)


class Description(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A model as its server describes it.

    `inputs` and `outputs` are None where the server tells nothing of them. `signatures` are those of v1.
    """

    v1: bool = False
    v2: bool = False
    binary: bool = False
    inputs: tuple[Spec, ...] | None = None
    outputs: tuple[Spec, ...] | None = None
    signatures: dict[str, Signature] = {}
    versions: tuple[str, ...] = ()

    @property
    def protocols(self) -> tuple[str, ...]:
        return tuple(name for name, spoken in (("v1", self.v1), ("v2", self.v2)) if spoken)

    def speaks(self, preferred: str) -> str:
        """The protocol to use: the preferred one if it is spoken."""
        return preferred if preferred in self.protocols else self.protocols[0]

    def output(self, name: str) -> Spec | None:
        """What is known of an output."""
        every = (*(self.outputs or ()), *(spec for found in self.signatures.values() for spec in found.outputs))
        return next((spec for spec in every if spec.name == name), None)

    def with_signature(self, name: str) -> tuple[Spec, ...]:
        """The outputs that can be had together with those of a signature."""
        asked = self.signatures.get(name)
        if asked is None:
            return ()
        wider = [found for found in self.signatures.values() if _covers(found, asked, asked.output_names)]
        return max(wider, key=lambda found: len(found.outputs)).outputs

    def signature_for(self, name: str, outputs: Iterable[str]) -> str | None:
        """The signature to ask for these outputs: `name` if it has them, else the narrowest that does."""
        asked = self.signatures.get(name)
        wanted = tuple(outputs)
        if asked is None:
            return None
        if set(wanted) <= set(asked.output_names):
            return name
        if (name, wanted) not in self._narrowest:
            if len(self._narrowest) >= _REMEMBERED:
                self._narrowest.clear()
            self._narrowest[name, wanted] = self._find_narrowest(asked, wanted)
        return self._narrowest[name, wanted]

    @cached_property
    def _narrowest(self) -> dict[tuple[str, tuple[str, ...]], str | None]:
        """What was found before: it is looked for with each request."""
        return {}

    def _find_narrowest(self, asked: Signature, wanted: tuple[str, ...]) -> str | None:
        fit = {key: found for key, found in self.signatures.items() if _covers(found, asked, wanted)}
        return min(fit, key=lambda key: (len(fit[key].outputs), key), default=None)


def _covers(found: Signature, asked: Signature, outputs: tuple[str, ...]) -> bool:
    return found.input_names == asked.input_names and set(outputs) <= set(found.output_names)


# The Open Inference Protocol ----------------------------------------------------------------------------------------


class _Tensor(msgspec.Struct):
    name: str
    datatype: str = ""
    shape: list[int] | None = None


class _Metadata(msgspec.Struct):
    name: str
    inputs: list[_Tensor] = []
    outputs: list[_Tensor] = []
    versions: list[str] | None = None


class _Server(msgspec.Struct):
    extensions: list[str] = []


def from_v2(metadata: bytes, server: bytes) -> Description | None:
    """From the metadata of the model and of the server; None if the former makes no sense."""
    try:
        found = msgspec.json.decode(metadata, type=_Metadata)
    except (msgspec.DecodeError, RecursionError):
        return None
    try:
        extensions = msgspec.json.decode(server, type=_Server).extensions
    except (msgspec.DecodeError, RecursionError):
        extensions = []
    return Description(
        v2=True,
        binary=BINARY in extensions,
        inputs=tuple(map(_spec, found.inputs)) or None,  # some servers list none where none were declared
        outputs=tuple(map(_spec, found.outputs)) or None,
        versions=tuple(found.versions or ()),
    )


def _spec(tensor: _Tensor) -> Spec:
    return Spec(tensor.name, tensor.datatype, None if tensor.shape is None else tuple(tensor.shape))


# TensorFlow Serving's REST ------------------------------------------------------------------------------------------


def from_v1(metadata: bytes) -> Description | None:
    """From the metadata of the model; None if it makes no sense."""
    try:
        found = msgspec.json.decode(metadata)
        definitions = found["metadata"]["signature_def"]["signature_def"]
        signatures = {
            name: Signature(_specs(each.get("inputs")), _specs(each.get("outputs")))
            for name, each in definitions.items()
            if not name.startswith("__")
        }
        version = str(found.get("model_spec", {}).get("version", ""))
    except (msgspec.DecodeError, RecursionError, LookupError, TypeError, AttributeError, ValueError):
        return None
    default = signatures.get(DEFAULT_SIGNATURE)
    return Description(
        v1=True,
        inputs=default.inputs if default else None,
        outputs=Description(signatures=signatures).with_signature(DEFAULT_SIGNATURE) if default else None,
        signatures=signatures,
        versions=(version,) if version else (),
    )


def _specs(tensors: dict[str, Any] | None) -> tuple[Spec, ...]:
    return tuple(_info(name, info) for name, info in (tensors or {}).items())


def _info(name: str, info: dict[str, Any]) -> Spec:
    shape = info.get("tensor_shape") or {}
    dims = None if shape.get("unknown_rank") else tuple(int(dim["size"]) for dim in shape.get("dim") or ())
    return Spec(name, _DTYPES.get(info.get("dtype", ""), ""), dims)


def both(v2: Description | None, v1: Description | None) -> Description:
    """What the two descriptions of one model say together; a server that describes nothing is taken to speak v1."""
    if v2 is None or v1 is None:
        return v2 or v1 or Description(v1=True)
    return msgspec.structs.replace(v2, v1=True, signatures=v1.signatures)
