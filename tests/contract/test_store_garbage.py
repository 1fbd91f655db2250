"""What goes away with its owner. A bare kube-apiserver has no garbage collector, so it is not asked."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from tests.contract.subjects import DEADLINE_SECONDS, Subject

from modelwright.api.meta import Metadata, OwnerReference
from modelwright.api.model import Model
from modelwright.ports.errors import NotFound

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("subject", ["embedded", "kubernetes-on-embedded"], indirect=True),
]


async def create(subject: Subject, namespace: str, name: str, *owners: Model) -> Model:
    references = tuple(
        OwnerReference(owner.api_version, owner.kind, owner.metadata.name, owner.metadata.uid) for owner in owners
    )
    metadata = Metadata(name=name, namespace=namespace, owner_references=references)
    return await subject.store.create(Model(metadata=metadata))


async def gone(subject: Subject, resource: Model) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            try:
                await subject.store.get(Model, resource.metadata.namespace, resource.metadata.name)
            except NotFound:
                return
            await asyncio.sleep(0.02)


async def test_what_is_owned_goes_with_its_owner_and_so_on(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    owner = await create(subject, namespace, "owner")
    child = await create(subject, namespace, "child", owner)
    grandchild = await create(subject, namespace, "grandchild", child)
    other = await create(subject, namespace, "other")
    await subject.store.delete(owner)
    await gone(subject, child)
    await gone(subject, grandchild)
    assert await subject.store.get(Model, namespace, "other") == other


async def test_what_has_two_owners_stays_until_both_are_gone(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    first, second = await create(subject, namespace, "first"), await create(subject, namespace, "second")
    child = await create(subject, namespace, "child", first, second)
    lone = await create(subject, namespace, "lone", first)
    await subject.store.delete(first)
    await gone(subject, lone)  # collected in the same sweep
    await subject.store.get(Model, namespace, "child")
    await subject.store.delete(second)
    await gone(subject, child)


async def test_what_is_owned_by_a_former_namesake_goes(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    former = await create(subject, namespace, "owner")
    await subject.store.delete(former)
    await create(subject, namespace, "owner")
    child = await create(subject, namespace, "child", former)
    await gone(subject, child)


async def test_a_finalizer_holds_what_is_owned_too(subject: Subject) -> None:
    namespace = await subject.make_namespace()
    owner = await create(subject, namespace, "owner")
    child = await create(subject, namespace, "child", owner)
    held = replace(child, metadata=replace(child.metadata, finalizers=("modelwright.dev/test",)))
    await subject.store.update_metadata(held)
    await subject.store.delete(owner)
    await gone(subject, owner)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while (child := await subject.store.get(Model, namespace, "child")).metadata.deletion_timestamp is None:
            await asyncio.sleep(0.02)
    await subject.store.update_metadata(replace(child, metadata=replace(child.metadata, finalizers=())))
    await gone(subject, child)
