"""What was applied becomes so, what was taken out goes, what others set stays; and kubectl can take turns."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from modelwright.cli.merge import LAST_APPLIED, annotated, last_applied, three_way

JSON = dict[str, Any]

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3)
without_null = st.booleans() | st.integers(-3, 3) | st.text(max_size=3)
keys = st.sampled_from("abcd")


def objects(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[JSON]:
    values = st.recursive(
        leaves | st.lists(leaves, max_size=2), lambda inner: st.dictionaries(keys, inner, max_size=3), max_leaves=8
    )
    return st.dictionaries(keys, values, max_size=4)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, written down as the RFC has it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def contains(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and contains(whole[key], part[key]) for key in part)
    return bool(whole == part) and isinstance(whole, bool) == isinstance(part, bool)


@settings(max_examples=200)
@given(objects(without_null), objects(without_null), objects(without_null))
def test_the_live_object_gets_all_that_is_applied_and_then_nothing_is_to_do(
    original: JSON, modified: JSON, current: JSON
) -> None:
    result = merged(current, three_way(original, modified, current))
    assert contains(result, modified)
    assert three_way(modified, modified, result) == {}


@settings(max_examples=100)
@given(objects(without_null), objects(without_null))
def test_what_only_others_have_set_stays(modified: JSON, others: JSON) -> None:
    current = merged(others, modified)
    assert three_way(modified, modified, current) == {}


def test_what_was_taken_out_of_the_manifest_is_taken_out_of_the_object() -> None:
    original = {"spec": {"a": 1, "b": {"c": 1, "d": 2}}, "metadata": {"labels": {"x": "1"}}}
    modified = {"spec": {"b": {"d": 2}}, "metadata": {}}
    current = {"spec": {"a": 1, "b": {"c": 1, "d": 2, "e": 3}}, "metadata": {"labels": {"x": "1", "y": "2"}}}
    assert three_way(original, modified, current) == {
        "spec": {"a": None, "b": {"c": None}},
        "metadata": {"labels": None},
    }


def test_true_is_not_one() -> None:
    assert three_way({}, {"a": True}, {"a": 1}) == {"a": True}


def test_the_annotation_is_spelled_as_kubectl_spells_it() -> None:
    body = {
        "kind": "Model",
        "apiVersion": "model.kubedl.io/v1alpha1",
        "metadata": {"name": "m", "namespace": "n", "annotations": {"z": "<b>&", LAST_APPLIED: "old"}},
        "spec": {"description": "é\u2028", "size": 1.0, "none": None},
    }
    text = annotated(body)["metadata"]["annotations"][LAST_APPLIED]
    assert text == (
        '{"apiVersion":"model.kubedl.io/v1alpha1","kind":"Model","metadata":{"annotations":'
        '{"z":"\\u003cb\\u003e\\u0026"},"name":"m","namespace":"n"},"spec":{"description":"é\\u2028","size":1}}\n'
    )


def test_what_was_applied_can_be_read_back() -> None:
    body = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "m"}, "spec": {"a": [1, {"b": None}]}}
    remembered = last_applied(json.loads(json.dumps(annotated(body))))
    assert remembered["spec"] == {"a": [1, {}]}
    assert remembered["metadata"] == {"annotations": {}, "name": "m"}


def test_an_annotation_that_is_damaged_counts_as_none() -> None:
    for text in ("", "{", "[]", "7"):
        assert last_applied({"metadata": {"annotations": {LAST_APPLIED: text}}}) == {}
    assert last_applied({"metadata": {}}) == {}
