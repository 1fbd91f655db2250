"""Runtimes of an admin: YAML files in a folder, one runtime in each document, read again as they change.

What is wrong in a file is said for the framework that it speaks of, and for nobody else; a framework whose template
cannot be used is not served by the built-in one either, which would replace every server that runs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from modelwright.adapters.kubernetes.servers.catalogue import (
    IN_COMMANDS,
    IN_PATHS,
    PLACEHOLDER,
    SERVER_ARGS,
    SERVER_COMMAND,
    SERVER_LIVE,
    SERVER_READY,
    Fault,
    FixedCatalogue,
    Runtime,
    unknown_placeholders,
)
from modelwright.ports.errors import Invalid
from modelwright.ports.serving import Layout
from modelwright.ports.workloads import Resources

SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 1 << 20
"""More than a ConfigMap can hold."""
FRAMEWORK = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
IMAGE = re.compile(r"[^\s@]+(@sha256:[0-9a-f]{64})?")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
QUANTITY = re.compile(r"\d+(\.\d+)?([KMGTPE]i|[mkMGTPE])?", re.ASCII)

log = logging.getLogger(__name__)
State = tuple[tuple[str, int, int, int], ...]


class _Amounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class _Template(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    framework: str
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    layout: Layout = "plain"
    ready_path: str = ""
    live_path: str = ""
    resources: _Amounts = _Amounts()


class FolderCatalogue:
    """The built-in runtimes, and an admin's in a folder, which win. A folder that is not there is an empty one."""

    def __init__(self, folder: Path, builtin: FixedCatalogue) -> None:
        self._folder = folder
        self._builtin = builtin
        self._seen: State | None = None
        self._current = builtin

    @property
    def frameworks(self) -> frozenset[str]:
        return self._look().frameworks

    @property
    def secured(self) -> frozenset[str]:
        return self._look().secured

    def runtime(self, framework: str) -> Runtime:
        """How a framework is served. Raises NotFound (FrameworkUnavailable), Invalid (RuntimeInvalid)."""
        return self._look().runtime(framework)

    def fault(self, framework: str) -> Fault | None:
        return self._look().fault(framework)

    def _look(self) -> FixedCatalogue:
        state = folder_state(self._folder)
        if state != self._seen:
            self._current, self._seen = read_folder(self._folder, self._builtin), state
            for fault in self._current.faults.values():
                log.warning("the runtime for frameworkType %s is not usable: %s", fault.framework, fault.message)
            log.info("runtimes: %s", ", ".join(sorted(self._current.runtimes)))
        return self._current


def folder_state(folder: Path) -> State:
    """What tells whether a file has changed; a ConfigMap's files are links, all replaced at once."""
    found = []
    for path in _files(folder):
        try:
            state = path.stat()
        except OSError:
            found.append((path.name, 0, 0, 0))
        else:
            found.append((path.name, state.st_ino, state.st_mtime_ns, state.st_size))
    return tuple(found)


def read_folder(folder: Path, builtin: FixedCatalogue) -> FixedCatalogue:
    """The built-in runtimes, and those in the folder's files."""
    runtimes: dict[str, Runtime] = {}
    faults: dict[str, Fault] = {}
    for path in _files(folder):
        for found in read_file(path):
            name = found.framework
            if isinstance(found, Fault):
                faults.setdefault(name, found)
            elif name in runtimes:
                faults[name] = Fault(name, f"{path.name}: there is another template for it; remove one")
            else:
                runtimes[name] = found
    wanted = {**builtin.runtimes, **runtimes}
    return FixedCatalogue({name: runtime for name, runtime in wanted.items() if name not in faults}, faults)


