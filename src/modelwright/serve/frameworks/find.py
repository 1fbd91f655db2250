"""Finds the framework for a frameworkType."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import cast

from modelwright.ports.errors import Invalid, NotFound
from modelwright.serve.frameworks.base import Framework

GROUP = "modelwright.frameworks"


def find_framework(name: str) -> Framework:
    """The framework of this frameworkType, any case; raises NotFound or Invalid (FrameworkUnavailable)."""
    wanted = name.lower()
    if wanted == "onnx":
        from modelwright.serve.frameworks.onnx import OnnxFramework

        return OnnxFramework()
    if wanted in ("sklearn", "scikit-learn"):
        from modelwright.serve.frameworks.sklearn import SklearnFramework

        return SklearnFramework()
    if wanted == "tensorflow":
        from modelwright.serve.frameworks.tensorflow import TensorflowFramework

        return TensorflowFramework()
    return _plug_in(name, wanted)


def missing_library(framework: str, error: ImportError) -> NotFound:
    """The error for a framework whose library is not installed or cannot be loaded."""
    return NotFound(
        f"the framework {framework} needs a library that cannot be loaded here ({error}): "
        f'pip install "modelwright[{framework}]"',
        reason="FrameworkUnavailable",
    )


def _plug_in(name: str, wanted: str) -> Framework:
    for entry in entry_points(group=GROUP):
        if entry.name.lower() == wanted:
            try:
                return cast("Framework", entry.load()())
            except Exception as error:
                raise Invalid(
                    f"the plug-in {entry.value} for the framework {name} cannot be loaded: {error!r}; "
                    "install a version of it that fits",
                    reason="FrameworkUnavailable",
                ) from error
    raise NotFound(
        f"this server cannot run the framework {name!r}; it runs onnx, sklearn and tensorflow. Convert the model "
        f"to ONNX (torch.onnx), install a plug-in of the entry-point group {GROUP}, or serve it from a container "
        "on Kubernetes",
        reason="FrameworkUnavailable",
    )
