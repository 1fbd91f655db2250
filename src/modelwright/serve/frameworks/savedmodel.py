"""What a SavedModel's graph does when it is loaded and asked, and what of that is refused.

A SavedModel is a program: TensorFlow has operations that read and write files, speak to other hosts, end the process
or run Python. Only what the server runs is looked at: signatures, initialisation and the reading of the variables.
The messages are TensorFlow's own (`MetaGraphDef`, `GraphDef`); nothing here needs the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

INIT_OP = "__saved_model_init_op"
_OF_THE_LIBRARY = frozenset({INIT_OP, "__saved_model_train_op"})

_VARIABLES = frozenset({"VarHandleOp", "Variable", "VariableV2"})
_RESTORES = frozenset({"Restore", "RestoreSlice", "RestoreV2"})
_OPERATIONS = """
EagerPyFunc PyFunc PyFuncStateless
ReadFile WriteFile MatchingFiles RecordInput DumpTensor ImportEvent Skipgram FixedUnigramCandidateSampler
Save SaveSlices SaveV2 MergeV2Checkpoints DTensorRestoreV2 LoadAndRemapMatrix GenerateVocabRemapping
FixedLengthRecordReader FixedLengthRecordReaderV2 LMDBReader TFRecordReader TFRecordReaderV2
TextLineReader TextLineReaderV2 WholeFileReader WholeFileReaderV2
CSVDataset CSVDatasetV2 CacheDataset CacheDatasetV2 FixedLengthRecordDataset FixedLengthRecordDatasetV2
LMDBDataset ListSnapshotChunksDataset LoadDataset MatchingFilesDataset SaveDataset SaveDatasetV2
SnapshotChunkDataset SnapshotDataset SnapshotDatasetReader SnapshotDatasetV2 SnapshotNestedDatasetReader
SqlDataset TFRecordDataset TFRecordDatasetV2 TextLineDataset DatasetToTFRecord
ExperimentalCSVDataset ExperimentalDatasetToTFRecord ExperimentalLMDBDataset ExperimentalMatchingFilesDataset
ExperimentalSqlDataset
CalibrationStatisticsSaver CreateSummaryDbWriter CreateSummaryFileWriter
DataServiceDataset DataServiceDatasetV2 DataServiceDatasetV3 DataServiceDatasetV4 DistributedSave
RegisterDataset RegisterDatasetV2 RpcClient RpcServer RpcServerStart
DebugIdentity DebugIdentityV2 DebugIdentityV3 DebugNanCount DebugNumericSummary
DatasetFromGraph MlirPassthroughOp RemoteFusedGraphExecute
Abort FileSystemSetConfiguration
"""
FORBIDDEN = frozenset(_OPERATIONS.split())
# Operations that are harmless unless an attribute names a file: the attribute, and what it may begin with.
_ATTRIBUTES = {
    "PrintV2": ("output_stream", ("stdout", "stderr", "log(")),
    "DecodeProtoV2": ("descriptor_source", ("local://", "bytes://")),
    "EncodeProto": ("descriptor_source", ("local://", "bytes://")),
}


def initialiser(meta: Any) -> str:
    """The name of what initialises tables and resources after the variables are read; empty if there is none."""
    if INIT_OP in meta.signature_def:
        return str(meta.signature_def[INIT_OP].outputs[INIT_OP].name)
    for key in ("saved_model_main_op", "legacy_init_op"):
        for name in meta.collection_def[key].node_list.value if key in meta.collection_def else ():
            return str(name)
    return ""


def signatures(meta: Any) -> dict[str, Any]:
    """The signatures that can be asked for, by name."""
    names = sorted(set(meta.signature_def) - _OF_THE_LIBRARY)
    return {name: meta.signature_def[name] for name in names}


def has_variables(meta: Any) -> bool:
    """Whether there is something to read from the folder `variables`."""
    return any(node.op in _VARIABLES for node in meta.graph_def.node)


def assets_outside(meta: Any) -> list[str]:
    """The files that the model takes for its assets though they are not in its folder `assets`."""
    paths = [PurePosixPath(asset.filename) for asset in meta.asset_file_def]
    return [str(path) for path in paths if path.is_absolute() or ".." in path.parts or not path.parts]


def forbidden_operations(meta: Any) -> list[str]:
    """The operations that reach out of the model, each once."""
    graph = _Graph(meta.graph_def)
    asked = [info.name for signature in signatures(meta).values() for info in signature.outputs.values()]
    restored = _reaching_out(graph.run([meta.saver_def.restore_op_name])) - _RESTORES
    return sorted(_reaching_out(graph.run([*asked, initialiser(meta)])) | restored)


def _reaching_out(nodes: Iterable[Any]) -> set[str]:
    return {node.op for node in nodes if node.op in FORBIDDEN | _RESTORES or _names_a_file(node)}


def _names_a_file(node: Any) -> bool:
    name, allowed = _ATTRIBUTES.get(node.op, ("", ()))
    value = node.attr[name].s.decode(errors="replace") if name in node.attr else ""
    return bool(value) and not value.startswith(allowed)


class _Graph:
    """Finds the nodes that run when some tensors are asked for, in the graph and in the functions that it calls."""

    def __init__(self, graph: Any) -> None:
        self._nodes = {node.name: node for node in graph.node}
        self._functions = {function.signature.name: function for function in graph.library.function}
        self._gradients = {each.function_name: each.gradient_func for each in graph.library.gradient}
        self._interfaces: dict[bytes, list[str]] = {}
        for name, function in self._functions.items():
            if "api_implements" in function.attr:  # the optimiser may take any function of the same interface instead
                self._interfaces.setdefault(function.attr["api_implements"].s, []).append(name)

    def run(self, tensors: Iterable[str]) -> list[Any]:
        """All nodes that these tensors or operations need."""
        nodes = _closure((_node_of(tensor) for tensor in tensors), self._needs)
        reached = [self._nodes[name] for name in nodes if name in self._nodes]
        called = _closure((name for node in reached for name in _called(node)), self._calls)
        bodies = [self._functions[name].node_def for name in called if name in self._functions]
        return [*reached, *(node for body in bodies for node in body)]

    def _needs(self, name: str) -> Iterator[str]:
        node = self._nodes.get(name)
        return (_node_of(tensor) for tensor in node.input) if node is not None else iter(())

    def _calls(self, name: str) -> Iterator[str]:
        function = self._functions.get(name)
        if function is None:
            return
        for node in function.node_def:
            yield from _called(node)
        if name in self._gradients:
            yield self._gradients[name]
        if "api_implements" in function.attr:
            yield from self._interfaces[function.attr["api_implements"].s]


def _closure(start: Iterable[str], following: Callable[[str], Iterable[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(following(name))
    return found


def _node_of(tensor: str) -> str:
    """`^name`, `name:0` and `name` are all of the node `name`."""
    return tensor.removeprefix("^").partition(":")[0]


def _called(node: Any) -> Iterator[str]:
    """The functions that a node may call: by its operation, or by its attributes."""
    yield node.op
    for value in node.attr.values():
        for function in (value.func, *value.list.func):
            yield from _named(function)


def _named(function: Any) -> Iterator[str]:
    if function.name:
        yield function.name
        for value in function.attr.values():
            for inner in (value.func, *value.list.func):
                yield from _named(inner)
