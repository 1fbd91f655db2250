from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwright.adapters.embedded.patches import MAX_OPERATIONS, apply_operations, merge
from modelwright.ports.errors import Invalid

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab~/", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3),
    max_leaves=8,
)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


# The examples of RFC 7386, appendix A.
@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_examples(target: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy(target)
    assert merge(target, patch) == result
    assert target == before


@given(json_values, json_values)
def test_a_merge_patch_can_be_applied_twice_and_leaves_no_nulls_of_its_own(target: Any, patch: Any) -> None:
    once = merge(target, patch)
    assert merge(once, patch) == once
    if isinstance(patch, dict):
        assert merge({}, patch) == without_nulls(patch)


@pytest.mark.parametrize(
    ("document", "operations", "result"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
        ({"a": 1}, [{"op": "add", "path": "", "value": 2}], 2),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
        ({"a": [1, 2, 3]}, [{"op": "replace", "path": "/a/1", "value": 9}], {"a": [1, 9, 3]}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {}}], {}),
        ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
        ({"a": [1, 2]}, [{"op": "move", "from": "/a/0", "path": "/a/1"}], {"a": [2, 1]}),
        ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
        ({"a/b": {"m~n": 1}}, [{"op": "test", "path": "/a~1b/m~0n", "value": 1}], {"a/b": {"m~n": 1}}),
        ({"": 1}, [{"op": "test", "path": "/", "value": 1}], {"": 1}),
        ({"~1": 1}, [{"op": "test", "path": "/~01", "value": 1}], {"~1": 1}),
        ({"a": [{"b": 1}]}, [{"op": "add", "path": "/a/0/c", "value": 2}], {"a": [{"b": 1, "c": 2}]}),
        ({"a": None}, [{"op": "test", "path": "/a", "value": None}], {"a": None}),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}),
    ],
)
def test_json_patch_examples(document: Any, operations: Any, result: Any) -> None:
    before = copy.deepcopy(document)
    assert apply_operations(document, operations) == result
    assert document == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": True},
        {"op": "test", "path": "/a", "value": "1"},
        {"op": "test", "path": "/list", "value": [1]},
        {"op": "remove", "path": "/missing"},
        {"op": "replace", "path": "/missing", "value": 1},
        {"op": "replace", "path": "/list/2", "value": 1},
        {"op": "remove", "path": "/list/-"},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "add", "path": "/list/\u0661", "value": 1},
        {"op": "add", "path": "/list/99999999999", "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "/missing/b", "value": 1},
        {"op": "move", "from": "/object", "path": "/object/inner"},
        {"op": "copy", "from": "/missing", "path": "/b"},
        {"op": "copy", "path": "/b"},
        {"op": "add", "path": "/b"},
        {"op": "add", "path": "b", "value": 1},
        {"op": "add", "value": 1},
        {"op": "invent", "path": "/b", "value": 1},
        {"path": "/b", "value": 1},
    ],
)
def test_operations_that_do_not_fit_are_refused_whole(operation: Any) -> None:
    document = {"a": 1, "list": [1, 2], "object": {}}
    first = {"op": "add", "path": "/first", "value": 1}
    with pytest.raises(Invalid):
        apply_operations(document, [first, operation])
    assert document == {"a": 1, "list": [1, 2], "object": {}}


@pytest.mark.parametrize("operations", [{}, None, [1], [[]], [{}] * (MAX_OPERATIONS + 1)])
def test_what_is_no_json_patch_is_refused(operations: Any) -> None:
    with pytest.raises(Invalid):
        apply_operations({}, operations)


def test_a_patch_does_not_multiply_itself() -> None:
    doubling = [{"op": "copy", "from": "", "path": f"/{number}"} for number in range(64)]
    with pytest.raises(Invalid, match="copies more than"):
        apply_operations({"a": "x" * 100}, doubling)


@given(json_values, st.lists(st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
     "path": st.text("/ab01-~", max_size=6)},
    optional={"value": json_values, "from": st.text("/ab01-~", max_size=6)},
), max_size=6))  # fmt: skip
def test_any_patch_gives_a_document_or_is_refused(document: Any, operations: Any) -> None:
    before = copy.deepcopy(document)
    try:
        apply_operations(document, operations)
    except Invalid:
        pass
    assert document == before
