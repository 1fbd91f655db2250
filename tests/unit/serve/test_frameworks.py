"""ONNX and scikit-learn models, and frameworks that are not there."""

from __future__ import annotations

import json
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
import pytest
import skops.io
from onnx import TensorProto, helper
from skl2onnx import to_onnx
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from modelwright.ports.errors import ModelwrightError
from modelwright.serve.frameworks.base import LoadOptions
from modelwright.serve.frameworks.find import find_framework
from modelwright.serve.tensors import TensorSpec

ROWS = np.random.default_rng(0).normal(size=(40, 4))
LABELS = (ROWS[:, 0] > 0).astype(int)
SAFE, UNSAFE = LoadOptions(), LoadOptions(allow_unsafe_formats=True)


class Canary:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def refused(framework: str, path: Path, options: LoadOptions = SAFE) -> ModelwrightError:
    with pytest.raises(ModelwrightError) as caught:
        find_framework(framework).load(path, options)
    return caught.value


def test_an_onnx_classifier_gives_label_and_probabilities(tmp_path: Path) -> None:
    model = LogisticRegression().fit(ROWS, LABELS)
    proto = to_onnx(model, ROWS[:1].astype(np.float32), options={"zipmap": False})
    onnx.save(proto, tmp_path / "m.onnx")
    loaded = find_framework("ONNX").load(tmp_path, SAFE)
    assert [spec.datatype for spec in loaded.outputs] == ["INT64", "FP32"]
    assert loaded.primary == (loaded.outputs[0].name,)
    results = loaded.predict({loaded.inputs[0].name: ROWS.astype(np.float32)})
    assert results[loaded.primary[0]].tolist() == model.predict(ROWS).tolist()


def test_an_onnx_model_with_maps_is_refused_with_the_remedy(tmp_path: Path) -> None:
    proto = to_onnx(LogisticRegression().fit(ROWS, LABELS), ROWS[:1].astype(np.float32))
    onnx.save(proto, tmp_path / "m.onnx")
    error = refused("onnx", tmp_path)
    assert (error.reason, "zipmap=False" in error.message) == ("ModelInvalid", True)


def test_an_onnx_model_finds_its_external_data_beside_it(tmp_path: Path) -> None:
    proto = to_onnx(Ridge().fit(ROWS, LABELS), ROWS[:1].astype(np.float32))
    graph = proto.graph
    for index in range(len(graph.initializer)):
        array = onnx.numpy_helper.to_array(graph.initializer[index])
        graph.initializer[index].CopyFrom(onnx.numpy_helper.from_array(array, graph.initializer[index].name))
    folder = tmp_path / "export"
    folder.mkdir()
    onnx.save_model(proto, folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    assert find_framework("onnx").load(tmp_path, SAFE).inputs[0].shape == (-1, 4)


def test_a_broken_onnx_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"not a model")
    assert refused("onnx", tmp_path).reason == "ModelInvalid"


