"""What a request can name of a model: its own signatures, or those that are made of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from modelwright.serve.frameworks.base import Model, Signature, SignatureModel
from modelwright.serve.tensors import Array, TensorSpec

DEFAULT_SIGNATURE = "serving_default"
ALL_OUTPUTS = "all_outputs"


class Function(NamedTuple):
    """What a request asks for.

    `outputs` is all that it can give, `shown` what TensorFlow Serving's REST shows of that, and `inline_limit` the
    largest request, in elements, that is computed on the event loop (-1: none).
    """

    inputs: Mapping[str, TensorSpec]
    outputs: tuple[str, ...]
    shown: tuple[str, ...]
    predict: Callable[[dict[str, Array]], Mapping[str, Array]]
    inline_limit: int


def functions_of(model: Model, inline_limit: int) -> dict[str, Function]:
    """What can be asked, by the signature's name; `inline_limit` is what the warm-up of the default one has learnt."""
    signatures = own_signatures(model)
    if signatures is None:
        return _of_outputs(model, inline_limit)
    default = default_of(signatures)
    functions = {name: _of_signature(signature, -1) for name, signature in signatures.items()}
    if default is not None:
        functions[DEFAULT_SIGNATURE] = _of_signature(default, inline_limit)
    return functions


def own_signatures(model: Model) -> Mapping[str, Signature] | None:
    """The signatures that the model has of its own, or None if its framework knows none."""
    return cast("SignatureModel", model).signatures if hasattr(model, "signatures") else None


def own_definitions(model: Model) -> Mapping[str, Any] | None:
    """The signatures as the model defines them, or None if its framework knows none."""
    return cast("SignatureModel", model).definitions if hasattr(model, "definitions") else None


def default_of(signatures: Mapping[str, Signature]) -> Signature | None:
    """What a request that names no signature asks for: `serving_default`, or the only one there is."""
    only = next(iter(signatures.values())) if len(signatures) == 1 else None
    return signatures.get(DEFAULT_SIGNATURE, only)


def _of_signature(signature: Signature, inline_limit: int) -> Function:
    outputs = tuple(spec.name for spec in signature.outputs)
    inputs = {spec.name: spec for spec in signature.inputs}
    return Function(inputs, outputs, outputs, signature.predict, inline_limit)


def _of_outputs(model: Model, inline_limit: int) -> dict[str, Function]:
    """The primary outputs, all, and each alone."""
    outputs = tuple(spec.name for spec in model.outputs)
    inputs = {spec.name: spec for spec in model.inputs}
    shown = {DEFAULT_SIGNATURE: model.primary, ALL_OUTPUTS: outputs}
    shown |= {name: (name,) for name in outputs if name not in shown}
    return {name: Function(inputs, outputs, names, model.predict, inline_limit) for name, names in shown.items()}
