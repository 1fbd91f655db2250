"""A trace as a picture: Mermaid (flowchart) and Graphviz (dot). Whatever names hold, they stay labels."""

from __future__ import annotations

import re
from collections.abc import Sequence

from modelwright.lineage.nodes import Node, Trace

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_PLAIN = re.compile(r"[^A-Za-z0-9 ._/:=@+,()-]")
_LIMIT = 200
_SHAPES = {"Dataset": ("[(", ")]"), "TrainingModel": ("{{", "}}"), "JointInferenceService": ("([", "])")}
_DOT_SHAPES = {"Dataset": "cylinder", "TrainingModel": "hexagon", "File": "note", "JointInferenceService": "component"}


def mermaid(trace: Trace) -> str:
    """A flowchart from left to right (https://mermaid.js.org/syntax/flowchart.html); the root is thick."""
    numbers = {node.id: f"n{number}" for number, node in enumerate(trace.nodes)}
    lines = ["flowchart LR"]
    for node in trace.nodes:
        opening, closing = _SHAPES.get(node.kind, ("[", "]"))
        text = "<br/>".join(_entities(line) for line in label(node))
        lines.append(f'  {numbers[node.id]}{opening}"{text}"{closing}')
    for edge in trace.edges:
        role = _entities(_role(edge.role, edge.by))
        lines.append(f'  {numbers[edge.source]} -->|"{role}"| {numbers[edge.target]}')
    lines += [f"  style {numbers[trace.root]} stroke-width:4px"]
    lines += [f"  style {numbers[node.id]} stroke-dasharray:4" for node in trace.nodes if node.missing]
    return "\n".join(lines) + "\n"


def dot(trace: Trace) -> str:
    """A digraph from left to right (https://graphviz.org/doc/info/lang.html); the root is thick."""
    numbers = {node.id: f"n{number}" for number, node in enumerate(trace.nodes)}
    lines = ["digraph lineage {", "  rankdir=LR;", '  node [shape=box, fontname="sans-serif"];']
    for node in trace.nodes:
        shape = f", shape={_DOT_SHAPES[node.kind]}" if node.kind in _DOT_SHAPES else ""
        style = ", style=dashed" if node.missing else ", penwidth=3" if node.id == trace.root else ""
        text = "\\n".join(_escaped(line) for line in label(node))
        lines.append(f'  {numbers[node.id]} [label="{text}"{shape}{style}];')
    for edge in trace.edges:
        role = _escaped(_role(edge.role, edge.by))
        lines.append(f'  {numbers[edge.source]} -> {numbers[edge.target]} [label="{role}"];')
    return "\n".join([*lines, "}"]) + "\n"


def label(node: Node) -> Sequence[str]:
    """What stands in a box: kind, name, and what identifies it."""
    lines = [node.kind, node.name]
    if node.digest:
        lines.append(short(node.digest))
    if node.missing:
        lines.append("missing")
    lines += [f"{name} {number(value)}" for name, value in list(node.metrics.items())[:3]]
    return [_CONTROL.sub(" ", line[:_LIMIT]) for line in lines]


def short(digest: str) -> str:
    """A digest as people compare it: `sha256:` and twelve digits."""
    algorithm, colon, value = digest.partition(":")
    return f"{algorithm}{colon}{value[:12]}"


def number(value: float) -> str:
    """A metric without noise: four significant digits, whole numbers as such."""
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def _role(role: str, by: str) -> str:
    return _CONTROL.sub(" ", f"{role}, by {by}" if by else role)


def _entities(text: str) -> str:
    """Everything that Mermaid might read as more than text becomes an entity code (`#34;`)."""
    return _PLAIN.sub(lambda found: f"#{ord(found[0])};", text)


def _escaped(text: str) -> str:
    """A quoted string of dot: backslashes would begin an escape such as `\\N`."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
