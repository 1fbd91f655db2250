"""Traces as trees, Mermaid and dot: names may hold anything, and stay names."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.lineage.make import graph, joint, served, training, version
from tests.unit.lineage.test_graph import story

from modelwright.cli.lineage_tree import ASCII, MAX_CHILDREN, lines, print_tree
from modelwright.lineage.drawing import dot, label, mermaid, number, short
from modelwright.lineage.nodes import Edge, Node, Trace

HOSTILE = '"] --> x; `evil` <script>#quot;\\N\n\x1b[31m\u202e{{|}}%% end'


def tree(trace: Trace, **more: Any) -> str:
    return "\n".join(lines(trace, **more))


def of_mermaid(text: str) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """Labels by node, and edges, of a flowchart; every line must be one that we know."""
    head, *rest = text.splitlines()
    assert head == "flowchart LR"
    nodes: dict[str, str] = {}
    edges: list[tuple[str, str, str]] = []
    for line in rest:
        node = re.fullmatch(r'  (n\d+)(?:\["([^"]*)"\]|\[\("([^"]*)"\)\]|\{\{"([^"]*)"\}\}|\(\["([^"]*)"\]\))', line)
        edge = re.fullmatch(r'  (n\d+) -->\|"([^"]*)"\| (n\d+)', line)
        if node:
            nodes[node[1]] = decoded(next(group for group in node.groups()[1:] if group is not None))
        elif edge:
            edges.append((edge[1], decoded(edge[2]), edge[3]))
        else:
            assert re.fullmatch(r"  style n\d+ stroke-(width:4px|dasharray:4)", line), line
    return nodes, edges


def decoded(text: str) -> str:
    """Entity codes as characters; what is left must be harmless."""
    plain = text.replace("<br/>", "\n")
    assert not re.search(r"[<>`\"\[\]{}|;]", re.sub(r"#\d+;", "", plain)), text
    return re.sub(r"#(\d+);", lambda found: chr(int(found[1])), plain)


def of_dot(text: str) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """Labels by node, and edges, of a digraph."""
    quoted = r'"((?:[^"\\]|\\.)*)"'
    first, *rest, last = text.splitlines()
    assert (first, last) == ("digraph lineage {", "}")
    nodes: dict[str, str] = {}
    edges: list[tuple[str, str, str]] = []
    for line in rest[2:]:
        node = re.fullmatch(rf"  (n\d+) \[label={quoted}((?:, \w+=\w+)*)\];", line)
        edge = re.fullmatch(rf"  (n\d+) -> (n\d+) \[label={quoted}\];", line)
        assert node or edge, line
        if node:
            nodes[node[1]] = re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], node[2])
        elif edge:
            edges.append((edge[1], re.sub(r"\\(.)", r"\1", edge[3]), edge[2]))
    return nodes, edges


def agrees_with_graphviz(text: str) -> bool:
    """By the real program, where it is installed."""
    program = shutil.which("dot")
    if program is None:
        return True
    return subprocess.run([program, "-Tplain"], input=text.encode(), capture_output=True).returncode == 0


def test_both_pictures_hold_every_node_and_edge() -> None:
    trace = graph(**story()).trace("modelversion/v2")
    for nodes, edges in (of_mermaid(mermaid(trace)), of_dot(dot(trace))):
        assert [nodes[f"n{at}"] for at, _ in enumerate(trace.nodes)] == ["\n".join(label(node)) for node in trace.nodes]
        numbers = {node.id: f"n{at}" for at, node in enumerate(trace.nodes)}
        assert edges == [(numbers[edge.source], edge.role, numbers[edge.target]) for edge in trace.edges]
    assert agrees_with_graphviz(dot(trace))


TEXT = st.text(st.characters(codec="utf-8"), max_size=30) | st.just(HOSTILE)


@settings(max_examples=100)
@given(name=TEXT, other=TEXT, role=TEXT)
def test_no_name_breaks_out_of_a_picture_or_steers_a_terminal(name: str, other: str, role: str) -> None:
    nodes = (
        Node(id="modelversion/a", kind="ModelVersion", name=name, digest=other, metrics={other: 1.0}, status=role),
        Node(id="dataset/b", kind="Dataset", name=other, uris=(name,), missing=True, notes=(role,)),
    )
    trace = Trace(root="modelversion/a", nodes=nodes, edges=(Edge("dataset/b", "modelversion/a", role, name),))
    for picture, parsed in ((mermaid(trace), of_mermaid), (dot(trace), of_dot)):
        found, edges = parsed(picture)
        assert list(found) == ["n0", "n1"]
        assert len(edges) == 1
        assert picture.isprintable() or "\n" in picture
    text = tree(trace)
    assert all(line.isprintable() for line in text.replace("\n", " ").splitlines() if line.isascii())
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text + mermaid(trace) + dot(trace))


def test_a_hostile_name_is_a_label_and_nothing_else() -> None:
    trace = Trace(root="x/y", nodes=(Node(id="x/y", kind="Dataset", name=HOSTILE),))
    assert "evil" in of_mermaid(mermaid(trace))[0]["n0"]
    assert "evil" in of_dot(dot(trace))[0]["n0"]
    assert agrees_with_graphviz(dot(trace))


def test_the_tree_of_a_version_tells_its_story() -> None:
    assert (
        tree(graph(**story()).trace("modelversion/v2"))
        == """\
