"""Rows for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from modelwright.api.kinds import KINDS, MODEL_VERSION
from modelwright.api.table import age, look_up, table_columns, table_row

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "shown"),
    [
        (timedelta(0), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(seconds=120), "2m"),
        (timedelta(minutes=5, seconds=12), "5m12s"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=47), "47h"),
        (timedelta(days=2, hours=4), "2d4h"),
        (timedelta(days=8), "8d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=731), "2y1d"),
        (timedelta(days=365 * 9), "9y"),
        (timedelta(seconds=-1), "0s"),
        (timedelta(seconds=-10), "<invalid>"),
    ],
)
def test_an_age_is_written_as_kubectl_writes_it(since: timedelta, shown: str) -> None:
    assert age(NOW - since, NOW) == shown


def test_a_path_finds_fields_and_chosen_items() -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "Stalled", "status": "False"}]
    value = {"status": {"conditions": conditions, "n": 0}}
    assert look_up('.status.conditions[?(@.type=="Stalled")].status', value) == "False"
    assert look_up(".status.n", value) == 0
    assert look_up('.status.conditions[?(@.type=="Other")].status', value) is None
    assert look_up(".spec.x.y", value) is None
    assert look_up('.status.n[?(@.type=="Ready")].status', value) is None


def test_a_row_fits_its_columns() -> None:
    for kind in KINDS:
        columns = table_columns(kind)
        assert len(table_row(kind, {}, NOW)) == len(columns)
        assert [columns[0]["name"], columns[0]["format"]] == ["Name", "name"]
        priorities = [column["priority"] for column in columns]
        assert priorities == sorted(priorities)


def test_a_row_in_full() -> None:
    version = {
        "metadata": {"name": "mv-3", "creationTimestamp": "2025-12-31T23:55:00Z"},
        "spec": {"modelName": "model1", "createdBy": "user1"},
        "status": {
            "image": "modelhub/resnet:v1c072",
            "conditions": [{"type": "Ready", "status": "True", "reason": "Built"}],
        },
    }
    cells = table_row(MODEL_VERSION, version, NOW)
    shown = dict(zip((column["name"] for column in table_columns(MODEL_VERSION)), cells, strict=True))
    assert shown == {
        "Name": "mv-3",
        "Model": "model1",
        "Image": "modelhub/resnet:v1c072",
        "Phase": None,
        "Ready": "True",
        "Age": "5m",
        "Reason": "Built",
        "Digest": None,
        "Size": None,
        "Created-By": "user1",
    }


def test_an_object_without_a_time_has_an_unknown_age() -> None:
    cells = table_row(MODEL_VERSION, {"metadata": {"creationTimestamp": "soon"}}, NOW)
    assert "<unknown>" in cells
