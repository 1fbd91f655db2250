"""ONNX models, run by onnxruntime on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modelwright.ports.errors import Invalid
from modelwright.serve.folder import find_files, only_file
from modelwright.serve.frameworks.base import LoadOptions
from modelwright.serve.frameworks.find import missing_library
from modelwright.serve.tensors import Array, TensorSpec

_DATATYPES = {
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(bool)": "BOOL",
    "tensor(string)": "BYTES",
} | {f"tensor({kind}{bits})": f"{kind.upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}


class OnnxModel:
    """A session of onnxruntime."""

    platform = "onnxruntime_onnx"

    def __init__(self, session: Any, refusals: tuple[type[Exception], ...]) -> None:
        self.inputs = tuple(_spec(node, "input") for node in session.get_inputs())
        self.outputs = tuple(_spec(node, "output") for node in session.get_outputs())
        self.primary = _primary(self.outputs)
        self._names = [spec.name for spec in self.outputs]
        self._run = session.run
        self._refusals = refusals

    def predict(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Runs the graph; raises ValueError if a node refuses these shapes or values."""
        try:
            results = self._run(self._names, inputs)
        except self._refusals as error:
            raise ValueError(str(error)) from error
        return dict(zip(self._names, results, strict=True))


class OnnxFramework:
    """Loads the one `*.onnx` file of a folder; external data is read from beside it."""

    def load(self, path: Path, options: LoadOptions) -> OnnxModel:
        """Raises the errors of `Framework.load`."""
        try:
            import onnxruntime
            from onnxruntime.capi import onnxruntime_pybind11_state as native
        except ImportError as error:
            raise missing_library("onnx", error) from error
        onnxruntime.disable_telemetry_events()  # what a server is asked, and with which models, is its owner's alone
        file = only_file(find_files(path, (".onnx",)), path, "*.onnx")
        try:
            session = onnxruntime.InferenceSession(
                str(file), _session_options(onnxruntime, options), providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime has a dozen kinds without a common base
            raise Invalid(f"onnxruntime cannot load {file}: {error}", reason="ModelInvalid") from error
        return OnnxModel(session, (native.InvalidArgument, native.RuntimeException, native.Fail, RuntimeError))


def _session_options(onnxruntime: Any, options: LoadOptions) -> Any:
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = max(1, options.threads)
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 4  # errors are raised; a bad request must not fill the log
    # Threads that spin between requests would take the cores from the others on the machine.
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return settings


def _spec(node: Any, kind: str) -> TensorSpec:
    datatype = _DATATYPES.get(node.type)
    if datatype is None:
        hint = "convert it with zipmap=False" if node.type.startswith("seq(map") else "export it with plain tensors"
        raise Invalid(
            f"the model's {kind} {node.name!r} is of type {node.type}, which the protocols cannot carry; {hint}",
            reason="ModelInvalid",
        )
    return TensorSpec(node.name, datatype, tuple(dim if isinstance(dim, int) else -1 for dim in node.shape))


def _primary(outputs: tuple[TensorSpec, ...]) -> tuple[str, ...]:
    """A classifier's label (as skl2onnx writes it: label, then probabilities), else all outputs."""
    names = tuple(spec.name for spec in outputs)
    if len(outputs) == 2 and outputs[0].datatype in ("INT64", "BYTES") and "label" in names[0]:
        return names[:1]
    return names
