"""SavedModels that are broken, or that would do more than compute."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from tests.integration.serve.site import wait_for
from tests.tensorflow import models as saved

import tensorflow as tf
from modelwright.ports.errors import ModelwrightError
from modelwright.serve.frameworks import savedmodel
from modelwright.serve.frameworks.base import LoadOptions
from modelwright.serve.frameworks.find import find_framework

RAW = tf.raw_ops


def load(path: Path, **options: Any) -> Any:
    return find_framework("tensorflow").load(path, LoadOptions(**options))


def refused(path: Path) -> ModelwrightError:
    with pytest.raises(ModelwrightError) as caught:
        load(path)
    return caught.value


def rows(run: Callable[[Any], Any]) -> Any:
    return saved.function(lambda x: {"y": run(x)}, saved.FLOATS)


# Programs -------------------------------------------------------------------------------------------------------------


def after(operation: Any, x: Any) -> Any:
    with tf.control_dependencies([operation]):
        return tf.identity(x)


def read_file(x: Any) -> Any:
    return after(tf.io.read_file("/etc/hostname"), x)


def text_lines(x: Any) -> Any:
    lines = tf.data.TextLineDataset("/etc/hostname")
    return x + tf.cast(lines.reduce(np.int64(0), lambda count, _: count + 1), tf.float32)


HOSTILE: dict[str, Callable[[Any], Any]] = {
    "ReadFile": read_file,
    "MatchingFiles": lambda x: after(tf.io.matching_files("/etc/*"), x),
    "PyFuncStateless": lambda x: tf.ensure_shape(tf.numpy_function(abs, [x], tf.float32, stateful=False), [None, 2]),
    "EagerPyFunc": lambda x: tf.ensure_shape(tf.py_function(abs, [x], tf.float32), [None, 2]),
    "SaveV2": lambda x: after(
        RAW.SaveV2(prefix="/tmp/stolen", tensor_names=["x"], shape_and_slices=[""], tensors=[x]), x
    ),
    "RestoreV2": lambda x: (
        x + RAW.RestoreV2(prefix="/models/other", tensor_names=["w"], shape_and_slices=[""], dtypes=[tf.float32])[0]
    ),
    "MergeV2Checkpoints": lambda x: after(
        RAW.MergeV2Checkpoints(checkpoint_prefixes=["/tmp/a"], destination_prefix="/tmp/b"), x
    ),
    "TextLineDataset": text_lines,
    "PrintV2": lambda x: after(tf.print("hello", output_stream="file:///tmp/printed"), x),
    "Abort": lambda x: after(RAW.Abort(error_msg="bye"), x),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_operation_that_reaches_out_of_the_model_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    error = refused(saved.save(tmp_path, serving_default=rows(HOSTILE[name])))
    assert (error.reason, f"out of the model: {name}." in error.message) == ("UnsafeFormat", True), error.message
    assert "--allow-unsafe-formats" in error.message


def nested(inner: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    """The same operation where it is less easily seen."""
    called = tf.function(inner)
    return {
        "function": called,
        "condition": lambda x: tf.cond(tf.reduce_sum(x) > 1e30, lambda: called(x), lambda: x),
        "loop": lambda x: tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, called(y)), (0, x))[1],
        "map": lambda x: tf.map_fn(called, x),
        "dataset": lambda x: (
            tf.data.Dataset.from_tensors(x).map(called).reduce(tf.zeros_like(x), lambda state, y: state + y)
        ),
    }


@pytest.mark.parametrize("place", ["function", "condition", "loop", "map", "dataset"])
def test_an_operation_is_found_wherever_it_stands(tmp_path: Path, place: str) -> None:
    error = refused(saved.save(tmp_path, serving_default=rows(nested(read_file)[place])))
    assert "out of the model: ReadFile." in error.message


class WritesWhenLoaded(tf.Module):  # type: ignore[misc]
    """A table whose initialisation writes a file."""

    def __init__(self, file: Path) -> None:
        words = tf.lookup.KeyValueTensorInitializer(["a"], tf.constant([1], tf.int64))
        self.table = tf.lookup.StaticHashTable(words, -1)
        self.file = str(file)

    @tf.function(input_signature=[saved.STRINGS])  # type: ignore[untyped-decorator]
    def look_up(self, s: Any) -> Any:
        return {"n": self.table.lookup(s)}


def write_in_initialiser(meta: Any, file: Path) -> None:
    """Puts a WriteFile before the initialisation, as an author of hostile models would."""
    name = meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name
    for constant, value in (("path", str(file).encode()), ("content", b"written")):
        node = meta.graph_def.node.add(name=constant, op="Const")
        node.attr["dtype"].type = tf.string.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    meta.graph_def.node.add(name="write", op="WriteFile", input=["path", "content"])
    next(node for node in meta.graph_def.node if node.name == name).input.append("^write")


def test_nothing_is_written_when_a_model_is_loaded_unless_that_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "written"
    module = WritesWhenLoaded(file)
    folder = tmp_path / "m"
    tf.saved_model.save(module, str(folder), signatures=module.look_up)
    saved.change(folder, lambda meta: write_in_initialiser(meta, file))
    error = refused(folder)
    assert (error.reason, "WriteFile" in error.message, file.exists()) == ("UnsafeFormat", True, False)
    model = load(folder, allow_unsafe_formats=True)
    assert file.read_bytes() == b"written"
    model.close()


def test_reading_the_variables_may_do_nothing_else(models: Path, tmp_path: Path) -> None:
    def also_reads_a_file(meta: Any) -> None:
        library = {function.signature.name: function for function in meta.graph_def.library.function}
        restore = next(node for node in meta.graph_def.node if node.name == meta.saver_def.restore_op_name)
        body = library[restore.attr["f"].func.name]
        body.node_def.add(name="peek", op="ReadFile", input=["file_prefix"])

    folder = shutil.copytree(models / "1", tmp_path / "m")
    assert "ReadFile" in refused(saved.change(folder, also_reads_a_file)).message


def test_a_function_that_may_be_taken_for_another_is_looked_at_too(models: Path, tmp_path: Path) -> None:
    def hidden(meta: Any) -> None:
        library = meta.graph_def.library
        body = next(function for function in library.function if "times" in function.signature.name)
        twin = library.function.add()
        twin.CopyFrom(body)
        twin.signature.name = "twin"
        twin.node_def.add(name="peek", op="ReadFile", input=["x"])
        for function in (body, twin):
            function.attr["api_implements"].s = b"same"

    folder = shutil.copytree(models / "1", tmp_path / "m")
    assert "ReadFile" in refused(saved.change(folder, hidden)).message


def test_what_the_server_never_runs_is_not_looked_at(tmp_path: Path) -> None:
    module = tf.Module()
    module.times = rows(lambda x: x * 2)
    module.inspect = rows(read_file)
    tf.saved_model.save(module, str(tmp_path), signatures=module.times)
    model = load(tmp_path)
    assert model.predict({"x": np.ones((1, 2), np.float32)})["y"].tolist() == [[2.0, 2.0]]
    model.close()


def test_printing_to_the_log_is_fine(tmp_path: Path) -> None:
    load(saved.save(tmp_path, serving_default=rows(lambda x: after(tf.print("hello"), x)))).close()


def operations() -> dict[str, Any]:
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    buffer = pywrap_tf_session.TF_GetAllOpList()
    return {each.name: each for each in op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(buffer)).op}


HARMLESS = {
    "InitializeTableFromTextFile",  # vocabularies: every model with words has them
    "InitializeTableFromTextFileV2",
    "RegexFullMatch",
    "RegexReplace",
    "StaticRegexFullMatch",
    "StaticRegexReplace",
    "CTCBeamSearchDecoder",  # its paths are those of a search
    "ExperimentalSetStatsAggregatorDataset",
    "SetStatsAggregatorDataset",
    "RestoreV2",  # looked at apart
    "RestoreSlice",
    "Restore",
}


def test_the_list_of_operations_knows_all_of_this_tensorflow_that_name_files_or_hosts() -> None:
    suspicious = ("filename", "pattern", "path", "dir", "address", "prefix", "vocab_file", "chunk_file", "graph_def")
    known = operations()
    found = {
        name
        for name, definition in known.items()
        for argument in [*definition.input_arg, *definition.attr]
        if any(word in argument.name for word in suspicious)
        and "direction" not in argument.name
        and not name.startswith(("TPU", "XlaSparse", "Cudnn"))
    }
    assert sorted(found - savedmodel.FORBIDDEN - HARMLESS) == []


# Broken ---------------------------------------------------------------------------------------------------------------


def garbage(folder: Path) -> None:
    (folder / "saved_model.pb").write_bytes(b"\xff\x00 this is no protocol buffer")


def cut(folder: Path) -> None:
    file = folder / "saved_model.pb"
    file.write_bytes(file.read_bytes()[:-100])


def empty(folder: Path) -> None:
    (folder / "saved_model.pb").write_bytes(b"")


def no_variables(folder: Path) -> None:
    shutil.rmtree(folder / "variables")


def cut_variables(folder: Path) -> None:
    next((folder / "variables").glob("*.data-*")).write_bytes(b"")


def other_tags(folder: Path) -> None:
    def edit(meta: Any) -> None:
        meta.meta_info_def.tags[:] = ["train"]

    saved.change(folder, edit)


def no_signatures(folder: Path) -> None:
    saved.change(folder, lambda meta: meta.signature_def.clear())


def missing_tensor(folder: Path) -> None:
    def edit(meta: Any) -> None:
        meta.signature_def["serving_default"].outputs["y"].name = "nowhere:0"

    saved.change(folder, edit)


def unknown_operation(folder: Path) -> None:
    saved.change(folder, lambda meta: meta.graph_def.node.add(name="x", op="NobodyKnowsThis"))


def cyclic(folder: Path) -> None:
    def edit(meta: Any) -> None:
        for name, other in (("a", "b"), ("b", "a")):
            node = meta.graph_def.node.add(name=name, op="Identity", input=[other])
            node.attr["T"].type = tf.float32.as_datatype_enum
        meta.signature_def["serving_default"].outputs["y"].name = "a:0"

    saved.change(folder, edit)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (garbage, "cannot load"),
        (cut, "cannot load"),
        (empty, "no graph with the tag 'serve'"),
        (no_variables, "no variables/variables.index"),
        (cut_variables, "cannot load"),
        (other_tags, "it has [['train']]"),
        (no_signatures, "no signature that can be served"),
        (missing_tensor, "serving_default: "),
        (unknown_operation, "NobodyKnowsThis"),
        (cyclic, "ycl"),
    ],
)
def test_a_broken_model_is_refused_in_one_line(
    models: Path, tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    folder = shutil.copytree(models / "1", tmp_path / "m")
    spoil(folder)
    error = refused(folder)
    assert (error.reason, message in error.message, "\n" in error.message) == ("ModelInvalid", True, False), error


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", ""])
def test_assets_outside_of_the_folder_are_refused(models: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(models / "1", tmp_path / "m")
    error = refused(saved.change(folder, lambda meta: meta.asset_file_def.add(filename=name)))
    assert error.reason == "UnsafePath"


def test_a_link_out_of_the_folder_is_refused(models: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(models / "1", tmp_path / "m")
    data = next((folder / "variables").glob("*.data-*"))
    data.rename(tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    assert refused(folder).reason == "UnsafePath"


def test_a_folder_without_a_saved_model_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    error = refused(tmp_path)
    assert (error.reason, "saved_model.pb" in error.message) == ("ModelNotFound", True)


def test_a_refused_model_leaves_no_threads_behind(models: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(models / "1", tmp_path / "m")
    missing_tensor(folder)
    refused(folder)
    before = psutil.Process().num_threads()
    for _ in range(3):
        refused(folder)
    wait_for(lambda: psutil.Process().num_threads() <= before, "its threads to be gone")
