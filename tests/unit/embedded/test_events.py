from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.embedded.api import Client
from tests.unit.embedded.conftest import HandClock

from modelwright.adapters.embedded.core import EVENTS as EVENTS_OF_CORE
from modelwright.adapters.embedded.events import MOST_KEPT, name_of
from modelwright.adapters.embedded.store import EmbeddedStore
from modelwright.adapters.embedded.transaction import Transaction
from modelwright.ports.errors import NotFound
from modelwright.ports.store import Event

pytestmark = pytest.mark.anyio
EVENT = Event("model.kubedl.io/v1alpha1", "Model", "default", "resnet", "uid-1", "Normal", "Built", "The image exists.")
EVENTS = "/api/v1/namespaces/default/events"


def stored(store: EmbeddedStore) -> list[dict[str, object]]:
    return [msgspec.json.decode(entry.value) for entry in store.resources.objects.snapshot("events")]


async def test_what_is_equal_is_counted_and_what_differs_stands_beside_it(
    store: EmbeddedStore, clock: HandClock
) -> None:
    await store.record(EVENT)
    clock.pass_time(minutes=5)
    await store.record(EVENT)
    others = [replace(EVENT, **{field: "Warning"}) for field in ("type", "reason", "message", "uid")]
    for other in others:
        await store.record(other)
    found = [event for event in stored(store) if event["count"] == 2]
    assert len(stored(store)) == 5
    assert len(found) == 1
    assert found[0]["firstTimestamp"] == "2024-02-29T12:00:00Z"
    assert found[0]["lastTimestamp"] == "2024-02-29T12:05:00Z"


async def test_old_events_go_when_a_new_one_is_written(store: EmbeddedStore, clock: HandClock) -> None:
    await store.record(EVENT)
    clock.pass_time(minutes=45)
    await store.record(replace(EVENT, reason="Later"))
    clock.pass_time(minutes=20)
    version = store.resources.objects.version
    assert len(stored(store)) == 2
    assert store.resources.objects.version == version
    await store.record(replace(EVENT, reason="New"))
    assert sorted(str(event["reason"]) for event in stored(store)) == ["Later", "New"]
    clock.pass_time(hours=2)
    await store.record(EVENT)
    assert [event["reason"] for event in stored(store)] == ["Built"]
    assert stored(store)[0]["count"] == 1


async def test_of_a_flood_the_newest_are_kept(store: EmbeddedStore, clock: HandClock) -> None:
    def flood(transaction: Transaction) -> None:
        editor = store.resources.editor(transaction)
        for number in range(MOST_KEPT + 10):
            metadata = {"name": f"e-{number}"}
            last = f"2024-02-29T11:{number * 60 // (MOST_KEPT + 10):02}:00Z"
            value = {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": {}}
            editor.create(EVENTS_OF_CORE, "default", {**value, "lastTimestamp": last})

    await store.resources.objects.write(flood)
    await store.record(EVENT)
    left = stored(store)
    assert len(left) == MOST_KEPT + 1
    assert min(str(event["lastTimestamp"]) for event in left) == "2024-02-29T11:00:00Z"
    assert "Built" in [event.get("reason") for event in left]


async def test_a_namespace_must_exist(store: EmbeddedStore) -> None:
    with pytest.raises(NotFound):
        await store.record(replace(EVENT, namespace="nowhere"))


async def test_any_text_makes_a_name(store: EmbeddedStore) -> None:
    for name in ("x" * 253, "a.b-", "a" * 229 + "..b"):
        await store.record(replace(EVENT, name=name, message="\U0001f989 \udcff" * 600))
        assert len(name_of(replace(EVENT, name=name))) <= 253
    assert all(len(str(event["message"])) == 1024 for event in stored(store))


async def test_events_of_others_are_taken_and_found_by_what_they_are_about(api: Client) -> None:
    about = {"kind": "Model", "namespace": "default", "name": "resnet", "uid": "uid-1"}
    body = {"metadata": {"name": "e1"}, "involvedObject": about, "reason": "Built", "type": "Normal", "count": 1}
    body |= {"eventTime": None, "series": None, "source": {"component": "other"}, "message": "x"}
    assert (await api.ask("POST", EVENTS, body)).status == 201
    for selector, count in (
        ("involvedObject.name=resnet,involvedObject.uid=uid-1,involvedObject.kind=Model", 1),
        ("involvedObject.name=other", 0),
        ("type=Normal,reason=Built", 1),
    ):
        assert len((await api.get(EVENTS, fieldSelector=selector)).json["items"]) == count
    assert (await api.merge(f"{EVENTS}/e1", {"count": 2})).json["count"] == 2


@pytest.mark.parametrize(
    "change",
    [
        {"involvedObject": None}, {"involvedObject": {"namespace": "other"}}, {"count": "many"}, {"message": 7},
        {"source": []}, {"metadata": {"name": "Bad Name"}},
    ],
)  # fmt: skip
async def test_a_broken_event_is_refused(api: Client, change: dict[str, object]) -> None:
    body: dict[str, object] = {"metadata": {"name": "e1"}, "involvedObject": {"namespace": "default"}}
    answer = await api.ask("POST", EVENTS, {**body, **change})
    assert answer.status == 422, answer.body
