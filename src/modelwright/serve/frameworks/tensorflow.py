"""TensorFlow SavedModels, run on the CPU by a session of TensorFlow, as TensorFlow Serving runs them."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelwright.ports.errors import Invalid, ModelwrightError, Rejected
from modelwright.serve.folder import find_folder
from modelwright.serve.frameworks import savedmodel
from modelwright.serve.frameworks.base import LoadOptions, Signature
from modelwright.serve.frameworks.find import missing_library
from modelwright.serve.frameworks.tensorflow_calls import first_line, signatures_of
from modelwright.serve.signatures import default_of
from modelwright.serve.tensors import Array

FILE = "saved_model.pb"
TAG = "serve"

# Read when the library is imported. Its own allocator keeps what it has once had, a model's worth after each change
# of versions, so it is off unless the user wants its speed; each session has threads of its own, gone with it.
_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_OVERRIDE_GLOBAL_THREADPOOL": "1",
    "CUDA_VISIBLE_DEVICES": "-1",
}
_IN_CALLERS_THREAD = -1


class TensorflowFramework:
    """Loads the SavedModel of a folder: `saved_model.pb`, with `variables/` and `assets/` beside it."""

    def load(self, path: Path, options: LoadOptions) -> TensorflowModel:
        """Raises the errors of `Framework.load`."""
        try:
            tensorflow = load_library()
        except ImportError as error:
            raise missing_library("tensorflow", error) from error
        folder = find_folder(path, FILE)
        try:
            meta = _read(folder)
            _check(meta, folder, options)
            return TensorflowModel(tensorflow, _start(tensorflow, meta, folder, options), meta)
        except ModelwrightError:
            raise
        except Exception as error:  # the library raises its own, Python's and protobuf's
            raise Invalid(f"TensorFlow cannot load {folder}: {first_line(error)}", reason="ModelInvalid") from error


class TensorflowModel:
    """A session with a SavedModel's graph and variables, and its signatures."""

    platform = "tensorflow_savedmodel"

    def __init__(self, tensorflow: Any, session: Any, meta: Any) -> None:
        from google.protobuf.json_format import MessageToDict

        self._session = session
        self.definitions: Mapping[str, Any] = {
            name: MessageToDict(
                meta.signature_def[name], preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
            for name in sorted(meta.signature_def)
        }
        try:
            self.signatures: Mapping[str, Signature] = signatures_of(tensorflow, session, meta)
        except BaseException:
            self.close()
            raise
        default = default_of(self.signatures)
        self.inputs = default.inputs if default else ()
        self.outputs = default.outputs if default else ()
        self.primary = tuple(spec.name for spec in self.outputs)

    def predict(self, inputs: dict[str, Array]) -> Mapping[str, Array]:
        """The default signature; raises ValueError if it refuses these shapes or values."""
        default = default_of(self.signatures)
        return default.predict(inputs) if default else {}

    def close(self) -> None:
        """Frees variables, tables and threads."""
        self._session.close()
        self.signatures = {}
        del self._session
        gc.collect()  # the library's graphs are cycles


def load_library() -> Any:
    """TensorFlow; raises ImportError."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    known = "tensorflow" in sys.modules
    import tensorflow

    if not known:
        logging.getLogger("tensorflow").setLevel(logging.ERROR)
        gc.freeze()  # some 300,000 objects that never go: the collector need not look at them again
    return tensorflow


def _read(folder: Path) -> Any:
    """The graph that is meant for serving; raises Invalid (ModelInvalid)."""
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((folder / FILE).read_bytes())
    tags = [sorted(meta.meta_info_def.tags) for meta in saved.meta_graphs]
    if [TAG] not in tags:
        raise Invalid(f"{folder / FILE} has no graph with the tag {TAG!r}; it has {tags}", reason="ModelInvalid")
    return saved.meta_graphs[tags.index([TAG])]


def _check(meta: Any, folder: Path, options: LoadOptions) -> None:
    """Raises Rejected (UnsafeFormat, UnsafePath) for what no model should do, Invalid if a part is missing."""
    outside = savedmodel.assets_outside(meta)
    if outside:
        raise Rejected(f"{folder} names assets outside of itself: {', '.join(outside)}", reason="UnsafePath")
    operations = savedmodel.forbidden_operations(meta)
    if operations and not options.allow_unsafe_formats:
        raise Rejected(
            f"{folder} has operations that reach out of the model: {', '.join(operations)}. Export it without them, "
            "or allow unsafe formats if you trust its author (--allow-unsafe-formats)",
            reason="UnsafeFormat",
        )
    if savedmodel.has_variables(meta) and not _index(folder).exists():
        raise Invalid(f"{folder} has no variables/variables.index; copy the whole folder", reason="ModelInvalid")


def _index(folder: Path) -> Path:
    return folder / "variables" / "variables.index"


def _start(tensorflow: Any, meta: Any, folder: Path, options: LoadOptions) -> Any:
    """A session with the graph, its variables read and its tables filled."""
    v1 = tensorflow.compat.v1
    graph = tensorflow.Graph()
    with graph.as_default():
        operations = meta.meta_info_def.stripped_op_list
        tensorflow.graph_util.import_graph_def(meta.graph_def, name="", producer_op_list=operations)
    settings = v1.ConfigProto(
        intra_op_parallelism_threads=max(1, options.threads),
        inter_op_parallelism_threads=_IN_CALLERS_THREAD,
        allow_soft_placement=True,
        device_count={"GPU": 0},
    )
    session = v1.Session(graph=graph, config=settings)
    try:
        _initialise(session, meta, folder)
    except BaseException:
        session.close()
        raise
    return session


def _initialise(session: Any, meta: Any, folder: Path) -> None:
    assets = {asset.tensor_info.name: str(folder / "assets" / asset.filename) for asset in meta.asset_file_def}
    saver = meta.saver_def
    if saver.restore_op_name and _index(folder).exists():
        session.run(saver.restore_op_name, {saver.filename_tensor_name: str(_index(folder).with_suffix("")), **assets})
    initialiser = savedmodel.initialiser(meta)
    if initialiser:
        session.run(initialiser, assets)