modelversion/v2  Ready  sha256:abababababab
    model digits
    image hub/digits:v2 (2 files, 1.2 MB)
    metrics claimed 1

Made from
└── trained by: trainingmodel/v2  Succeeded
    │   command python train.py --epochs 3
    │   parameters HF_TOKEN=(not shown), SEED=7
    │   workers 2
    │   source https://code.test/train @ 7fd1a60b01f9
    ├── data set: dataset/digits  sha256:abababababab  https://data.test/digits.csv
    └── base: modelversion/v1  Ready  sha256:abababababab
            image hub/digits:v1 (2 files, 1.2 MB)
            created by ann

Used by
└── served by: inferencemodel/cloud  Pending  cloud
    └── cloud model of: jointinferenceservice/both  EdgeModelNotReady
            policy confidence"""
    )


def test_the_tree_is_plain_where_the_terminal_is() -> None:
    text = tree(graph(**story()).trace("jointinferenceservice/both"), glyphs=ASCII)
    assert text.isascii()
    assert "|-- edge model: inferencemodel/edge" in text
    assert "`-- cloud model: inferencemodel/cloud" in text


def test_what_comes_up_again_is_only_named() -> None:
    circle = [version(name, lineage={"parents": [parent]}) for name, parent in (("a", "b"), ("b", "a"))]
    text = tree(graph(versions=circle).trace("modelversion/a"))
    assert text.count("base: modelversion/b") == 1
    assert "base: modelversion/a  Ready  sha256:abababababab (above)" in text
    diamond = [
        version("top"),
        version("left", lineage={"parents": ["top"]}),
        version("right", lineage={"parents": ["top"]}),
        version("end", lineage={"parents": ["left", "right"]}),
    ]
    text = tree(graph(versions=diamond).trace("modelversion/end"))
    assert text.count("base: modelversion/top") == 2
    assert text.count("hub/digits:top") == 1


def test_a_long_chain_is_drawn_and_one_that_is_cut_says_so() -> None:
    chain = [version(f"v{n}", lineage={"parents": [f"v{n - 1}"]}) for n in range(1, 3000)]
    found = graph(versions=chain)
    assert tree(found.trace("modelversion/v2999")).count("base: ") == 2999
    assert tree(found.trace("modelversion/v1500", 3)).endswith("2 branches go on: --depth 0 shows everything")
    assert tree(found.trace("modelversion/v2999", 3)).endswith("1 branch goes on: --depth 0 shows everything")


def test_many_children_are_counted_and_numbers_are_sorted_as_numbers() -> None:
    many = [version(f"v{n}") for n in range(MAX_CHILDREN + 7)]
    text = tree(graph(versions=many, models=[{"metadata": {"name": "digits"}}]).trace("model/digits"))
    assert "Versions" in text
    assert text.index("modelversion/v9 ") < text.index("modelversion/v10 ")
    assert text.endswith("└── and 7 more: -o json lists them")


def test_versions_say_what_a_training_that_is_gone_cannot() -> None:
    made = {"trainingModel": "gone", "parameters": {"command": "python x", "lr": "1"}}
    text = tree(graph(versions=[version("v", lineage=made)]).trace("modelversion/v"))
    assert "command python x" in text
    assert "parameters lr=1" in text
    assert "trainingmodel/gone  missing" in text


def test_long_texts_are_cut() -> None:
    text = tree(graph(trainings=[training("t", args=["x" * 5000])]).trace("trainingmodel/t"))
    assert max(map(len, text.splitlines())) < 200


def test_what_nobody_uses_has_no_empty_headings() -> None:
    assert (
        tree(graph(versions=[version("v")]).trace("modelversion/v")).splitlines()[-1]
        == "    image hub/digits:v (2 files, 1.2 MB)"
    )


def test_a_terminal_without_unicode_still_gets_its_tree(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io
    import sys

    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    print_tree(graph(versions=[version("v", createdBy="Zoë")]).trace("modelversion/v"))
    stream.flush()
    assert b"created by Zo\\xeb" in stream.detach().getvalue()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.95312, "0.9531"), (3.0, "3"), (1e20, "1e+20"), (0.0, "0"), (-0.5, "-0.5"), (123456.7, "1.235e+05")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


def test_digests_are_short() -> None:
    assert (short("sha256:" + "ab" * 32), short("odd")) == ("sha256:abababababab", "odd")


def test_serving_and_policies_are_told_downstream() -> None:
    found = graph(
        versions=[version("v")],
        served=[served("s", modelVersion="v", status={"servingVersion": "v", "url": "http://127.0.0.1:9/v1/models/s"})],
        joint=[joint("j", {"name": "s"}, {"name": "s"}, url="http://127.0.0.1:8/v1/models/j")],
    )
    text = tree(found.trace("modelversion/v"))
    assert "serves v" in text
    assert "edge model of: jointinferenceservice/j  Pending  http://127.0.0.1:8/v1/models/j" in text
    assert "cloud model of: jointinferenceservice/j" in text
    assert msgspec.json.encode(found.trace("modelversion/v"))
