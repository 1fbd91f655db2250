"""Reads manifests: YAML with several documents, JSON, lists, folders, standard input."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from modelwright.ports.errors import Invalid, NotFound, Rejected

SUFFIXES = (".yaml", ".yml", ".json")
MAX_BYTES = 64 << 20


class Manifest(msgspec.Struct, frozen=True):
    """One object, and where it was read, for messages."""

    body: dict[str, Any]
    source: str

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def api_version(self) -> str:
        return str(self.body["apiVersion"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"].get("namespace") or "")


def read_manifests(files: list[Path]) -> list[Manifest]:
    """Every object in files and folders, `-` for standard input, in order. Raises Invalid, NotFound, Rejected."""
    manifests = [manifest for path in files for manifest in _read(path)]
    if not manifests:
        raise Invalid(f"no object in {', '.join(map(_spelled, files))}", reason="NoObjects")
    return manifests


def _read(path: Path) -> Iterator[Manifest]:
    if str(path) == "-":
        yield from _objects(sys.stdin.buffer.read(MAX_BYTES + 1), _spelled(path))
        return
    if not path.exists():
        raise NotFound(f"{path} does not exist", reason="FileNotFound")
    for file in _files(path) if path.is_dir() else [path]:
        try:
            with file.open("rb") as stream:
                content = stream.read(MAX_BYTES + 1)
        except OSError as fault:
            raise Invalid(f"{file} cannot be read: {fault.strerror}", reason="FileUnreadable") from None
        yield from _objects(content, str(file))


def _spelled(path: Path) -> str:
    """What a file is called in messages."""
    if str(path) == "-":
        return "standard input"
    return f"{path}/*{{{','.join(SUFFIXES)}}}" if path.is_dir() else str(path)


def _files(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.iterdir()):
        if file.suffix in SUFFIXES and not file.is_dir():
            if not file.resolve().is_relative_to(folder.resolve()):
                raise Rejected(f"{file} is a link that leads out of {folder}", reason="LinkOutside")
            yield file


def _objects(content: bytes, source: str) -> Iterator[Manifest]:
    if len(content) > MAX_BYTES:
        raise Invalid(f"{source} has more than {MAX_BYTES} bytes", reason="TooLarge")
    for number, document in enumerate(_documents(content, source), 1):
        if document is None:
            continue
        where = f"{source}, document {number}"
        items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else None
        for item in items if isinstance(items, list) else [document]:
            yield Manifest(_checked(item, where), where)


def _documents(content: bytes, source: str) -> list[Any]:
    try:
        documents = _parsed(content.decode("utf-8-sig"))
        json.dumps(documents, ensure_ascii=False, default=str).encode()
        return documents
    except UnicodeEncodeError:  # an escape may write half of a surrogate pair
        problem = "it has an escape such as \\ud800, half of a character, which is no text"
        raise Invalid(f"{source} cannot be read: {problem}", reason="NotYaml") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as fault:
        raise Invalid(f"{source} cannot be read: {_one_line(fault)}", reason="NotYaml") from None


def _parsed(text: str) -> list[Any]:
    if text.lstrip().startswith("{"):
        with contextlib.suppress(json.JSONDecodeError):  # flow-style YAML begins so, too
            return [json.loads(text, object_pairs_hook=_no_duplicates)]
    return list(yaml.load_all(text, _Loader))


def _checked(value: Any, where: str) -> dict[str, Any]:
    """The object with what every object needs. Raises Invalid."""
    if not isinstance(value, dict):
        raise Invalid(f"{where}: an object is expected, not {type(value).__name__}", reason="NotAnObject")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise Invalid(f"{where}: {field} is missing", reason="NotAnObject")
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise Invalid(f"{where}: metadata.name is missing", reason="NotAnObject")
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice!r} stands twice in one object")
    return mapping


def _one_line(fault: Exception) -> str:
    if isinstance(fault, yaml.MarkedYAMLError) and fault.problem_mark is not None:
        mark = fault.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {fault.problem}"
    return re.sub(r"\s+", " ", str(fault))


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: no dates, no sixties (`12:30` is text), names are text, none stands twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - what SafeLoader calls it
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in ("bool", "null", "merge")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            name = self._name(key)
            if name in seen:
                problem = f"{name!r} stands twice in one object"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(name)
        self.flatten_mapping(node)  # now, so that a merged field may be overridden without standing twice
        return {self._name(key): self.construct_object(value, deep=deep) for key, value in node.value}

    def _name(self, key: yaml.Node) -> str:
        name = self.construct_object(key, deep=True)
        if not isinstance(name, str | bool | int):
            raise yaml.constructor.ConstructorError(None, None, "the name of a field must be text", key.start_mark)
        return str(name).lower() if isinstance(name, bool) else str(name)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^[-+]?(0b[01_]+|0[0-7_]*|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?((\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|\.(inf|Inf|INF))$|^\.(nan|NaN|NAN)$"),
    list("-+0123456789."),
)
