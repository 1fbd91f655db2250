"""SavedModels through the framework: what is taken and given, and what of TensorFlow is honoured."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from tests.integration.serve.site import wait_for
from tests.tensorflow import models as saved

import tensorflow as tf
from modelwright.ports.errors import ModelwrightError
from modelwright.serve.frameworks.base import LoadOptions
from modelwright.serve.frameworks.find import find_framework
from modelwright.serve.tensors import TensorSpec


def load(path: Path, **options: Any) -> Any:
    return find_framework("tensorflow").load(path, LoadOptions(**options))


def spec(name: str, datatype: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, datatype, shape, binary=True)


@pytest.fixture(scope="module")
def many(models: Path) -> Any:
    found = load(models / "many")
    yield found
    found.close()


def call(model: Any, name: str, **inputs: Any) -> Any:
    return model.signatures[name].predict({key: np.asarray(value) for key, value in inputs.items()})


def test_the_default_signature_is_what_the_model_takes_and_gives(many: Any) -> None:
    assert many.platform == "tensorflow_savedmodel"
    assert many.inputs == (spec("x", "FP32", -1, 2),)
    assert many.outputs == (spec("large", "BOOL", -1), spec("score", "FP32", -1, 1))
    assert many.primary == ("large", "score")
    results = many.predict({"x": np.array([[1, 2], [6, 0]], np.float32)})
    assert {name: array.tolist() for name, array in results.items()} == {
        "large": [False, True],
        "score": [[21.0], [6.0]],
    }


def test_every_signature_has_its_own_tensors(many: Any) -> None:
    assert sorted(many.signatures) == ["any", "brain", "image", "nothing", "pair", "scalar", "serving_default", "text"]
    pair = call(many, "pair", a=np.ones((2, 2), np.float32), n=np.array([1, 2]))
    assert (pair["sum"].tolist(), pair["next"].tolist()) == ([2.0, 2.0], [2, 3])
    assert call(many, "nothing")["labels"].tolist() == [b"no", b"yes"]
    for shape in ((), (3,), (2, 1, 2)):
        assert call(many, "any", any=np.ones(shape, np.float32))["negated"].tolist() == (-np.ones(shape)).tolist()


def test_strings_are_text_or_any_bytes(many: Any) -> None:
    given = np.array(["café", b"\xff\x00z"], dtype=object)
    results = call(many, "text", s=given)
    assert results["upper"].tolist() == ["CAFé".encode(), b"\xff\x00Z"]
    assert results["raw_bytes"].tolist() == ["café".encode(), b"\xff\x00z"]
    assert call(many, "image", png=np.array(png(3, 2), dtype=object))["shape"].tolist() == [2, 3, 1]


def png(width: int, height: int) -> bytes:
    """A black picture."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * (width + 1) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_a_scalar_stays_a_scalar(many: Any) -> None:
    assert call(many, "scalar", v=np.float32(3))["twice"].tolist() == 6.0
    with pytest.raises(ValueError, match="takes a single value"):
        call(many, "scalar", v=np.ones(2, np.float32))


