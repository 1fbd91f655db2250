"""What a framework plug-in promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from modelwright.serve.tensors import Array, TensorSpec


class LoadOptions(msgspec.Struct, frozen=True):
    """`threads`: how many threads one request may use; `allow_unsafe_formats`: may a format run code on load."""

    threads: int = 1
    allow_unsafe_formats: bool = False


class Model(Protocol):
    """A loaded model. `predict` is called from several threads at once.

    If it has a method `close`, that is called once, after its last request, and gives its memory back.
    """

    @property
    def platform(self) -> str:
        """What runs it, as `project_format`: `onnxruntime_onnx`."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The tensors that it takes; all of them are needed."""

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The tensors that it gives, the most important first."""

    @property
    def primary(self) -> tuple[str, ...]:
        """The outputs that TensorFlow Serving's default signature shows."""

    def predict(self, inputs: dict[str, Array]) -> Mapping[str, Array]:
        """All outputs for inputs that fit `inputs`; raises ValueError if the model cannot compute these values."""


class Signature(NamedTuple):
    """A function of a model that requests can name: the tensors that it takes and gives, and how it is computed."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    predict: Callable[[dict[str, Array]], Mapping[str, Array]]


class SignatureModel(Model, Protocol):
    """A model with signatures of its own, as a SavedModel has; what `Model` promises is that of the default one."""

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """What requests can name."""

    @property
    def definitions(self) -> Mapping[str, Any]:
        """All that the model defines, in the form of TensorFlow Serving's metadata: signature_def by name."""


class Framework(Protocol):
    """Loads models of one kind."""

    def load(self, path: Path, options: LoadOptions) -> Model:
        """The model in a folder (or the single file `path`).

        Raises errors of `modelwright.ports.errors` with the reasons ModelNotFound, ModelInvalid, UnsafeFormat,
        UnsafePath or FrameworkUnavailable.
        """
