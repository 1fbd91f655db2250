"""Words on the command line, and lines on the terminal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import typer
import yaml

from modelwright.adapters.kubernetes.faults import Cause, InvalidResource
from modelwright.cli.context import explain
from modelwright.cli.describe import _condition_styles, _order
from modelwright.cli.durations import seconds_of
from modelwright.cli.output import paint, print_json, print_tensors, safe, table, to_yaml
from modelwright.cli.resources import CORE, OURS
from modelwright.cli.units import age, counted, readable, since
from modelwright.cli.wait import parse_wanted
from modelwright.cli.waiting import current_condition, situation
from modelwright.ports.errors import Invalid, Unavailable


@pytest.mark.parametrize(
    ("word", "plural"),
    [
        ("mv", "modelversions"),
        ("modelversion", "modelversions"),
        ("ModelVersion", "modelversions"),
        ("modelversions.model.kubedl.io", "modelversions"),
        ("mv.model.kubedl.io", "modelversions"),
        ("modelversions.v1alpha1.model.kubedl.io", "modelversions"),
        ("infm", "inferencemodels"),
        ("jis", "jointinferenceservices"),
        ("ns", "namespaces"),
        ("events", "events"),
    ],
)
def test_a_kind_has_many_names(word: str, plural: str) -> None:
    assert [known.resource.plural for known in OURS + CORE if known.answers_to(word)] == [plural]


@pytest.mark.parametrize("word", ["modelversions.sedna.io", "deployments", "", "mv.v1.model.kubedl.io"])
def test_other_words_are_none_of_ours(word: str) -> None:
    assert not [known for known in OURS + CORE if known.answers_to(word)]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("5m", 300), ("1h30m", 5400), ("90", 90), ("0.5", 0.5), ("250ms", 0.25), ("0", 0)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 m", "-3s", "5m3", "m", "1d", "nan"])
def test_what_is_no_duration_is_a_usage_error(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        seconds_of(text)


def test_what_to_wait_for_is_read() -> None:
    assert parse_wanted("condition=Ready") == ("Ready", "True")
    assert parse_wanted("condition=Stalled=False") == ("Stalled", "False")
    assert parse_wanted("delete") is None
    for text in ("Ready", "condition", "condition=", "jsonpath={.x}=1"):
        with pytest.raises(typer.BadParameter):
            parse_wanted(text)


def test_a_server_cannot_steer_the_terminal() -> None:
    assert safe("a\x1b[2Jb\rc\x9b1m\u202ed\ne") == "a\\x1b[2Jb\\rc\\x9b1m\\u202ed\\ne"
    assert safe("a\n\tb\x07", lines=True) == "a\n\tb\\x07"
    assert safe("grüße 世界 🦉") == "grüße 世界 🦉"


def test_tables_line_up_by_what_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    table(["NAME", "X"], [["世界", "a"], ["b\n", "Ready"]])
    assert capsys.readouterr().out == "NAME   X\n世界   a\nb\\n    Ready\n"


def test_only_what_a_condition_means_is_painted() -> None:
    def painted(type_: str, status: str) -> list[object]:
        return list(_condition_styles([type_, status, "3m", "Ready", "False"]))

    assert painted("Ready", "True") == [None, "good", None, None, None]
    assert painted("Available", "False")[1] == "bad"
    assert painted("Stalled", "False")[1] is None
    assert painted("Stalled", "True")[1] == "bad"
    assert painted("Reconciling", "True")[1] == "busy"


def test_events_of_the_same_second_stand_in_the_order_in_which_they_were_written() -> None:
    events = [
        {"lastTimestamp": "2024-02-29T12:00:00Z", "reason": reason, "metadata": {"resourceVersion": version}}
        for reason, version in (("Built", "10"), ("Building", "9"))
    ]
    assert [each["reason"] for each in sorted(events, key=_order)] == ["Building", "Built"]


def test_colour_is_for_terminals_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert paint("x", "good") == "x"


def test_json_and_yaml_hold_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"a": "x\x1b[2J\x9b\u202e", "b": ["é\n"]}
    print_json(value)
    text = capsys.readouterr().out
    assert not {"\x1b", "\x9b", "\u202e"} & set(text)
    assert yaml.safe_load(text) == value
    document = to_yaml([value])
    assert not {"\x1b", "\x9b"} & set(document)
    assert yaml.safe_load(document) == value


def test_every_fault_stands_on_its_line() -> None:
    causes = (Cause("spec.a", "Required value"), Cause("", "whole"))
    assert (
        explain(InvalidResource("long", causes), "Model m") == "Model m is invalid:\n  spec.a: Required value\n  whole"
    )
    strict = Invalid('strict decoding error: unknown field "spec.x", unknown field "spec.y"')
    assert explain(strict, "Model m") == "Model m is invalid:\n  spec.x: unknown field\n  spec.y: unknown field"
    assert explain(Invalid("plain")) == "plain"


def test_a_lost_control_plane_says_what_to_do() -> None:
    assert "modelwright up" in explain(Unavailable("cannot be reached", reason="ConnectionFailed"))
    assert "nothing is lost" in explain(Unavailable("closed the connection", reason="ConnectionLost"))


def test_ages_and_sizes_are_for_people() -> None:
    now = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
    assert since("2024-02-29T11:58:55.5Z", now) == "1m4s"
    assert since(None, now) == "unknown"
    assert [age(n) for n in (0, 59, 61, 3600, 90061)] == ["0s", "59s", "1m1s", "1h", "1d1h"]
    assert [readable(n) for n in (0, 999, 1536, 5 * 10**9)] == ["0 B", "999 B", "1.5 kB", "5.0 GB"]
    assert [counted(n, "layer") for n in (0, 1, 2000)] == ["0 layers", "1 layer", "2,000 layers"]


def state(status: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"generation": 2, **metadata}, "status": status}


def ready(observed: int | None = 2) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "False", "reason": "Building", "message": "It is being built."}
    return condition if observed is None else condition | {"observedGeneration": observed}


def test_a_condition_of_an_older_generation_says_nothing() -> None:
    assert current_condition(state({"conditions": [ready()]}), "ready") is not None
    assert current_condition(state({"conditions": [ready(1)]}), "Ready") is None
    assert current_condition(state({"conditions": [ready(None)], "observedGeneration": 1}), "Ready") is None
    assert current_condition(state({"conditions": [ready(None)]}), "Ready") is not None
    assert current_condition(state({}), "Ready") is None


def test_the_situation_of_an_object_fits_a_line() -> None:
    progress = {"bytesDone": 512, "bytesTotal": 2048}
    assert situation(state({"conditions": [ready()], "progress": progress})) == (
        "25% of 2.0 kB  Building: It is being built."
    )
    assert situation(None) == "not there"
    assert situation(state({})) == "nothing is known yet"
    held = state({}, deletionTimestamp="2024-02-29T12:00:00Z", finalizers=["a/b"])
    assert situation(held) == "being deleted, held by a/b"
    assert "suspended" in situation(state({}, annotations={"modelwright.dev/suspend": "true"}))


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        ({"predictions": [4, 9]}, ["{", '  "predictions": [4, 9]', "}"]),
        ({"predictions": []}, ["{", '  "predictions": []', "}"]),
        ({"outputs": [[0.5, None], []]}, ["{", '  "outputs": [', "    [0.5, null],", "    []", "  ]", "}"]),
        ([{"a": "ö\n"}], ["[", "  {", '    "a": "ö\\n"', "  }", "]"]),
        ({"text": "\x1b[31m\u202e"}, ["{", '  "text": "\\u001b[31m\\u202e"', "}"]),
        (7, ["7"]),
    ],
)
def test_an_answer_has_the_numbers_of_a_row_beside_each_other(
    answer: Any, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    print_tensors(answer)
    printed = capsys.readouterr().out
    assert printed.splitlines() == lines
    assert json.loads(printed) == answer