def test_the_protocols_lack_bfloat16_so_it_is_given_as_fp32(many: Any) -> None:
    assert many.signatures["brain"].inputs == (spec("h", "FP32", -1),)
    half = call(many, "brain", h=np.array([1, 3], np.float32))["half"]
    assert (half.dtype, half.tolist()) == (np.float32, [0.5, 1.5])


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("serving_default", {"x": np.ones((2, 3), np.float32)}, "Matrix size-incompatible"),
        ("pair", {"a": np.ones((2, 2), np.float64), "n": np.ones(2, np.int64)}, "expect float"),
        ("image", {"png": np.array(b"no picture", dtype=object)}, "Unknown image file format"),
    ],
)
def test_what_an_operation_refuses_is_a_value_error_in_one_line(
    many: Any, name: str, inputs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call(many, name, **inputs)
    assert "\n" not in str(caught.value)


NUMBERS = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def test_all_number_types_go_in_and_out(tmp_path: Path) -> None:
    specs = [tf.TensorSpec([None], getattr(tf, name), name=name) for name in [*NUMBERS, "bool"]]

    def same(*tensors: Any) -> Any:
        return {f"{each.name}_out": tf.identity(tensor) for each, tensor in zip(specs, tensors, strict=True)}

    model = load(saved.save(tmp_path, serving_default=saved.function(same, *specs)))
    arrays = {each.name: np.array([0, 1], each.datatype.replace("FP", "float").lower()) for each in model.inputs}
    results = model.predict(arrays)
    assert {name: (array.dtype, array.tolist()) for name, array in results.items()} == {
        f"{name}_out": (array.dtype, array.tolist()) for name, array in arrays.items()
    }
    model.close()


def test_a_keras_export_is_served(tmp_path: Path) -> None:
    import keras

    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax")])
    network.export(tmp_path / "1", verbose=False)
    model = load(tmp_path)
    rows = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    (output,) = model.predict({model.inputs[0].name: rows}).values()
    np.testing.assert_allclose(output, network.predict(rows, verbose=0), rtol=1e-5)
    model.close()


class Vocabulary(tf.Module):  # type: ignore[misc]
    """Numbers for words, from a file that is copied into the model."""

    def __init__(self, file: Path) -> None:
        keys = tf.lookup.TextFileInitializer(
            str(file), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
        self.table = tf.lookup.StaticHashTable(keys, -1)

    @tf.function(input_signature=[saved.STRINGS])  # type: ignore[untyped-decorator]
    def look_up(self, s: Any) -> Any:
        return {"number": self.table.lookup(s)}


def test_tables_are_filled_from_the_models_own_assets(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("yes\nno\n")
    vocabulary = Vocabulary(words)
    tf.saved_model.save(vocabulary, str(tmp_path / "m"), signatures=vocabulary.look_up)
    words.unlink()
    (tmp_path / "m").rename(tmp_path / "moved")
    model = load(tmp_path / "moved")
    assert call(model, "serving_default", s=np.array(["no", "maybe"], dtype=object))["number"].tolist() == [1, -1]
    model.close()


def test_a_graph_of_tensorflow_1_is_served(tmp_path: Path) -> None:
    def build() -> Any:
        x = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
        k = tf.compat.v1.get_variable("k", initializer=3.0, use_resource=False)
        return {"x": x}, {"y": x * k}

    model = load(saved.graph_model(tmp_path / "m", build, ["serve"]))
    assert model.predict({"x": np.ones((1, 2), np.float32)})["y"].tolist() == [[3.0, 3.0]]
    model.close()


def test_versions_beside_each_other_have_weights_of_their_own(models: Path) -> None:
    loaded = [load(models / str(factor)) for factor in (2, 3)]
    one = {"x": np.ones((1, 2), np.float32)}
    assert [model.predict(one)["y"].tolist() for model in loaded] == [[[2.0, 2.0]], [[3.0, 3.0]]]
    loaded[0].close()
    assert loaded[1].predict(one)["y"].tolist() == [[3.0, 3.0]]
    loaded[1].close()


def test_each_model_has_the_threads_that_it_is_given_and_takes_them_with_it(models: Path) -> None:
    process = psutil.Process()
    load(models / "1").close()
    before = process.num_threads()
    for threads in (1, 5):
        model = load(models / "1", threads=threads)
        model.predict({"x": np.ones((1, 2), np.float32)})
        wait_for_threads(process, before + threads)
        model.close()
        wait_for_threads(process, before)


def wait_for_threads(process: psutil.Process, count: int) -> None:
    wait_for(lambda: process.num_threads() == count, f"{count} threads")


def test_the_definitions_are_those_of_tensorflow_servings_metadata(many: Any) -> None:
    assert many.definitions["pair"]["inputs"] == {
        "a": {
            "dtype": "DT_FLOAT",
            "tensor_shape": {"dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": False},
            "name": "pair_a:0",
        },
        "n": {
            "dtype": "DT_INT64",
            "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
            "name": "pair_n:0",
        },
    }
    assert many.definitions["pair"]["method_name"] == "tensorflow/serving/predict"
    assert many.definitions["any"]["inputs"]["any"]["tensor_shape"] == {"dim": [], "unknown_rank": True}
    assert "__saved_model_init_op" in many.definitions


def test_a_signature_that_the_protocols_cannot_carry_is_left_out(tmp_path: Path) -> None:
    complex_numbers = saved.function(lambda x: {"y": tf.cast(x, tf.complex64)}, saved.FLOATS)
    rows = saved.function(lambda x: {"y": x}, saved.FLOATS)
    model = load(saved.save(tmp_path / "a", serving_default=rows, spectrum=complex_numbers))
    assert (list(model.signatures), "spectrum" in model.definitions) == (["serving_default"], True)
    model.close()
    with pytest.raises(ModelwrightError, match="'y' is of type DT_COMPLEX64") as caught:
        load(saved.save(tmp_path / "b", serving_default=complex_numbers))
    assert caught.value.reason == "ModelInvalid"


def test_without_a_default_each_signature_is_asked_by_its_name(tmp_path: Path) -> None:
    rows = saved.function(lambda x: {"y": x}, saved.FLOATS)
    model = load(saved.save(tmp_path, one=rows, two=rows))
    assert (sorted(model.signatures), model.inputs, model.predict({})) == (["one", "two"], (), {})
    model.close()