def test_an_onnx_type_that_the_protocols_lack_is_refused(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [1])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    error = refused("onnx", tmp_path)
    assert (error.reason, "bfloat16" in error.message) == ("ModelInvalid", True)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        Ridge(),
        DecisionTreeClassifier(),
        RandomForestClassifier(n_estimators=3),
        GradientBoostingClassifier(n_estimators=3),
        HistGradientBoostingRegressor(max_iter=3),
        KNeighborsClassifier(algorithm="kd_tree"),
        SVC(),
        make_pipeline(StandardScaler(), FunctionTransformer(np.tanh), LogisticRegression()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_usual_estimators_load_from_skops(tmp_path: Path, estimator: Any) -> None:
    skops.io.dump(estimator.fit(ROWS, LABELS), tmp_path / "m.skops")
    loaded = find_framework("sklearn").load(tmp_path, SAFE)
    results = loaded.predict({"input": ROWS})
    assert results["predict"].tolist() == estimator.predict(ROWS).tolist()
    assert ("predict_proba" in results) == hasattr(estimator, "predict_proba")
    assert [spec.name for spec in loaded.outputs] == list(results)


def test_the_tensors_of_a_classifier_with_named_classes(tmp_path: Path) -> None:
    names = np.array(["no", "yes"])[LABELS]
    skops.io.dump(LogisticRegression().fit(ROWS, names), tmp_path / "m.skops")
    loaded = find_framework("scikit-learn").load(tmp_path, SAFE)
    assert (loaded.platform, loaded.primary) == ("sklearn_skops", ("predict",))
    assert (loaded.inputs[0].name, loaded.inputs[0].datatype, loaded.inputs[0].shape) == ("input", "FP64", (-1, 4))
    assert {"FP32", "INT64"} < loaded.inputs[0].accepts
    assert loaded.outputs == (TensorSpec("predict", "BYTES", (-1,)), TensorSpec("predict_proba", "FP64", (-1, 2)))
    whole = loaded.predict({"input": np.ones((2, 4), np.int64)})
    assert whole["predict"].tolist() == loaded.predict({"input": np.ones((2, 4), np.float32)})["predict"].tolist()


def test_values_that_an_estimator_refuses_are_value_errors(tmp_path: Path) -> None:
    skops.io.dump(LogisticRegression().fit(ROWS, LABELS), tmp_path / "m.skops")
    loaded = find_framework("sklearn").load(tmp_path, SAFE)
    for rows in (np.full((1, 4), np.nan), np.zeros((0, 4))):
        with pytest.raises(ValueError, match=r"NaN|minimum of 1"):
            loaded.predict({"input": rows})


def test_an_estimator_that_is_not_fitted_or_predicts_nothing_is_refused(tmp_path: Path) -> None:
    for name, estimator in (("raw", LogisticRegression()), ("scaler", StandardScaler().fit(ROWS))):
        folder = tmp_path / name
        folder.mkdir()
        skops.io.dump(estimator, folder / "m.skops")
        assert refused("sklearn", folder).reason == "ModelInvalid"


def test_a_broken_skops_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.skops").write_bytes(b"not a zip")
    assert refused("sklearn", tmp_path).reason == "ModelInvalid"


@pytest.mark.parametrize("function", [np.load, np.fromfile, print], ids=lambda function: function.__name__)
def test_a_skops_file_that_names_functions_is_refused_with_their_names(tmp_path: Path, function: Any) -> None:
    estimator = make_pipeline(FunctionTransformer(np.tanh), LogisticRegression()).fit(ROWS, LABELS)
    estimator.steps[0][1].func = function
    skops.io.dump(estimator, tmp_path / "m.skops")
    error = refused("sklearn", tmp_path)
    assert (error.reason, function.__name__ in error.message) == ("UnsafeFormat", True)


def test_a_forged_type_in_a_skops_file_is_refused(tmp_path: Path) -> None:
    skops.io.dump(LogisticRegression().fit(ROWS, LABELS), tmp_path / "good.skops")
    folder = tmp_path / "forged"
    folder.mkdir()
    with zipfile.ZipFile(tmp_path / "good.skops") as good, zipfile.ZipFile(folder / "m.skops", "w") as forged:
        for name in good.namelist():
            content = good.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                schema["__module__"], schema["__class__"] = "sklearn.externals.nowhere", "System"
                content = json.dumps(schema).encode()
            forged.writestr(name, content)
    error = refused("sklearn", folder)
    assert (error.reason, "sklearn.externals.nowhere.System" in error.message) == ("UnsafeFormat", True)


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib"])
def test_a_pickle_is_not_opened_without_permission(tmp_path: Path, suffix: str) -> None:
    folder, canary = tmp_path / "model", tmp_path / "canary"
    folder.mkdir()
    (folder / f"m{suffix}").write_bytes(pickle.dumps(Canary(canary)))
    error = refused("sklearn", folder)
    assert (error.reason, "--allow-unsafe-formats" in error.message) == ("UnsafeFormat", True)
    assert not canary.exists()
    assert refused("sklearn", folder, UNSAFE).reason == "ModelInvalid"
    assert canary.exists()


def test_a_pickle_is_served_with_permission_and_skops_is_preferred(tmp_path: Path) -> None:
    joblib.dump(LogisticRegression().fit(ROWS, LABELS), tmp_path / "m.joblib")
    assert find_framework("sklearn").load(tmp_path, UNSAFE).platform == "sklearn_joblib"
    skops.io.dump(LogisticRegression().fit(ROWS, LABELS), tmp_path / "m.skops")
    assert find_framework("sklearn").load(tmp_path, SAFE).platform == "sklearn_skops"


def test_an_unknown_framework_is_refused_with_what_to_do(tmp_path: Path) -> None:
    for name in ("torch", "caffe"):
        error = refused(name, tmp_path)
        assert error.reason == "FrameworkUnavailable"
        assert "modelwright.frameworks" in error.message


@pytest.fixture
def plug_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution with one plug-in that works and one that does not."""
    site = tmp_path / "site"
    info = site / "plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[modelwright.frameworks]\nConstant = serve_test_plugin:Constant\nbroken = serve_test_plugin:Nothing\n"
    )
    (site / "serve_test_plugin.py").write_text(
        "class Constant:\n    def load(self, path, options):\n        return 7\n"
    )
    monkeypatch.syspath_prepend(str(site))


@pytest.mark.usefixtures("plug_ins")
def test_a_plug_in_is_found_by_its_entry_point(tmp_path: Path) -> None:
    assert find_framework("constant").load(tmp_path, SAFE) == 7  # type: ignore[comparison-overlap]
    error = refused("broken", tmp_path)
    assert (error.reason, "serve_test_plugin:Nothing" in error.message) == ("FrameworkUnavailable", True)
    sys.modules.pop("serve_test_plugin", None)
