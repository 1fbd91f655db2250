"""Admission: what is dropped, filled in, refused and kept; and that no JSON whatever upsets it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.api.bases import CLOUD, EDGE, JOINT, TRAINING, VERSION, Object, patched
from tests.unit.api.objects import A_MODEL, FAULTY, SHAPED, STATUSES, UNKNOWN, Sample

from modelwright.api.admission import Admission, admit
from modelwright.api.faults import invalid_message, spelled, unknown_message
from modelwright.api.kinds import INFERENCE_MODEL, KINDS, MODEL, MODEL_VERSION, by_kind, decode

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
KEYS = st.sampled_from(
    [
        "spec",
        "metadata",
        "status",
        "name",
        "labels",
        "storage",
        "nfs",
        "path",
        "manifest",
        "version",
        "conditions",
        "type",
    ]
) | st.text(max_size=4)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=20
)
BASES = (A_MODEL, VERSION, EDGE, CLOUD, TRAINING, JOINT)


def admitted(resource: Object, old: Object | None = None, *, subresource: str = "") -> Admission:
    kind = by_kind(resource["apiVersion"], resource["kind"])
    assert kind is not None
    return admit(kind, resource, old, subresource=subresource)


@pytest.mark.parametrize("sample", SHAPED, ids=lambda sample: sample.id)
def test_admitting_what_was_admitted_changes_nothing(sample: Sample) -> None:
    once = admitted(sample.sent)
    again = admitted(once.object)
    assert (again.object, again.unknown, again.faults) == (once.object, (), ())


@pytest.mark.parametrize("sample", FAULTY, ids=lambda sample: sample.id)
def test_a_faulty_object_is_refused(sample: Sample) -> None:
    assert admitted(sample.sent).faults


@pytest.mark.parametrize("sample", UNKNOWN, ids=lambda sample: sample.id)
def test_unknown_fields_are_named_and_dropped(sample: Sample) -> None:
    found = admitted(sample.sent)
    assert found.unknown
    assert admitted(found.object).unknown == ()


def test_the_object_that_was_sent_is_left_alone() -> None:
    sent = patched(VERSION, {"spec.x": 1, "spec.lineage": None})
    before = msgspec.json.encode(sent)
    admitted(sent)
    assert msgspec.json.encode(sent) == before


def test_all_faults_against_the_schema_come_together_and_then_all_against_the_rules() -> None:
    both = patched(
        VERSION, {"spec.imageRepo": "A", "spec.modelName": 1, "spec.builder": "docker", "metadata.name": "A"}
    )
    fields = {fault.field: fault.type for fault in admitted(both).faults}
    assert fields == {
        "metadata.name": "FieldValueInvalid",
        "spec.modelName": "FieldValueTypeInvalid",
        "spec.builder": "FieldValueNotSupported",
    }
    rules = patched(VERSION, {"spec.imageRepo": "A", "spec.imageTag": "-"})
    assert [fault.field for fault in admitted(rules).faults] == ["spec.imageRepo", "spec.imageTag"]


def test_the_messages_are_those_of_kube_apiserver() -> None:
    two = admitted(patched(VERSION, {"spec.modelName": ..., "spec.builder": "x"})).faults
    assert invalid_message(MODEL_VERSION, "mv-3", two) == (
        'ModelVersion.model.kubedl.io "mv-3" is invalid: [spec.modelName: Required value, '
        'spec.builder: Unsupported value: "x": supported values: "kaniko", "native"]'
    )
    (one,) = admitted(patched(CLOUD, {"spec.replicas": -1})).faults
    assert invalid_message(INFERENCE_MODEL, "a", [one]) == (
        'InferenceModel.sedna.io "a" is invalid: spec.replicas: Invalid value: -1: '
        "spec.replicas in body should be greater than or equal to 0"
    )
    assert one.cause()["reason"] == "FieldValueInvalid"
    assert unknown_message(MODEL, ("spec.x", "spec.y")).endswith(
        'strict decoding error: unknown field "spec.x", unknown field "spec.y"'
    )


def test_an_update_keeps_the_status_and_a_status_update_keeps_the_rest() -> None:
    stored = admitted(VERSION).object | {"status": {"image": "a:b"}}
    relabelled = patched(stored, {"metadata.labels": {"a": "b"}, "status.image": "other:c"})
    updated = admitted(relabelled, stored).object
    assert (updated["metadata"]["labels"], updated["status"]) == ({"a": "b"}, {"image": "a:b"})
    reported = admitted(relabelled, stored, subresource="status").object
    assert reported == patched(stored, {"status.image": "other:c"})
    assert "status" not in admitted(patched(stored, {"status": ...}), stored, subresource="status").object


def test_a_spec_that_was_admitted_once_does_not_block_other_writes() -> None:
    stored = patched(admitted(VERSION).object, {"spec.imageRepo": "Was-Allowed-Once"})
    assert admitted(patched(stored, {"metadata.finalizers": ["a/b"]}), stored).faults == ()
    assert admitted(stored).faults


def test_true_is_not_taken_for_an_unchanged_one() -> None:
    stored = admitted(CLOUD).object
    faults = admitted(patched(stored, {"spec.replicas": True}), stored).faults
    assert [fault.type for fault in faults] == ["FieldValueTypeInvalid"]


def test_a_generated_name_may_end_in_a_dash() -> None:
    assert admitted(patched(VERSION, {"metadata": {"generateName": "mv-"}})).faults == ()
    assert [fault.field for fault in admitted(patched(VERSION, {"metadata": {"generateName": "MV-"}})).faults] == [
        "metadata.generateName"
    ]
    assert [fault.field for fault in admitted(patched(VERSION, {"metadata": {}})).faults] == ["metadata.name"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"metadata.name": "a" * 254}, "metadata.name"),
        ({"metadata.namespace": "A"}, "metadata.namespace"),
        ({"metadata.labels": {"a" * 64: "b"}}, "metadata.labels"),
        ({"metadata.labels": {"A/b": "c"}}, "metadata.labels"),
        ({"metadata.labels": {"a": "b" * 64}}, "metadata.labels"),
        ({"metadata.labels": {"a": 1}}, "metadata.labels.a"),
        ({"metadata.annotations": {"a": "b" * 256 * 1024}}, "metadata.annotations"),
        ({"metadata.ownerReferences": [{"apiVersion": "v1"}]}, "metadata.ownerReferences[0].kind"),
        ({"metadata.creationTimestamp": "yesterday"}, "metadata.creationTimestamp"),
        ({"metadata": []}, "metadata"),
        ({"kind": "Other"}, "kind"),
        ({"apiVersion": "v2"}, "apiVersion"),
    ],
)
def test_faults_of_the_metadata_are_found(changes: Object, field: str) -> None:
    found = admit(MODEL_VERSION, patched(VERSION, changes), None).faults
    assert field in [fault.field for fault in found]


def test_only_one_owner_controls() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b", "controller": True}
    (fault,) = admitted(patched(VERSION, {"metadata.ownerReferences": [owner, {**owner, "uid": "c"}]})).faults
    assert fault.field == "metadata.ownerReferences"


def test_other_subresources_are_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="scale"):
        admitted(CLOUD, CLOUD, subresource="scale")
    with pytest.raises(ValueError, match="without"):
        admitted(CLOUD, subresource="status")


def test_places_are_spelled_as_paths() -> None:
    assert spelled(()) == ""
    assert spelled((((((), "spec"), "manifest"), 0), "version")) == "spec.manifest[0].version"


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_no_json_whatever_upsets_admission(value: Any) -> None:
    for kind in KINDS:
        found = admit(kind, value, None)
        assert found.faults or found.object["metadata"]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(BASES), st.data())
def test_what_is_admitted_after_any_change_can_be_read(base: Object, data: st.DataObject) -> None:
    part = data.draw(st.sampled_from(["metadata", "spec"]))
    found = admitted({**base, part: data.draw(mutated(base[part]))})
    assert all(fault.field and fault.type and fault.message for fault in found.faults)
    if not found.faults:
        kind = by_kind(base["apiVersion"], base["kind"])
        assert kind is not None
        assert decode(kind, found.object).metadata.name == found.object["metadata"].get("name", "")


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(STATUSES), JSON)
def test_what_is_admitted_as_a_status_can_be_read(sample: Sample, value: Any) -> None:
    stored = admitted(patched(sample.sent, {"status": ...})).object
    found = admitted({**stored, "status": value}, stored, subresource="status")
    if not found.faults:
        assert decode(sample.kind, found.object).spec == decode(sample.kind, stored).spec


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """A value with one of its parts, anywhere, replaced by any JSON."""
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 3)) == 0:
        return draw(JSON)
    if isinstance(value, list):
        index = draw(st.integers(0, len(value) - 1))
        return [draw(mutated(item)) if at == index else item for at, item in enumerate(value)]
    chosen = draw(st.sampled_from(sorted(value)))
    return {key: draw(mutated(inner)) if key == chosen else inner for key, inner in value.items()}
