"""Whether the cloud model can stand in for the edge model, and which of its tensors are which."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from modelwright.gateway.describe import Description
from modelwright.gateway.tensors import Spec

_NUMBERS = ("float", "int", "bool")


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How the names of the edge model are spelled by the cloud model.

    `outputs` and `inputs` are None where nothing is known: then names are the same. `fault` says why the cloud model
    cannot be asked instead of the edge model; empty if it can.
    """

    outputs: dict[str, str] | None = None
    inputs: dict[str, str] | None = None
    fault: str = ""

    def output(self, name: str) -> str:
        """The cloud's name for an output of the edge."""
        return name if self.outputs is None else self.outputs.get(name, name)

    def has(self, name: str) -> bool:
        """Whether both have the output."""
        return self.outputs is None or name in self.outputs


def agree(edge: Description | None, cloud: Description | None) -> Agreement:
    """Compares what both servers say of their models: names, kinds of values, shapes of a row.

    Tensors of the same name belong together. Of the others, two do that are alike and like no third: the classes and
    probabilities of two classifiers are found whatever they are called.
    """
    if edge is None or cloud is None:
        return Agreement()
    inputs, fault = _pair_inputs(edge.inputs, cloud.inputs)
    if fault:
        return Agreement(fault=fault)
    if edge.outputs is None or cloud.outputs is None:
        return Agreement(inputs=inputs)
    outputs, fault = _pair_outputs(edge.outputs, cloud.outputs)
    if fault:
        return Agreement(fault=fault)
    return Agreement(inputs=inputs, outputs=_of_other_signatures(edge, cloud) | outputs)


def _of_other_signatures(edge: Description, cloud: Description) -> dict[str, str]:
    """Outputs of one name that only other signatures than the default one show."""
    names = {spec.name for signature in edge.signatures.values() for spec in signature.outputs}
    pairs = ((name, edge.output(name), cloud.output(name)) for name in sorted(names))
    return {name: name for name, ours, theirs in pairs if ours and theirs and _alike(ours, theirs)}


def _pair_inputs(edge: Sequence[Spec] | None, cloud: Sequence[Spec] | None) -> tuple[dict[str, str] | None, str]:
    if edge is None or cloud is None:
        return None, ""
    theirs = {spec.name: spec for spec in cloud}
    if len(edge) == len(cloud) == 1:
        pairs = {edge[0].name: cloud[0].name}
    elif theirs.keys() == {spec.name for spec in edge}:
        pairs = {name: name for name in theirs}
    else:
        return None, f"the cloud model takes the inputs {_listed(cloud)}, the edge model {_listed(edge)}"
    for spec in edge:
        other = theirs[pairs[spec.name]]
        if not _can_be(spec, other):
            return None, f"input {spec.name!r} is {_told(spec)}, the cloud model's {other.name!r} is {_told(other)}"
    return pairs, ""


def _pair_outputs(edge: Sequence[Spec], cloud: Sequence[Spec]) -> tuple[dict[str, str], str]:
    theirs = {spec.name: spec for spec in cloud}
    pairs: dict[str, str] = {}
    for spec in edge:
        other = theirs.get(spec.name)
        if other is None:
            continue
        if not _alike(spec, other):
            return {}, f"output {spec.name!r} is {_told(spec)}, the cloud model's is {_told(other)}"
        pairs[spec.name] = spec.name
    ours = [spec for spec in edge if spec.name not in pairs]
    rest = [spec for spec in cloud if spec.name not in pairs]
    for spec in ours:
        like = [other for other in rest if _alike(spec, other)]
        if len(like) == 1 and sum(_alike(each, like[0]) for each in ours) == 1:
            pairs[spec.name] = like[0].name
    if not pairs:
        return {}, f"the cloud model gives {_listed(cloud)}, the edge model {_listed(edge)}: nothing in common"
    return pairs, ""


def _alike(one: Spec, other: Spec) -> bool:
    """Whether rows of one could stand for rows of the other."""
    return (one.kind == other.kind or "any" in (one.kind, other.kind)) and _same_rows(one, other)


def _can_be(given: Spec, taken: Spec) -> bool:
    """Whether values for one input could be given to the other."""
    numbers = given.kind in _NUMBERS and taken.kind in _NUMBERS
    return (numbers or given.kind == taken.kind or "any" in (given.kind, taken.kind)) and _same_rows(given, taken)


def _same_rows(one: Spec, other: Spec) -> bool:
    if one.shape is None or other.shape is None:
        return True
    if len(one.shape) != len(other.shape):
        return False
    return all(-1 in pair or pair[0] == pair[1] for pair in zip(one.shape[1:], other.shape[1:], strict=True))


def _listed(specs: Sequence[Spec]) -> str:
    return ", ".join(f"{spec.name!r} ({_told(spec)})" for spec in specs) or "nothing"


def _told(spec: Spec) -> str:
    return f"{spec.datatype or 'of any type'} {list(spec.shape) if spec.shape is not None else 'of any shape'}"
