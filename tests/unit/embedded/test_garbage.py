"""Deletion with finalizers, owners and namespaces."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.unit.embedded.api import MODELS, Client

from modelwright.adapters.embedded.garbage import FOREGROUND, Policy, Reaper
from modelwright.adapters.embedded.history import Key
from modelwright.adapters.embedded.objects import Objects
from modelwright.adapters.embedded.transaction import Transaction, decode

NOW = "2024-02-29T12:00:00Z"
HOLD = "example.com/hold"


def owner(value: dict[str, Any], *, block: bool = True, **other: str) -> dict[str, Any]:
    meta = value["metadata"]
    head = {"apiVersion": value["apiVersion"], "kind": value["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**head, "blockOwnerDeletion": block, **other}


async def deleted(api: Client, name: str, policy: str = "Background", **more: Any) -> Any:
    answer = await api.ask("DELETE", f"{MODELS}/{name}", {"propagationPolicy": policy, **more})
    assert answer.status == 200, answer.body
    return answer.json


async def left(api: Client) -> list[str]:
    return [item["metadata"]["name"] for item in (await api.get(MODELS)).json["items"]]


async def release(api: Client, name: str) -> None:
    assert (await api.merge(f"{MODELS}/{name}", {"metadata": {"finalizers": None}})).status == 200


@pytest.mark.anyio
async def test_a_chain_goes_at_once(api: Client) -> None:
    value = await api.make("m-000")
    for number in range(1, 300):
        value = await api.make(f"m-{number:03}", ownerReferences=[owner(value)])
    status = await deleted(api, "m-000")
    assert status["status"] == "Success"
    assert await left(api) == []


@pytest.mark.anyio
async def test_what_has_another_owner_stays_with_that_one(api: Client) -> None:
    first, second = await api.make("first"), await api.make("second")
    await api.make("child", ownerReferences=[owner(first), owner(second)])
    for policy, kept in (("Foreground", "first"), ("Background", "second")):
        await deleted(api, kept, policy)
        if kept == "first":
            child = (await api.get(f"{MODELS}/child")).json
            assert child["metadata"]["ownerReferences"] == [owner(second)]
    assert await left(api) == []


@pytest.mark.anyio
async def test_an_owner_that_is_gone_already_takes_a_newcomer_along(api: Client) -> None:
    former = await api.make("former")
    await deleted(api, "former")
    await api.make("late", ownerReferences=[owner(former)])
    assert await left(api) == []


@pytest.mark.anyio
async def test_an_owner_of_an_unknown_kind_is_taken_on_trust(api: Client) -> None:
    stranger = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "some-uid"}
    await api.make("child", ownerReferences=[stranger])
    assert await left(api) == ["child"]


@pytest.mark.anyio
async def test_a_namesake_of_the_owner_is_not_the_owner(api: Client) -> None:
    former = await api.make("owner")
    await api.make("child", finalizers=[HOLD], ownerReferences=[owner(former)])
    await deleted(api, "owner")
    await api.make("owner")
    await release(api, "child")
    assert await left(api) == ["owner"]


@pytest.mark.anyio
async def test_in_the_foreground_the_owner_waits_for_what_blocks_it(api: Client) -> None:
    value = await api.make("owner")
    await api.make("blocking", ownerReferences=[owner(value)], finalizers=[HOLD])
    await api.make("free", ownerReferences=[owner(value, block=False)])
    kept = await deleted(api, "owner", "Foreground")
    assert kept["metadata"]["finalizers"] == [FOREGROUND]
    assert await left(api) == ["blocking", "owner"]
    await release(api, "blocking")
    assert await left(api) == []


@pytest.mark.anyio
async def test_in_the_foreground_what_does_not_block_is_not_waited_for(api: Client) -> None:
    value = await api.make("owner")
    await api.make("held", ownerReferences=[owner(value, block=False)], finalizers=[HOLD])
    await deleted(api, "owner", "Foreground")
    assert await left(api) == ["held"]
    await release(api, "held")
    assert await left(api) == []


@pytest.mark.anyio
async def test_patience_can_end_a_foreground_deletion_is_made_a_background_one(api: Client) -> None:
    value = await api.make("owner")
    await api.make("blocking", ownerReferences=[owner(value)], finalizers=[HOLD])
    await deleted(api, "owner", "Foreground")
    await deleted(api, "owner", "Background")
    assert await left(api) == ["blocking"]


@pytest.mark.anyio
async def test_the_time_and_the_generation_of_a_deletion_are_set_once(api: Client) -> None:
    await api.make("held", finalizers=[HOLD])
    first = await deleted(api, "held")
    assert first["metadata"]["deletionTimestamp"] == NOW
    assert first["metadata"]["deletionGracePeriodSeconds"] == 0
    assert first["metadata"]["generation"] == 2
    assert await deleted(api, "held") == first


@pytest.mark.anyio
async def test_preconditions_protect_a_namesake_and_a_newer_version(api: Client) -> None:
    value = await api.make("m")
    uid, version = value["metadata"]["uid"], value["metadata"]["resourceVersion"]
    for wrong in ({"uid": "another"}, {"resourceVersion": "1"}, {"uid": uid, "resourceVersion": "999"}):
        answer = await api.ask("DELETE", f"{MODELS}/m", {"preconditions": wrong})
        assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    await deleted(api, "m", preconditions={"uid": uid, "resourceVersion": version})
    assert await left(api) == []


# Against the rules, at random ---------------------------------------------------------------------------------------

NAMES = "abcdef"


class ReaperMachine(RuleBasedStateMachine):
    """Any graph of owners, circles too: nothing owned by nobody stays, nothing owned by somebody goes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="reaper-"))
        self.runner = asyncio.Runner()
        self.objects = Objects.open(self.folder / "state.db")
        self.count = 0

    def teardown(self) -> None:
        self.runner.run(self.objects.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    def reap(self, change: Any) -> None:
        async def write() -> None:
            await self.objects.write(lambda transaction: change(transaction, Reaper(transaction, NOW, known)))

        self.runner.run(write())

    @rule(name=st.sampled_from(NAMES), hold=st.booleans())
    def create(self, name: str, *, hold: bool) -> None:
        self.count += 1
        metadata: dict[str, Any] = {"name": name, "uid": f"uid-{self.count}", "generation": 1}
        if hold:
            metadata["finalizers"] = [HOLD]

        def change(transaction: Transaction, _: Reaper) -> None:
            if transaction.get(at(name)) is None:
                transaction.put(at(name), {"metadata": metadata})

        self.reap(change)

    @rule(name=st.sampled_from(NAMES), others=st.lists(st.sampled_from(NAMES), max_size=3), block=st.booleans())
    def own(self, name: str, others: list[str], *, block: bool) -> None:
        def change(transaction: Transaction, reaper: Reaper) -> None:
            entry = transaction.get(at(name))
            if entry is None:
                return
            value = decode(entry)
            found = [entry for other in others if (entry := transaction.get(at(other))) is not None]
            value["metadata"]["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "Thing", "name": "x", "uid": entry.uid, "blockOwnerDeletion": block}
                for entry in dict.fromkeys(found)
            ]
            transaction.put(at(name), value)
            reaper.settle(at(name))

        self.reap(change)

    @rule(name=st.sampled_from(NAMES), policy=st.sampled_from(["Background", "Foreground", "Orphan"]))
    def delete(self, name: str, policy: Policy) -> None:
        def change(transaction: Transaction, reaper: Reaper) -> None:
            if transaction.get(at(name)) is not None:
                reaper.delete(at(name), policy)

        self.reap(change)

    @rule(name=st.sampled_from(NAMES))
    def let_go(self, name: str) -> None:
        def change(transaction: Transaction, reaper: Reaper) -> None:
            entry = transaction.get(at(name))
            if entry is None:
                return
            value = decode(entry)
            value["metadata"]["finalizers"] = [f for f in value["metadata"].get("finalizers", []) if f != HOLD]
            transaction.put(at(name), value)
            reaper.settle(at(name))

        self.reap(change)

    @invariant()
    def nothing_is_left_that_should_be_gone(self) -> None:
        values = [decode(entry) for entry in self.objects.snapshot("things")]
        uids = {value["metadata"]["uid"] for value in values}
        for value in values:
            metadata = value["metadata"]
            owners = metadata.get("ownerReferences") or []
            finalizers = metadata.get("finalizers") or []
            alive = [ref for ref in owners if ref["uid"] in uids]
            if metadata.get("deletionTimestamp"):
                assert finalizers, "nothing holds it"
                if finalizers == [FOREGROUND]:
                    assert self.blockers(values, metadata["uid"]), "nothing blocks it"
            elif owners:
                assert alive, "all its owners are gone"

    def blockers(self, values: list[dict[str, Any]], uid: str) -> list[str]:
        references = [(value, ref) for value in values for ref in value["metadata"].get("ownerReferences") or []]
        return [v["metadata"]["name"] for v, ref in references if ref["uid"] == uid and ref["blockOwnerDeletion"]]

    @rule()
    def everything_can_go(self) -> None:
        """With all holds let go and all deleted, nothing stays: no circle keeps itself alive."""
        for name in NAMES:
            self.let_go(name)
        for name in NAMES:
            self.delete(name, "Foreground")
        assert self.objects.snapshot("things") == []


def at(name: str) -> Key:
    return ("things", "default", name)


def known(api_version: str, kind: str) -> bool:
    return (api_version, kind) == ("v1", "Thing")


ReaperMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestReaper = ReaperMachine.TestCase
