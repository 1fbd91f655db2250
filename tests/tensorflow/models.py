"""SavedModels as TensorFlow writes them, and some that it would not write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

FLOATS = tf.TensorSpec([None, 2], tf.float32, name="x")
STRINGS = tf.TensorSpec([None], tf.string, name="s")


def save(folder: Path, **functions: Any) -> Path:
    """Functions as the signatures of a SavedModel; what they capture is tracked."""
    module = tf.Module()
    for number, function in enumerate(functions.values()):
        setattr(module, f"f{number}", function)
    tf.saved_model.save(module, str(folder), signatures=functions)
    return folder


def function(run: Callable[..., Any], *specs: Any) -> Any:
    """A traced function of these inputs."""
    return tf.function(run, input_signature=specs)


class Times(tf.Module):  # type: ignore[misc]
    """y = k * x on rows of two, with as many weights beside it as wanted."""

    def __init__(self, factor: int, megabytes: int = 0) -> None:
        self.k = tf.Variable(float(factor))
        self.ballast = tf.Variable(tf.fill([megabytes * 250_000], 1.0)) if megabytes else None

    @tf.function(input_signature=[FLOATS])  # type: ignore[untyped-decorator]
    def times(self, x: Any) -> Any:
        return {"y": x * self.k}


def times(folder: Path, factor: int, megabytes: int = 0) -> Path:
    """The model that multiplies by `factor`."""
    module = Times(factor, megabytes)
    tf.saved_model.save(module, str(folder), signatures=module.times)
    return folder


class Many(tf.Module):  # type: ignore[misc]
    """Several signatures: rows, two inputs and outputs, text, bytes, a scalar, nothing, any rank, half-wide floats."""

    def __init__(self) -> None:
        self.w = tf.Variable([[1.0], [10.0]])

    def signatures(self) -> dict[str, Any]:
        w = self.w
        floats = tf.TensorSpec([None, 2], tf.float32, name="a")
        wholes = tf.TensorSpec([None], tf.int64, name="n")
        any_rank = tf.TensorSpec(None, tf.float32, name="any")
        brain = tf.TensorSpec([None], tf.bfloat16, name="h")
        return {
            "serving_default": function(lambda x: {"score": x @ w, "large": tf.reduce_any(x > 5, axis=1)}, FLOATS),
            "pair": function(lambda a, n: {"sum": tf.reduce_sum(a, axis=1), "next": n + 1}, floats, wholes),
            "text": function(lambda s: {"upper": tf.strings.upper(s), "raw_bytes": s}, STRINGS),
            "image": function(lambda s: {"shape": tf.shape(tf.io.decode_png(s))}, tf.TensorSpec([], tf.string, "png")),
            "scalar": function(lambda v: {"twice": v * 2}, tf.TensorSpec([], tf.float32, name="v")),
            "nothing": tf.function(lambda: {"labels": tf.constant(["no", "yes"])}, input_signature=[]),
            "any": function(lambda x: {"negated": -x}, any_rank),
            "brain": function(lambda h: {"half": h / 2}, brain),
        }


def many(folder: Path) -> Path:
    """A model with several signatures."""
    module = Many()
    tf.saved_model.save(module, str(folder), signatures=module.signatures())
    return folder


def change(folder: Path, edit: Callable[[Any], None]) -> Path:
    """Edits the first graph of a SavedModel on disk."""
    from tensorflow.core.protobuf import saved_model_pb2

    file = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    edit(saved.meta_graphs[0])
    file.write_bytes(saved.SerializeToString())
    return folder


def graph_model(folder: Path, build: Callable[[], tuple[dict[str, Any], dict[str, Any]]], tags: Iterable[str]) -> Path:
    """A SavedModel of TensorFlow 1: a graph of its own, whose `build` gives inputs and outputs."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        inputs, outputs = build()
        session.run(v1.global_variables_initializer())
        session.run(v1.tables_initializer())
        signature = v1.saved_model.signature_def_utils.predict_signature_def(inputs, outputs)
        builder = v1.saved_model.builder.SavedModelBuilder(str(folder))
        builder.add_meta_graph_and_variables(
            session,
            list(tags),
            signature_def_map={"serving_default": signature},
            main_op=v1.tables_initializer(),
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
        )
        builder.save()
    return folder
