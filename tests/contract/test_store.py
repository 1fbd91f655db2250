"""What every Store promises, said once and shown on each of them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace
from tests.contract.subjects import DEADLINE_SECONDS, Subject, fresh_name

from modelwright.api.fields import Resources
from modelwright.api.inference_model import InferenceModel, InferenceModelSpec, InferenceModelStatus
from modelwright.api.meta import Condition, Metadata, OwnerReference
from modelwright.api.model import LatestVersion, Model, ModelSpec, ModelStatus
from modelwright.api.model_version import ModelVersion, ModelVersionSpec
from modelwright.api.storage import LocalStorage, Storage
from modelwright.ports.errors import AlreadyExists, Conflict, Expired, Invalid, NotFound
from modelwright.ports.store import Change, Event, Store

pytestmark = pytest.mark.anyio
R = TypeVar("R")
NOON = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
READY = Condition("Ready", "True", "Done", "All is well.", NOON, 1)


def model(namespace: str, name: str = "resnet", **metadata: Any) -> Model:
    return Model(metadata=Metadata(name=name, namespace=namespace, **metadata), spec=ModelSpec(description="sees"))


def version(namespace: str, name: str = "resnet-1") -> ModelVersion:
    storage = Storage(local_storage=LocalStorage(path="/models/resnet", node_name="cloud-0"))
    spec = ModelVersionSpec(model_name="resnet", image_repo="modelhub/resnet", storage=storage)
    return ModelVersion(metadata=Metadata(name=name, namespace=namespace), spec=spec)


def served(namespace: str, name: str = "digits", **metadata: Any) -> InferenceModel:
    spec = InferenceModelSpec(
        model_name="digits",
        deploy_to_layer="edge",
        framework_type="onnx",
        node_selector={"zone": "a"},
        model_version="digits-1",
    )
    return InferenceModel(metadata=Metadata(name=name, namespace=namespace, **metadata), spec=spec)


def described(resource: Model, description: str) -> Model:
    return replace(resource, spec=ModelSpec(description=description))


def labelled(resource: Model, **labels: str) -> Model:
    return replace(resource, metadata=replace(resource.metadata, labels=labels))


def finalized(resource: Model, *finalizers: str) -> Model:
    return replace(resource, metadata=replace(resource.metadata, finalizers=finalizers))


async def watched(
    store: Store, type_: type[R], version_: str, namespace: str, enough: Callable[[list[Change[R]]], bool]
) -> list[Change[R]]:
    """The changes in one namespace since a version, until there are enough of them; bookmarks are not counted."""
    seen: list[Change[R]] = []
    async with asyncio.timeout(DEADLINE_SECONDS), aclosing(changes(store, type_, version_)) as every:
        async for change in every:
            if change.resource is not None and _metadata(change.resource).namespace == namespace:
                seen.append(change)
                if enough(seen):
                    return seen
    raise AssertionError("a watch never ends by itself")


async def changes(store: Store, type_: type[R], version_: str) -> AsyncGenerator[Change[R], None]:
    async for change in store.watch(type_, version_):
        yield change


def _metadata(resource: Any) -> Metadata:
    metadata: Metadata = resource.metadata
    return metadata


# Create, get, list --------------------------------------------------------------------------------------------------


async def test_a_created_resource_has_an_identity_and_is_read_back_as_it_is(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    created = await subject.store.create(model(namespace, labels={"team": "vision"}))
    assert created.metadata.uid
    assert created.metadata.resource_version
    assert created.metadata.generation == 1
    assert created.metadata.creation_timestamp is not None
    assert created.metadata.labels == {"team": "vision"}
    assert created.spec == ModelSpec(description="sees")
    assert await subject.store.get(Model, namespace, "resnet") == created


async def test_a_status_given_at_creation_is_not_kept(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    created = await subject.store.create(replace(model(namespace), status=ModelStatus(versions=7)))
    assert created.status == ModelStatus()


async def test_defaults_are_filled_in_where_the_resource_is_created(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    created = await subject.store.create(version(namespace))
    assert created.spec.builder == "native"
    assert created.spec == (await subject.store.get(ModelVersion, namespace, "resnet-1")).spec


async def test_a_name_is_taken_once(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    await subject.store.create(model(namespace))
    with pytest.raises(AlreadyExists):
        await subject.store.create(model(namespace))
    await subject.store.create(model(await subject.make_namespace()))


async def test_a_namespace_must_exist(subject: Subject) -> None:
    with pytest.raises(NotFound):
        await subject.store.create(model(fresh_name("missing")))


async def test_a_resource_that_breaks_a_rule_is_refused_with_its_field(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    wrong = version(namespace)
    wrong = replace(wrong, spec=replace(wrong.spec, storage=Storage()))
    with pytest.raises(Invalid, match=r"spec\.storage"):
        await subject.store.create(wrong)
    with pytest.raises(NotFound):
        await subject.store.get(ModelVersion, namespace, "resnet-1")


async def test_a_name_that_is_no_name_is_refused(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    with pytest.raises(Invalid, match=r"metadata\.name"):
        await subject.store.create(model(namespace, "Not_A_Name"))


async def test_what_does_not_exist_is_not_found(subject: Subject) -> None:
    with pytest.raises(NotFound):
        await subject.store.get(Model, await subject.make_namespace(), "resnet")
    with pytest.raises(NotFound):
        await subject.store.get(Model, fresh_name("missing"), "resnet")


async def test_a_list_has_all_namespaces_in_order_and_one_kind(subject: Subject) -> None:
    first, second = sorted([await subject.make_namespace(), await subject.make_namespace()])
    for namespace, name in ((second, "a"), (first, "b"), (first, "a")):
        await subject.store.create(model(namespace, name))
    await subject.store.create(version(first))
    listing = await subject.store.list(Model)
    found = [(each.metadata.namespace, each.metadata.name) for each in listing.items]
    assert [key for key in found if key[0] in (first, second)] == [(first, "a"), (first, "b"), (second, "a")]
    assert listing.version


async def test_a_list_gives_what_get_gives(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    created = await subject.store.create(model(namespace, annotations={"note": "x"}))
    assert created in (await subject.store.list(Model)).items


async def test_any_text_survives(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    text = 'Grüße, 世界 🦉 "quoted" \\ \t\n <b>&amp;</b> \u2028 e\u0301'
    resource = replace(model(namespace, annotations={"note": text}), spec=ModelSpec(description=text))
    await subject.store.create(resource)
    read = await subject.store.get(Model, namespace, "resnet")
    assert read.spec.description == text
    assert read.metadata.annotations["note"] == text


async def test_a_big_resource_survives_everywhere(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    before = (await subject.store.list(Model)).version
    note = "0123456789abcdef" * 15_000
    created = await subject.store.create(model(namespace, annotations={"note": note}))
    assert created.metadata.annotations["note"] == note
    assert created in (await subject.store.list(Model)).items
    (change,) = await watched(subject.store, Model, before, namespace, lambda seen: len(seen) == 1)
    assert change.resource == created


# Status and metadata ------------------------------------------------------------------------------------------------


async def test_a_status_is_written_and_nothing_else(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    created = await subject.store.create(model(namespace))
    latest = LatestVersion(model_version="resnet-1", image_name="modelhub/resnet:v1")
    status = ModelStatus(latest_version=latest, versions=1, observed_generation=1, conditions=(READY,))
    wrong = replace(labelled(created, sneaked="in"), spec=ModelSpec(description="sneaked in"), status=status)
    updated = await subject.store.update_status(wrong)
    assert updated.status == status
    assert updated.spec == created.spec
    assert updated.metadata.labels == {}
    assert updated.metadata.generation == 1
    assert updated.metadata.resource_version != created.metadata.resource_version
    assert await subject.store.get(Model, namespace, "resnet") == updated


async def test_a_status_is_written_as_a_whole(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    resource = await subject.store.create(model(namespace))
    full = ModelStatus(latest_version=LatestVersion(model_version="a"), versions=1, conditions=(READY,))
    resource = await subject.store.update_status(replace(resource, status=full))
    resource = await subject.store.update_status(replace(resource, status=ModelStatus(versions=2)))
    assert resource.status == ModelStatus(versions=2)


async def test_a_status_that_breaks_a_rule_is_refused(subject: Subject) -> None:
    resource = await subject.store.create(model(await subject.make_namespace()))
    with pytest.raises(Invalid, match=r"status\.versions"):
        await subject.store.update_status(replace(resource, status=ModelStatus(versions=-1)))


async def test_the_status_of_a_resource_with_an_immutable_spec_is_written(subject: Subject) -> None:
    resource = await subject.store.create(version(await subject.make_namespace()))
    status = replace(resource.status, image_build_phase="ImageBuilding", attempts=1)
    updated = await subject.store.update_status(replace(resource, status=status))
    assert updated.status == status
    assert updated.spec == resource.spec


async def test_metadata_is_written_as_a_whole_and_nothing_else(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    owner = await subject.store.create(model(namespace, "owner"))
    created = await subject.store.create(model(namespace, labels={"a": "1", "b": "2"}, annotations={"c": "3"}))
    reference = OwnerReference("model.kubedl.io/v1alpha1", "Model", "owner", owner.metadata.uid, controller=True)
    metadata = replace(
        created.metadata,
        labels={"b": "two"},
        annotations={"modelwright.dev/note": "é"},
        owner_references=(reference,),
        finalizers=("modelwright.dev/test",),
    )
    wrong = replace(created, metadata=metadata, spec=ModelSpec(description="no"), status=ModelStatus(versions=9))
    updated = await subject.store.update_metadata(wrong)
    assert updated.metadata == replace(metadata, resource_version=updated.metadata.resource_version)
    assert updated.spec == created.spec
    assert updated.status == created.status
    assert updated.metadata.generation == 1
    bare = replace(updated.metadata, labels={}, annotations={}, owner_references=(), finalizers=())
    cleared = await subject.store.update_metadata(replace(updated, metadata=bare))
    assert cleared.metadata == replace(bare, resource_version=cleared.metadata.resource_version)


async def test_metadata_that_breaks_a_rule_is_refused(subject: Subject) -> None:
    resource = await subject.store.create(model(await subject.make_namespace()))
    with pytest.raises(Invalid, match=r"metadata\.labels"):
        await subject.store.update_metadata(labelled(resource, team="not a label"))


async def test_a_spec_is_written_as_a_whole_and_nothing_else(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    owner = await subject.store.create(model(namespace))
    reference = OwnerReference("model.kubedl.io/v1alpha1", "Model", "resnet", owner.metadata.uid, controller=True)
    metadata: dict[str, Any] = {"labels": {"team": "vision"}, "annotations": {"note": "x"}}
    created = await subject.store.create(served(namespace, **metadata, owner_references=(reference,)))
    status = InferenceModelStatus(serving_version="v1", conditions=(READY,))
    created = await subject.store.update_status(replace(created, status=status))
    spec = replace(
        created.spec, replicas=3, node_selector={}, node_name="edge-0", resources=Resources(requests={"cpu": "1"})
    )
    wrong = replace(created, metadata=replace(created.metadata, labels={"sneaked": "in"}), spec=spec)
    updated = await subject.store.update_spec(replace(wrong, status=InferenceModelStatus()))
    assert updated.spec == spec
    assert updated.status == status
    generation, version_ = created.metadata.generation + 1, updated.metadata.resource_version
    assert version_ != created.metadata.resource_version
    assert updated.metadata == replace(created.metadata, generation=generation, resource_version=version_)
    assert await subject.store.get(InferenceModel, namespace, "digits") == updated


async def test_a_spec_that_breaks_a_rule_is_refused_with_its_field(subject: Subject) -> None:
    created = await subject.store.create(served(await subject.make_namespace()))
    wrong = replace(created, spec=replace(created.spec, model_version="", target_version=""))
    with pytest.raises(Invalid, match=r"spec"):
        await subject.store.update_spec(wrong)
    assert await subject.store.get(InferenceModel, created.metadata.namespace, "digits") == created


async def test_a_spec_that_must_stay_is_refused(subject: Subject) -> None:
    created = await subject.store.create(version(await subject.make_namespace()))
    with pytest.raises(Invalid, match=r"spec"):
        await subject.store.update_spec(replace(created, spec=replace(created.spec, model_name="another")))
    assert await subject.store.update_spec(created) == created


async def test_a_write_that_changes_nothing_leaves_the_version(subject: Subject) -> None:
    resource = await subject.store.create(model(await subject.make_namespace(), labels={"a": "1"}))
    status = ModelStatus(versions=3, conditions=(READY,))
    resource = await subject.store.update_status(replace(resource, status=status))
    assert await subject.store.update_status(resource) == resource
    assert await subject.store.update_metadata(resource) == resource
    assert await subject.store.update_spec(resource) == resource
    full = await subject.store.create(served(resource.metadata.namespace))
    assert await subject.store.update_spec(replace(full, spec=served("").spec)) == full


async def test_a_write_decided_on_an_old_version_is_a_conflict(subject: Subject) -> None:
    old = await subject.store.create(model(await subject.make_namespace()))
    await subject.store.update_status(replace(old, status=ModelStatus(versions=1)))
    with pytest.raises(Conflict):
        await subject.store.update_status(replace(old, status=ModelStatus(versions=2)))
    with pytest.raises(Conflict):
        await subject.store.update_metadata(labelled(old, a="1"))
    with pytest.raises(Conflict):
        await subject.store.update_spec(described(old, "sees more"))


async def test_of_many_writers_at_once_one_wins(subject: Subject) -> None:
    resource = await subject.store.create(model(await subject.make_namespace()))
    writes = [subject.store.update_status(replace(resource, status=ModelStatus(versions=n))) for n in range(1, 9)]
    results = await asyncio.gather(*writes, return_exceptions=True)
    winners = [result for result in results if isinstance(result, Model)]
    assert len(winners) == 1
    assert all(isinstance(result, Conflict) for result in results if result not in winners)
    assert await subject.store.get(Model, resource.metadata.namespace, "resnet") == winners[0]


async def test_what_is_gone_cannot_be_written(subject: Subject) -> None:
    resource = await subject.store.create(model(await subject.make_namespace()))
    await subject.store.delete(resource)
    with pytest.raises(NotFound):
        await subject.store.update_status(replace(resource, status=ModelStatus(versions=1)))
    with pytest.raises(NotFound):
        await subject.store.update_metadata(labelled(resource, a="1"))
    with pytest.raises(NotFound):
        await subject.store.update_spec(described(resource, "sees more"))


async def test_a_namesake_made_later_is_not_written(subject: Subject) -> None:
    former = await subject.store.create(model(await subject.make_namespace()))
    await subject.store.delete(former)
    later = await subject.store.create(model(former.metadata.namespace))
    assert later.metadata.uid != former.metadata.uid
    with pytest.raises(Conflict):
        await subject.store.update_status(replace(former, status=ModelStatus(versions=1)))
    with pytest.raises(Conflict):
        await subject.store.update_metadata(labelled(former, a="1"))
    with pytest.raises(Conflict):
        await subject.store.update_spec(described(former, "sees more"))
    with pytest.raises(Conflict):
        await subject.store.delete(former)
    assert await subject.store.get(Model, former.metadata.namespace, "resnet") == later


# What users do ------------------------------------------------------------------------------------------------------


async def test_a_changed_spec_raises_the_generation_and_leaves_the_status(subject: Subject) -> None:
    resource = await subject.store.create(model(await subject.make_namespace()))
    resource = await subject.store.update_status(replace(resource, status=ModelStatus(versions=4)))
    patch = {"spec": {"description": "sees more"}, "status": {"versions": 99}}
    await subject.edit(resource.metadata.namespace, "resnet", patch)
    edited = await subject.store.get(Model, resource.metadata.namespace, "resnet")
    assert edited.spec.description == "sees more"
    assert edited.metadata.generation == resource.metadata.generation + 1
    assert edited.status == resource.status


async def test_a_changed_label_leaves_the_generation(subject: Subject) -> None:
    resource = await subject.store.create(model(await subject.make_namespace()))
    await subject.edit(resource.metadata.namespace, "resnet", {"metadata": {"labels": {"a": "1"}}})
    edited = await subject.store.get(Model, resource.metadata.namespace, "resnet")
    assert edited.metadata.generation == resource.metadata.generation
    assert edited.metadata.resource_version != resource.metadata.resource_version


# Delete -------------------------------------------------------------------------------------------------------------


async def test_a_deleted_resource_is_gone(subject: Subject) -> None:
    resource = await subject.store.create(model(await subject.make_namespace()))
    await subject.store.delete(resource)
    with pytest.raises(NotFound):
        await subject.store.get(Model, resource.metadata.namespace, "resnet")
    with pytest.raises(NotFound):
        await subject.store.delete(resource)
    assert resource.metadata.uid not in [each.metadata.uid for each in (await subject.store.list(Model)).items]


async def test_a_delete_decided_on_an_old_version_is_a_conflict(subject: Subject) -> None:
    old = await subject.store.create(model(await subject.make_namespace()))
    await subject.store.update_status(replace(old, status=ModelStatus(versions=1)))
    with pytest.raises(Conflict):
        await subject.store.delete(old)
    await subject.store.delete(replace(old, metadata=replace(old.metadata, resource_version="")))
    with pytest.raises(NotFound):
        await subject.store.get(Model, old.metadata.namespace, "resnet")


async def test_a_finalizer_holds_a_deleted_resource_until_it_is_taken_away(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    created = await subject.store.create(finalized(model(namespace), "modelwright.dev/test"))
    await subject.store.delete(created)
    held = await subject.store.get(Model, namespace, "resnet")
    assert held.metadata.deletion_timestamp is not None
    assert held.metadata.uid == created.metadata.uid
    with pytest.raises(Invalid):
        await subject.store.update_metadata(finalized(held, "modelwright.dev/test", "modelwright.dev/another"))
    await subject.store.update_status(replace(held, status=ModelStatus(versions=1)))
    held = await subject.store.get(Model, namespace, "resnet")
    await subject.store.update_metadata(finalized(held))
    with pytest.raises(NotFound):
        await subject.store.get(Model, namespace, "resnet")


# Watch --------------------------------------------------------------------------------------------------------------


async def test_a_watch_gives_every_change_after_a_version_in_order(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    await subject.store.create(model(namespace, "before"))
    since = (await subject.store.list(Model)).version
    created = await subject.store.create(model(namespace))
    updated = await subject.store.update_status(replace(created, status=ModelStatus(versions=1)))
    await subject.store.create(version(namespace))
    await subject.store.delete(updated)
    seen = await watched(subject.store, Model, since, namespace, lambda seen: seen[-1].type == "DELETED")
    assert [change.type for change in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert [change.resource for change in seen[:2]] == [created, updated]
    assert [change.version for change in seen[:2]] == [
        created.metadata.resource_version,
        updated.metadata.resource_version,
    ]


async def test_a_deleted_resource_is_given_as_it_last_was(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    since = (await subject.store.list(Model)).version
    created = await subject.store.create(labelled(model(namespace), last="words"))
    await subject.store.delete(created)
    last = (await watched(subject.store, Model, since, namespace, lambda seen: seen[-1].type == "DELETED"))[-1]
    assert last.resource is not None
    assert last.resource.metadata.uid == created.metadata.uid
    assert last.resource.metadata.labels == {"last": "words"}
    assert last.resource.spec == created.spec
    assert last.version != created.metadata.resource_version


async def test_a_deletion_held_by_a_finalizer_is_a_modification_first(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    since = (await subject.store.list(Model)).version
    created = await subject.store.create(finalized(model(namespace), "modelwright.dev/test"))
    await subject.store.delete(created)
    held = await subject.store.get(Model, namespace, "resnet")
    await subject.store.update_metadata(finalized(held))
    seen = await watched(subject.store, Model, since, namespace, lambda seen: seen[-1].type == "DELETED")
    kinds = [(change.type, change.resource is not None and _deleting(change.resource)) for change in seen]
    assert kinds[:2] == [("ADDED", False), ("MODIFIED", True)]
    assert kinds[-1] == ("DELETED", True)


async def test_a_watch_resumes_after_what_was_seen(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    since = (await subject.store.list(Model)).version
    for name in ("a", "b", "c"):
        await subject.store.create(model(namespace, name))
    first = await watched(subject.store, Model, since, namespace, lambda seen: len(seen) == 1)
    rest = await watched(subject.store, Model, first[0].version, namespace, lambda seen: len(seen) == 2)
    assert [_metadata(change.resource).name for change in first + rest] == ["a", "b", "c"]


async def test_a_watch_shows_what_happens_while_it_runs(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    since = (await subject.store.list(Model)).version
    watching = asyncio.create_task(watched(subject.store, Model, since, namespace, lambda seen: len(seen) == 20))
    for number in range(20):
        await subject.store.create(model(namespace, f"m-{number:02}"))
    names = [_metadata(change.resource).name for change in await watching]
    assert names == [f"m-{number:02}" for number in range(20)]


async def test_a_bookmark_is_a_version_to_resume_from(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    since = (await subject.store.list(Model)).version
    async with busy(subject, namespace):
        bookmark = await nth_bookmark(subject.store, since, 1)
    assert bookmark.resource is None
    last = await subject.store.create(model(namespace, "last"))
    seen = await watched(
        subject.store, Model, bookmark.version, namespace, lambda seen: _metadata(seen[-1].resource).name == "last"
    )
    assert seen[-1].resource == last


async def test_a_watch_outlives_the_server_ending_it(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    since = (await subject.store.list(Model)).version
    async with busy(subject, namespace):  # a server tells how far it is shortly before it ends a watch
        await nth_bookmark(subject.store, since, 3)


@asynccontextmanager
async def busy(subject: Subject, namespace: str) -> AsyncGenerator[None, None]:
    """Something happens all the time: a server need not say how far it is where nothing does."""

    async def work() -> None:
        for number in itertools.count():
            await subject.store.create(model(namespace, f"busy-{number}"))
            await asyncio.sleep(0.2)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def nth_bookmark(store: Store, since: str, count: int) -> Change[Model]:
    async with asyncio.timeout(DEADLINE_SECONDS), aclosing(changes(store, Model, since)) as every:
        async for change in every:
            count -= change.type == "BOOKMARK"
            if count == 0:
                return change
    raise AssertionError("a watch never ends by itself")


async def test_a_version_from_before_all_memory_is_expired(subject: Subject) -> None:
    old = await subject.expired()
    with pytest.raises(Expired):
        await watched(subject.store, Model, old, "none", bool)


def _deleting(resource: Model) -> bool:
    return resource.metadata.deletion_timestamp is not None


# Events -------------------------------------------------------------------------------------------------------------


async def test_equal_events_are_counted_and_others_stand_beside_them(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    resource = await subject.store.create(model(namespace))
    built = _event(resource, "Built", "The image exists.")
    for event in (built, built, _event(resource, "Failed", "grüße"), built):
        await subject.store.record(event)
    events = {event["reason"]: event for event in await subject.events(namespace)}
    assert sorted(events) == ["Built", "Failed"]
    assert events["Built"].get("count", 1) == 3
    assert events["Failed"]["message"] == "grüße"
    assert events["Built"]["lastTimestamp"] >= events["Built"]["firstTimestamp"]
    about = events["Built"]["involvedObject"]
    assert about["uid"] == resource.metadata.uid
    assert (about["apiVersion"], about["kind"], about["namespace"], about["name"]) == (
        "model.kubedl.io/v1alpha1",
        "Model",
        namespace,
        "resnet",
    )


async def test_a_very_long_message_is_cut_not_lost(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    resource = await subject.store.create(model(namespace))
    await subject.store.record(_event(resource, "Failed", "x" * 5000))
    (event,) = await subject.events(namespace)
    assert event["message"].startswith("x" * 1000)


def _event(resource: Model, reason: str, message: str) -> Event:
    metadata = resource.metadata
    identity = (resource.api_version, resource.kind, metadata.namespace, metadata.name, metadata.uid)
    return Event(*identity, "Normal", reason, message)
