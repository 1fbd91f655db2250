from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwright.adapters.embedded.history import Entry
from modelwright.adapters.embedded.selectors import selector
from modelwright.ports.errors import Invalid

LABELS = {"team": "vision", "example.com/stage": "beta", "empty": ""}


def entry(labels: dict[str, str] | None = None) -> Entry:
    metadata = {"name": "a", "namespace": "default", "labels": labels}
    return Entry(msgspec.json.encode({"metadata": metadata, "status": {"phase": "Active", "count": 3}}), 1, "uid", ())


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True), (" ", True), (",", True), ("team", True), ("!team", False), ("! other", True), ("other", False),
        ("team=vision", True), ("team==vision", True), ("team = audio", False), ("team!=audio", True),
        ("other!=x", True), ("other=x", False), ("empty=", True), ("team=", False), ("empty", True),
        ("team in (audio, vision)", True), ("team notin (audio,vision)", False), ("other notin (x)", True),
        ("other in (x)", False), ("empty in ()", True), ("team=vision,example.com/stage in (alpha,beta)", True),
        ("team in (vision),!other", True), ("team=vision,other", False),
    ],
)  # fmt: skip
def test_label_selectors(text: str, *, matches: bool) -> None:
    assert selector(text, "").matches(entry(LABELS)) is matches


def test_an_object_without_labels_matches_what_is_absent() -> None:
    assert selector("!team", "").matches(entry())
    assert not selector("team", "").matches(entry())


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("metadata.name=a", True), ("metadata.name==b", False), ("metadata.name!=b", True),
        ("metadata.name=a,metadata.namespace=other", False), ("status.phase=Active", True), ("status.count=3", True),
        ("status.other=", True),
    ],
)  # fmt: skip
def test_field_selectors(text: str, *, matches: bool) -> None:
    fields = frozenset({"status.phase", "status.count", "status.other"})
    assert selector("", text, fields).matches(entry()) is matches


@pytest.mark.parametrize("text", ["a b", "a in b", "a in (b", "=b", "a=b=c", "a=b)", "a in (b) c", "(", "!", "a>1"])
def test_what_is_no_label_selector_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="label selector"):
        selector(text, "")


@pytest.mark.parametrize("text", ["metadata.name", "spec.x=1", "metadata.labels=x", "a=b=c", "metadata.name in (a)"])
def test_what_is_no_field_selector_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="field"):
        selector("", text)


@given(st.text(alphabet="ab=!(), \tin", max_size=40))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    try:
        selector(text, text).matches(entry(LABELS))
    except Invalid as error:
        assert error.message


@pytest.mark.parametrize("text", ["," * 60_000, "(" * 60_000, " " * 60_000 + "x y", "a" * 60_000 + "(", "!" * 60_000])
def test_long_hostile_text_is_read_in_linear_time(text: str) -> None:
    """Nothing is measured: with quadratic work this would not end."""
    try:
        selector(text, "")
    except Invalid:
        pass