def read_file(path: Path) -> list[Runtime | Fault]:
    """The runtimes in one file. A fault that no framework can be told of is that of the file's name."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            return [Fault(path.stem, f"{path.name} is longer than {MAX_BYTES} bytes")]
        documents = list(yaml.load_all(content, _Loader))
    except (OSError, UnicodeDecodeError, RecursionError, ValueError, yaml.YAMLError) as error:
        return [Fault(path.stem, f"{path.name} cannot be read: {_told(error)}")]
    found = [_read(document, path) for document in documents if document is not None]
    return found or [Fault(path.stem, f"{path.name} is empty")]


def parse(document: Any) -> Runtime:
    """A runtime from what a document holds. Raises Invalid (RuntimeInvalid), with the field."""
    try:
        template = msgspec.convert(document, _Template)
    except msgspec.ValidationError as error:
        raise Invalid(_without_root(str(error)), reason="RuntimeInvalid") from None
    if problems := "; ".join(_problems(template)):
        raise Invalid(problems, reason="RuntimeInvalid")
    ours = template.layout == "modelwright"
    return Runtime(
        framework=template.framework,
        image=template.image,
        command=template.command or (SERVER_COMMAND if ours else ()),
        args=((*SERVER_ARGS, *template.args) if ours and not template.command else template.args),
        env=template.env,
        layout=template.layout,
        ready_path=template.ready_path or (SERVER_READY if ours else ""),
        live_path=template.live_path or (SERVER_LIVE if ours else ""),
        resources=Resources(_amounts(template.resources.requests), _amounts(template.resources.limits)),
    )


def _read(document: Any, path: Path) -> Runtime | Fault:
    name = document.get("framework") if isinstance(document, dict) else None
    try:
        return parse(document)
    except Invalid as error:
        return Fault(name if isinstance(name, str) and name else path.stem, f"{path.name}: {error.message}")


def _problems(template: _Template) -> Iterator[str]:
    if not FRAMEWORK.fullmatch(template.framework):
        yield f"framework: {template.framework!r} is not a name of letters, digits, '.', '_' and '-', 63 at most"
    if not IMAGE.fullmatch(template.image) or "://" in template.image:
        yield f"image: {template.image!r} is not an image such as registry.example/server:1.0"
    if template.layout != "modelwright" and not template.ready_path:
        yield "readyPath is missing: it says when the model is loaded, as no open port can"
    for name in template.env:
        if not VARIABLE.fullmatch(name):
            yield f"env: {name!r} is not a variable's name"
    yield from _paths_problems(template)
    yield from _placeholder_problems(template)
    for field, amounts in (("requests", template.resources.requests), ("limits", template.resources.limits)):
        for name, amount in amounts.items():
            if not QUANTITY.fullmatch(str(amount)):
                yield f"resources.{field}.{name}: {amount!r} is not a quantity such as 500m or 1Gi"


def _paths_problems(template: _Template) -> Iterator[str]:
    for field, path in (("readyPath", template.ready_path), ("livePath", template.live_path)):
        if path and (not path.startswith("/") or len(path) > 1000 or re.search(r"[\s\x00-\x1f]", path)):
            yield f"{field}: {path[:100]!r} is not a path such as /health/ready"


def _placeholder_problems(template: _Template) -> Iterator[str]:
    in_commands = IN_COMMANDS | frozenset(template.env)
    texts: list[tuple[str, str, frozenset[str]]] = [
        *((f"command[{place}]", word, in_commands) for place, word in enumerate(template.command)),
        *((f"args[{place}]", word, in_commands) for place, word in enumerate(template.args)),
        *((f"env.{name}", value, in_commands) for name, value in template.env.items()),
        ("readyPath", template.ready_path, IN_PATHS),
        ("livePath", template.live_path, IN_PATHS - {"VERSION"}),
    ]
    for field, text, known in texts:
        for unknown in unknown_placeholders(text, known):
            there = ", ".join(f"$({name})" for name in sorted(known))
            yield f"{field}: {unknown} is no placeholder; there is: {there}"
    if any(match[1] == "" for _, text, _ in texts for match in PLACEHOLDER.finditer(text)):
        yield "a placeholder is empty: $()"


def _amounts(amounts: dict[str, str | int | float]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _files(folder: Path) -> list[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return []
    return [path for path in found if path.suffix in SUFFIXES and not path.name.startswith(".")]


def _without_root(message: str) -> str:
    """msgspec's words, with the field as an admin knows it."""
    return message.replace(" - at `$.", " - at `").replace(" - at `$`", "").replace("`$.", "`")


def _told(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return re.sub(r"\s+", " ", str(error)) or type(error).__name__


class _Loader(yaml.SafeLoader):
    """YAML in which no name stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            name = getattr(key, "value", None)
            if isinstance(name, str) and name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{name!r} stands twice", key.start_mark)
            seen.add(name if isinstance(name, str) else id(key))
        return super().construct_mapping(node, deep=deep)
