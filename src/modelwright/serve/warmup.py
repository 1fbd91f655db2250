"""Runs a model on zeros before it serves, and learns from it how large a request may be computed on the event loop."""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from modelwright.ports.errors import Invalid
from modelwright.serve.frameworks.base import Model
from modelwright.serve.tensors import DATATYPES, Array, TensorSpec

# A hop to a thread and back costs about 50 us; a model that runs longer than this line gains more from
# a second core than the hop costs (measured with 8 connections on two cores).
INLINE_SECONDS = 0.00015
_PROBE_ROWS = 32
_RUNS = 5
_BUDGET_SECONDS = 1.0


def elements(inputs: dict[str, Array]) -> int:
    """The size of a request: the number of elements of all its inputs."""
    return sum(array.size for array in inputs.values())


def warm_up(model: Model) -> int:
    """Runs the model and returns the largest request, in elements, to compute on the event loop (0: none).

    Raises Invalid (ModelInvalid) if the model cannot run on zeros of the shape that it declares.
    """
    single = zeros(model.inputs, rows=1)
    try:
        first = seconds_per_run(model, single)
    except Exception as error:
        if any(-1 in spec.shape[1:] or not spec.shape or spec.datatype == "BYTES" for spec in model.inputs):
            return 0  # no model file states the lower limit of a free dimension, or what a string must spell
        raise Invalid(f"the model cannot run on zeros of its own shapes: {error}", reason="ModelInvalid") from error
    if first > INLINE_SECONDS:
        return 0
    size = elements(single)
    slope = _seconds_per_element(model, size, first)
    return size + int((INLINE_SECONDS - first) / slope)


def zeros(specs: tuple[TensorSpec, ...], rows: int) -> dict[str, Array]:
    """Zeros (empty strings) of the declared shapes; a free first dimension is `rows`, other free ones are 1."""
    return {spec.name: _zeros(spec, rows) for spec in specs}


def seconds_per_run(model: Model, inputs: dict[str, Array]) -> float:
    """The median of a few runs after the first, which pays for allocations; one run alone if it is slow."""
    started = time.perf_counter()
    model.predict(inputs)
    runs = [time.perf_counter() - started]
    for _ in range(_RUNS):
        if sum(runs) > _BUDGET_SECONDS:
            return runs[-1]
        started = time.perf_counter()
        model.predict(inputs)
        runs.append(time.perf_counter() - started)
    return median(runs[1:])


def _seconds_per_element(model: Model, size: int, first: float) -> float:
    """What each further element costs, from a run on many rows; at worst in proportion to the first."""
    proportional = first / max(1, size)
    if any(spec.shape[:1] != (-1,) for spec in model.inputs):
        return proportional
    many = zeros(model.inputs, rows=_PROBE_ROWS)
    try:
        slope = (seconds_per_run(model, many) - first) / (elements(many) - size)
    except Exception:
        return proportional
    return max(slope, proportional / 100)


def _zeros(spec: TensorSpec, rows: int) -> Array:
    shape = [
        rows if index == 0 and size == -1 else max(size, 1) if size == -1 else size
        for index, size in enumerate(spec.shape)
    ]
    if spec.datatype == "BYTES":
        return np.full(shape, "", dtype=object)
    return np.zeros(shape, dtype=DATATYPES[spec.datatype].dtype)
