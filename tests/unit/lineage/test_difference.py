"""How two versions differ, and how that is told."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from modelwright.api.kinds import decode
from modelwright.api.model_version import ModelVersion
from modelwright.cli.diff_text import MAX_FILES, print_text
from modelwright.lineage.difference import Change, ChangedFile, Difference, File, Files, Layers, Metric, difference

HEX = "ab" * 32


def version(name: str, *, status: Any = None, **spec: Any) -> ModelVersion:
    value = {
        "metadata": {"name": name},
        "spec": {
            "modelName": "digits",
            "imageRepo": "hub/digits",
            "storage": {"localStorage": {"path": "/m", "nodeName": "here"}},
            **spec,
        },
        "status": {"imageDigest": f"sha256:{HEX}", "sizeBytes": 1000, "fileCount": 1, **(status or {})},
    }
    return decode(ModelVersion, json.dumps(value).encode())


OLD = version(
    "v1",
    createdBy="ann",
    lineage={
        "parameters": {"lr": "0.1", "gone": "x", "HF_TOKEN": "canary-1", "command": "train --a"},
        "metrics": {"loss": 1.0, "claimed": 2.0},
        "datasets": [{"name": "d", "digest": f"sha256:{HEX}"}, {"name": "same", "uri": "file:///same"}],
        "source": {"repo": "https://me:pass@code.test/a", "revision": "1"},
        "parents": ["b", "a"],
    },
    status={"metrics": {"loss": 0.5, "accuracy": 0.9}},
)
NEW = version(
    "v2",
    baseImage="busybox",
    lineage={
        "parameters": {"lr": "0.2", "new": "y", "HF_TOKEN": "canary-2", "command": "train --b"},
        "datasets": [{"name": "d", "digest": f"sha256:{'cd' * 32}"}, {"name": "same", "uri": "file:///same"}],
        "source": {"repo": "https://you:word@code.test/a", "revision": "2"},
        "parents": ["a", "b"],
    },
    status={"metrics": {"loss": 0.25, "accuracy": 0.9}},
)


def test_all_that_differs_is_told_and_nothing_else() -> None:
    told = difference(OLD, NEW)
    assert told.changes == (
        Change(name="createdBy", before="ann"),
        Change(name="command", before="train --a", after="train --b"),
        Change(name="revision", before="1", after="2"),
        Change(name="baseImage", after="busybox"),
    )
    assert told.metrics == (
        Metric(name="accuracy", before=0.9, after=0.9, difference=0.0),
        Metric(name="claimed", before=2.0),
        Metric(name="loss", before=0.5, after=0.25, difference=-0.25),
    )
    assert told.parameters == (
        Change(name="HF_TOKEN", before="(not shown)", after="(not shown)"),
        Change(name="gone", before="x"),
        Change(name="lr", before="0.1", after="0.2"),
        Change(name="new", after="y"),
    )
    assert told.datasets == (Change(name="d", before=f"sha256:{HEX}", after=f"sha256:{'cd' * 32}"),)
    assert "canary" not in msgspec.json.encode(told).decode()


def test_a_version_does_not_differ_from_itself() -> None:
    told = difference(OLD, OLD)
    assert (told.changes, told.parameters, told.datasets) == ((), (), ())
    assert all(not metric.difference for metric in told.metrics)


def test_versions_that_say_nothing_can_be_compared() -> None:
    told = difference(version("a"), version("b"))
    assert (told.changes, told.metrics, told.parameters, told.datasets) == ((), (), (), ())


FILES = Files(
    added=(File(path="new.txt", size_bytes=3, digest=f"sha256:{HEX}"),),
    removed=(File(path="old\x1b[2J", size_bytes=2000, digest=f"sha256:{HEX}"),),
    changed=(
        ChangedFile(
            path="weights.bin",
            before=File(path="weights.bin", size_bytes=9_000_000, layer=f"sha256:{'11' * 32}"),
            after=File(path="weights.bin", size_bytes=9_500_000, layer=f"sha256:{'22' * 32}"),
        ),
    ),
    layers=Layers(1, 700, 1, 9_000_000, 2, 9_500_000),
)


def told_of(value: Difference, capsys: pytest.CaptureFixture[str]) -> str:
    print_text(value)
    return capsys.readouterr().out


def test_the_text_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    text = told_of(msgspec.structs.replace(difference(OLD, NEW), files=FILES), capsys)
    assert [re.sub(" {3,}", "   ", line.rstrip()) for line in text.splitlines()] == [
        "   v1   v2",
        "image   sha256:abababababab (1.0 kB, 1 file)   sha256:abababababab (1.0 kB, 1 file)",
        "created by   ann   -",
        "command   train --a   train --b",
        "revision   1   2",
        "base image   -   busybox",
        "",
        "METRIC   v1   v2   DIFFERENCE",
        "accuracy   0.9   0.9   same",
        "claimed   2   -   -",
        "loss   0.5   0.25   -0.25",
        "",
        "PARAMETER   v1   v2",
        "HF_TOKEN   (not shown)   (not shown)",
        "gone   x   -",
        "lr   0.1   0.2",
        "new   -   y",
        "",
        "DATA SET   v1   v2",
        "d   sha256:abababababab   sha256:cdcdcdcdcdcd",
        "",
        "Files: 1 added, 1 removed, 1 changed; 1 layer shared (700 B), 2 new layers (9.5 MB)",
        "+ new.txt  3 B  sha256:abababababab",
        "- old\\x1b[2J  2.0 kB  sha256:abababababab",
        "~ weights.bin  9.0 MB -> 9.5 MB  layer sha256:111111111111 -> layer sha256:222222222222",
    ]


def test_files_that_cannot_be_compared_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    told = msgspec.structs.replace(difference(OLD, NEW), files_unknown="v2 has no image yet")
    assert told_of(told, capsys).endswith("Files: not compared: v2 has no image yet\n")


def test_the_same_files_are_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    files = Files(added=(), removed=(), changed=(), layers=Layers(2, 5, 0, 0, 0, 0))
    text = told_of(msgspec.structs.replace(difference(OLD, OLD), files=files), capsys)
    assert text.endswith("Files: the same; 2 layers shared (5 B), 0 new layers (0 B)\n")


def test_many_files_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    many = tuple(File(path=f"{n:04}", size_bytes=1, digest="sha256:1") for n in range(MAX_FILES + 5))
    files = Files(added=many, removed=(), changed=(), layers=Layers(0, 0, 1, 1, 1, 1))
    text = told_of(msgspec.structs.replace(difference(OLD, NEW), files=files), capsys)
    assert text.endswith("and 5 more: -o json lists them\n")


def test_the_document_keeps_its_keys() -> None:
    document = json.loads(msgspec.json.encode(msgspec.structs.replace(difference(OLD, NEW), files=FILES)))
    assert list(document) == [
        "apiVersion",
        "kind",
        "from",
        "to",
        "changes",
        "metrics",
        "parameters",
        "datasets",
        "files",
        "filesUnknown",
    ]
    assert document["files"]["changed"][0]["from"]["sizeBytes"] == 9_000_000
    assert document["files"]["layers"]["onlyToBytes"] == 9_500_000
    assert document["metrics"][2] == {"name": "loss", "from": 0.5, "to": 0.25, "difference": -0.25}
