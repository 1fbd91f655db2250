"""What a framework plug-in promises."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from modelwright.serve.tensors import Array, TensorSpec


class LoadOptions(msgspec.Struct, frozen=True):
    """`threads`: how many threads one request may use; `allow_unsafe_formats`: may a format run code on load."""

    threads: int = 1
    allow_unsafe_formats: bool = False


class Model(Protocol):
    """A loaded model. `predict` is called from several threads at once."""

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


class Framework(Protocol):
    """Loads models of one kind."""

    def load(self, path: Path, options: LoadOptions) -> Model:
        """The model in a folder (or the single file `path`).

        Raises errors of `modelwright.ports.errors` with the reasons ModelNotFound, ModelInvalid, UnsafeFormat,
        UnsafePath or FrameworkUnavailable.
        """
