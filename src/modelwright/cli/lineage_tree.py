"""How a trace is drawn for people: what a thing was made from, and what is made of it, as two trees.

Every node is gone on from once; where it comes up again, it is only named.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from modelwright.cli.output import Style, paint, safe
from modelwright.cli.units import counted, readable
from modelwright.lineage.drawing import number, short
from modelwright.lineage.nodes import Edge, Node, Trace

MAX_CHILDREN = 40
MAX_TEXT = 160

Direction = Literal["up", "down"]

# What stands before a node, seen from the one that leads to it.
_UP = {
    "dataset": "data set",
    "base": "base",
    "training": "trained by",
    "serving": "serves",
    "served": "served before",
    "download": "download of",
    "edge": "edge model",
    "cloud": "cloud model",
    "hardExamples": "hard examples of",
    "packed": "packed from",
    "material": "material",
}
_DOWN = {
    "dataset": "read by",
    "base": "base of",
    "training": "made",
    "version": "version",
    "serving": "served by",
    "served": "served before by",
    "download": "downloaded as",
    "edge": "edge model of",
    "cloud": "cloud model of",
    "hardExamples": "hard examples",
    "packed": "image",
    "material": "material of",
}
_ORDER = tuple(_UP)
_STATUS: dict[str, Style] = {"Ready": "good", "Succeeded": "good", "Failed": "bad", "missing": "bad"}


class Glyphs(NamedTuple):
    """What branches are drawn with."""

    fork: str = "├── "
    corner: str = "└── "
    line: str = "│   "
    space: str = "    "


ASCII = Glyphs("|-- ", "`-- ", "|   ", "    ")


def print_tree(trace: Trace) -> None:
    """To stdout, in the characters that it takes."""
    encoding = sys.stdout.encoding or "ascii"
    try:
        "├│└".encode(encoding)
        glyphs = Glyphs()
    except UnicodeEncodeError:
        glyphs = ASCII
    for line in lines(trace, glyphs):
        print(line.encode(encoding, "backslashreplace").decode(encoding))


def lines(trace: Trace, glyphs: Glyphs | None = None) -> Iterator[str]:
    """The root with what is known of it, then both trees."""
    tree = _Tree(trace, glyphs or Glyphs())
    yield from tree.root()
    yield from tree.below("Made from", "up")
    yield from tree.below("Versions" if trace.root.startswith("model/") else "Used by", "down")
    if trace.cut:
        yield ""
        goes_on = "1 branch goes on" if trace.cut == 1 else f"{trace.cut:,} branches go on"
        yield f"{goes_on}: --depth 0 shows everything"


class _Tree:
    def __init__(self, trace: Trace, glyphs: Glyphs) -> None:
        self._trace, self._glyphs = trace, glyphs
        self._nodes = {node.id: node for node in trace.nodes}
        self._near: dict[Direction, dict[str, list[Edge]]] = {"up": {}, "down": {}}
        for edge in trace.edges:
            self._near["up"].setdefault(edge.target, []).append(edge)
            self._near["down"].setdefault(edge.source, []).append(edge)

    def root(self) -> Iterator[str]:
        node = self._nodes[self._trace.root]
        yield title(node)
        for text in details(self._without_what_the_training_says(node)):
            yield f"    {text}"

    def below(self, heading: str, direction: Direction) -> Iterator[str]:
        """A tree under the root, without recursion: chains may be long."""
        first = self._children(self._trace.root, direction)
        if not first:
            return
        yield ""
        yield paint(heading, "bold")
        seen = {self._trace.root}
        waiting = self._branches(first, direction, "")
        while waiting:
            text, id_, prefix = waiting.pop()
            if not id_ or id_ in seen:
                yield text + (" (above)" if self._children(id_, direction) else "")
                continue
            seen.add(id_)
            yield text
            children = self._children(id_, direction)
            indent = prefix + (self._glyphs.line if children else self._glyphs.space)
            for detail in self._details(id_, direction):
                yield indent + detail
            waiting += self._branches(children, direction, prefix)

    def _details(self, id_: str, direction: Direction) -> Iterator[str]:
        """Of what something was made from, all is told; of what is made of it, what tells it from others."""
        node = self._nodes[id_]
        if direction == "down":
            told = ("id", "kind", "name", "metrics", "serving_version", "policy", "notes")
            node = Node(**{field: getattr(node, field) for field in told})
        elif node.model == self._nodes[self._trace.root].model:
            node = msgspec.structs.replace(node, model="")
        yield from details(self._without_what_the_training_says(node))

    def _without_what_the_training_says(self, version: Node) -> Node:
        """A version repeats what its training was told; where that is shown, once is enough."""
        edges = self._near["up"].get(version.id, ()) if version.kind == "ModelVersion" else ()
        training = next((self._nodes[edge.source] for edge in edges if edge.role == "training"), None)
        if training is None or training.missing:
            return version
        said = {**training.parameters, "frameworkType": training.framework, "workers": str(training.workers)}
        own = {name: value for name, value in version.parameters.items() if said.get(name) != value}
        return msgspec.structs.replace(
            version,
            parameters=own,
            command="" if training.command else version.command,
            source=None if training.source else version.source,
        )

    def _branches(self, edges: list[Edge], direction: Direction, prefix: str) -> list[tuple[str, str, str]]:
        """The lines of these children, the first one last: it is taken from the end."""
        shown = edges[:MAX_CHILDREN]
        left = len(edges) - len(shown)
        branches = []
        for position, edge in enumerate(shown, 1):
            last = position == len(edges)
            id_ = edge.source if direction == "up" else edge.target
            text = f"{prefix}{self._glyphs.corner if last else self._glyphs.fork}{_role(edge, direction)}"
            text += title(self._nodes[id_]) if id_ in self._nodes else safe(id_)
            branches.append((text, id_, prefix + (self._glyphs.space if last else self._glyphs.line)))
        if left:
            branches.append((f"{prefix}{self._glyphs.corner}and {left:,} more: -o json lists them", "", ""))
        return branches[::-1]

    def _children(self, id_: str, direction: Direction) -> list[Edge]:
        found = self._near[direction].get(id_, [])
        return sorted(found, key=lambda edge: _rank(edge, direction))


def title(node: Node) -> str:
    """One line: which, how it is, and what identifies it."""
    kind, _, _ = node.id.partition("/")
    name = f"{kind}/{node.name}" + (f"@{short(node.digest)}" if node.kind == "Image" else "")
    status = "missing" if node.missing else node.status
    parts = [paint(_cut(name), "bold")]
    if status:
        parts.append(paint(safe(status), _STATUS.get(status, "busy")))
    if node.digest and node.kind != "Image":
        parts.append(_cut(short(node.digest)))
    if node.layer:
        parts.append(_cut(node.layer))
    parts += [_cut(uri) for uri in node.uris]
    if node.url:
        parts.append(_cut(node.url))
    return "  ".join(parts)


def details(node: Node) -> Iterator[str]:
    """What else is known of a node, a line for each; none for what says nothing."""
    known = {
        "model": node.model if node.kind in ("ModelVersion", "TrainingModel") else "",
        "image": " ".join(filter(None, [node.image, _contents(node)])) if node.kind == "ModelVersion" else "",
        "base image": node.base_image,
        "serves": node.serving_version,
        "policy": node.policy,
        "created by": node.created_by if not node.created_by.startswith("TrainingModel/") else "",
        "metrics": ", ".join(f"{name} {number(value)}" for name, value in node.metrics.items()),
        "command": node.command,
        "parameters": ", ".join(f"{name}={value}" for name, value in node.parameters.items()),
        "framework": node.framework if node.kind == "TrainingModel" else "",
        "workers": str(node.workers) if node.workers else "",
        "source": " @ ".join(filter(None, [node.source.repo, _revision(node.source.revision)])) if node.source else "",
        "builder": node.builder,
    }
    for name, text in known.items():
        if text:
            yield f"{paint(name, 'dim')} {_cut(text)}"
    for text in node.notes:
        yield f"{paint('note', 'dim')} {_cut(text)}"


def _contents(node: Node) -> str:
    files = counted(node.files, "file") if node.files else ""
    size = readable(node.size_bytes) if node.size_bytes else ""
    told = ", ".join(filter(None, [files, size]))
    return f"({told})" if told else ""


def _revision(revision: str) -> str:
    return revision[:12] if re.fullmatch(r"[0-9a-f]{40,64}", revision) else revision


def _role(edge: Edge, direction: Direction) -> str:
    words = (_UP if direction == "up" else _DOWN).get(edge.role, edge.role)
    how = f" (by {edge.by})" if edge.by else ""
    return paint(f"{safe(words + how)}: ", "dim")


def _rank(edge: Edge, direction: Direction) -> tuple[int, list[tuple[int, str]]]:
    """By role, then by name, numbers in names as numbers."""
    name = edge.source if direction == "up" else edge.target
    parts = re.findall(r"\d+|\D+", name)
    natural = [(int(part), "") if part.isdecimal() and len(part) < 18 else (-1, part) for part in parts]
    return (_ORDER.index(edge.role) if edge.role in _ORDER else len(_ORDER), natural)


def _cut(text: str) -> str:
    shown = safe(text)
    return shown if len(shown) <= MAX_TEXT else f"{shown[: MAX_TEXT - 3]}..."
