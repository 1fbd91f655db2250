"""scikit-learn models: skops, and (by explicit permission only) joblib and pickle."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from modelwright.ports.errors import Invalid, Rejected
from modelwright.serve.folder import find_files, only_file
from modelwright.serve.frameworks.base import LoadOptions
from modelwright.serve.frameworks.find import missing_library
from modelwright.serve.tensors import Array, TensorSpec, datatype_of

_UNSAFE = (".joblib", ".pkl", ".pickle")
_ALSO_TAKEN = frozenset({"FP32", "FP64", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"})


class SklearnModel:
    """An estimator with `predict`: output `predict`, and `predict_proba` if it has it."""

    def __init__(self, estimator: Any, platform: str) -> None:
        self.platform = platform
        self.primary = ("predict",)
        self._estimator = estimator
        self.inputs = (TensorSpec("input", "FP64", (-1, _features(estimator)), _ALSO_TAKEN),)
        self._probabilities = hasattr(estimator, "predict_proba")
        self.outputs = self._probe()

    def predict(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Raises ValueError for what the estimator refuses (no rows, values that are not finite)."""
        rows = inputs["input"]
        if rows.dtype.kind != "f":
            rows = rows.astype(np.float64)
        outputs = {"predict": np.asarray(self._estimator.predict(rows))}
        if self._probabilities:
            outputs["predict_proba"] = np.asarray(self._estimator.predict_proba(rows))
        return outputs

    def _probe(self) -> tuple[TensorSpec, ...]:
        """Learns the outputs from one run on zeros."""
        zeros = np.zeros((1, max(1, self.inputs[0].shape[1])))
        if self._probabilities and isinstance(self._estimator.predict_proba(zeros), list):
            self._probabilities = False  # several targets: a list of arrays, which no tensor can hold
        outputs = self.predict({"input": zeros})
        return tuple(TensorSpec(name, datatype_of(array), (-1, *array.shape[1:])) for name, array in outputs.items())


class SklearnFramework:
    """Loads the one `*.skops` file of a folder, or, if that is allowed, the one joblib or pickle file."""

    def load(self, path: Path, options: LoadOptions) -> SklearnModel:
        """Raises the errors of `Framework.load`."""
        try:
            import skops.io
        except ImportError as error:
            raise missing_library("sklearn", error) from error
        # The protocols carry arrays: an estimator fitted on a data frame would warn of it at each request.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        safe = find_files(path, (".skops",))
        unsafe = find_files(path, _UNSAFE)
        if unsafe and not safe:
            return self._load_unsafe(only_file(unsafe, path, "joblib or pickle"), options)
        file = only_file(safe, path, "*.skops")
        return _wrap(file, "sklearn_skops", lambda: skops.io.load(file, trusted=_trusted(file, skops.io)))

    def _load_unsafe(self, file: Path, options: LoadOptions) -> SklearnModel:
        if not options.allow_unsafe_formats:
            raise Rejected(
                f"{file} is a pickle, which runs code of its author when it is loaded. Save the model with skops "
                "(skops.io.dump), or allow unsafe formats if you trust its author (--allow-unsafe-formats)",
                reason="UnsafeFormat",
            )
        import joblib

        return _wrap(file, "sklearn_joblib", lambda: joblib.load(file))


def _wrap(file: Path, platform: str, load: Any) -> SklearnModel:
    try:
        estimator = load()
        if not hasattr(estimator, "predict"):
            raise TypeError(f"a {type(estimator).__name__} has no predict")
        return SklearnModel(estimator, platform)
    except (Invalid, Rejected):
        raise
    except Exception as error:
        raise Invalid(
            f"scikit-learn cannot use {file}: {type(error).__name__}: {error}", reason="ModelInvalid"
        ) from error


def _features(estimator: Any) -> int:
    count = getattr(estimator, "n_features_in_", None)
    if count is None:
        raise Invalid(
            f"the {type(estimator).__name__} does not say how many features it takes (n_features_in_); "
            "only fitted estimators on numeric rows can be served",
            reason="ModelInvalid",
        )
    return int(count)


def _trusted(file: Path, skops_io: Any) -> list[str]:
    """The types beyond skops' own list, if all are plain classes of scikit-learn or scalars of numpy; else Rejected."""
    unknown = skops_io.get_untrusted_types(file=file)
    refused = [name for name in unknown if not _is_own_class(name)]
    if refused:
        raise Rejected(
            f"{file} needs types that are not known to be safe: {', '.join(refused)}. "
            "Save the model without them, or serve it as ONNX",
            reason="UnsafeFormat",
        )
    return list(unknown)


def _is_own_class(name: str) -> bool:
    """Classes only: a function named in the file could do anything when it is called on a request."""
    module, _, attribute = name.rpartition(".")
    package = module.split(".", 1)[0]
    if package not in ("sklearn", "numpy") or {"tests", "testing", "__main__"} & set(module.split(".")):
        return False
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return False
    if package == "numpy":
        return isinstance(found, type) and issubclass(found, (np.generic, np.dtype))
    return isinstance(found, type)
