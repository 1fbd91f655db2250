"""Random writes, failures, restarts: the objects and their watchers against a model that is a plain list of changes.

What a watcher sees is checked as etcd's robustness tests check it: ordered, unique, atomic, reliable, resumable,
with the right previous object, creations told from changes, and only of its own resource.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.embedded.test_objects import Gate, key

from modelwright.adapters.embedded.history import Change, Key
from modelwright.adapters.embedded.objects import Objects
from modelwright.adapters.embedded.transaction import Transaction, decode
from modelwright.ports.errors import Expired, NotFound, Unavailable

RESOURCES = ("models", "others")
KEEP = 12

one_write = st.tuples(
    st.sampled_from(["put", "put", "remove", "spoil", "dry"]),
    st.sampled_from([key(name, resource) for resource in RESOURCES for name in "abc"]),
    st.integers(0, 3),
)
batches = st.lists(one_write, min_size=1, max_size=6)
State = dict[Key, int]


def write(kind: str, at: Key, colour: int) -> Any:
    def change(transaction: Transaction) -> None:
        if kind == "remove":
            if transaction.get(at) is None:
                raise NotFound("nothing to remove")
            transaction.remove(at)
            return
        known = transaction.get(at)
        uid = known.uid if known else f"{at}-{transaction.mark()}-{id(transaction)}"
        transaction.put(at, {"metadata": {"name": at[2], "uid": uid}, "colour": colour})
        if kind == "spoil":
            raise NotFound("as planned")

    return change


class ObjectsMachine(RuleBasedStateMachine):
    """`log` is every change that was acknowledged, as (version, type, key, colour)."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="objects-"))
        self.runner = asyncio.Runner()
        self.gate = Gate()
        self.log: list[tuple[int, str, Key, int]] = []
        self.resumed_from = 0
        self.objects = self.open()

    def open(self) -> Objects:
        return Objects.open(self.folder / "state.db", keep=KEEP, connect=self.gate.connect)

    def teardown(self) -> None:
        self.runner.run(self.objects.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    def run_batch(self, batch: list[tuple[str, Key, int]]) -> list[Any]:
        async def all_at_once() -> list[Any]:
            writes = (self.objects.write(write(*item), dry_run=item[0] == "dry") for item in batch)
            return await asyncio.gather(*writes, return_exceptions=True)

        return self.runner.run(all_at_once())

    def state(self, version: int | None = None) -> State:
        state: State = {}
        for at_version, type_, at, colour in self.log:
            if version is None or at_version <= version:
                state[at] = colour
                if type_ == "DELETED":
                    del state[at]
        return state

    @rule(batch=batches)
    def write_together(self, batch: list[tuple[str, Key, int]]) -> None:
        state = self.state()
        for (kind, at, colour), result in zip(batch, self.run_batch(batch), strict=True):
            if kind == "spoil" or (kind == "remove" and at not in state):
                assert isinstance(result, NotFound)
                continue
            assert result is None
            if kind == "dry":
                continue
            type_ = "DELETED" if kind == "remove" else "MODIFIED" if at in state else "ADDED"
            colour = state.pop(at) if kind == "remove" else colour
            self.log.append((len(self.log) + 1, type_, at, colour))
            if kind != "remove":
                state[at] = colour

    @rule(batch=batches)
    def write_on_a_full_disk(self, batch: list[tuple[str, Key, int]]) -> None:
        self.gate.fill()
        big = ("put", key("big"), 0)

        async def all_at_once() -> list[Any]:
            def too_big(transaction: Transaction) -> None:
                transaction.put(big[1], {"metadata": {"name": "big", "uid": "big"}, "note": "x" * 60_000})

            writes = [self.objects.write(write(*item)) for item in batch]
            return await asyncio.gather(*writes, self.objects.write(too_big), return_exceptions=True)

        assert all(isinstance(result, Unavailable) for result in self.runner.run(all_at_once()))
        self.gate.free()

    @rule()
    def restart(self) -> None:
        self.runner.run(self.objects.close())
        self.objects = self.open()
        self.resumed_from = self.objects.history.compacted

    @invariant()
    def what_is_published_is_what_was_acknowledged(self) -> None:
        assert self.objects.version == len(self.log)
        for resource in RESOURCES:
            assert self.listed(resource, None) == {k: v for k, v in self.state().items() if k[0] == resource}

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        version = data.draw(st.integers(0, len(self.log)))
        resource = data.draw(st.sampled_from(RESOURCES))
        try:
            seen = self.objects.history.since(version, resource)
        except Expired:
            forgotten = [v for v, _, at, _ in self.log if at[0] == resource and v <= self.objects.history.compacted]
            assert version < max([self.resumed_from, *forgotten])
            return
        self.validate(seen, version, resource)
        assert self.listed(resource, version) == {k: v for k, v in self.state(version).items() if k[0] == resource}

    @invariant()
    def enough_is_kept(self) -> None:
        assert len(self.log) - self.objects.history.compacted >= min(len(self.log), KEEP)

    def validate(self, seen: list[Change], version: int, resource: str) -> None:
        expected = [item for item in self.log if item[0] > version and item[2][0] == resource]
        assert [(c.version, c.type, c.key, decode(c.entry)["colour"]) for c in seen] == expected
        for change in seen:
            before = self.state(change.version - 1).get(change.key)
            assert (decode(change.previous)["colour"] if change.previous else None) == before
            assert decode(change.entry)["metadata"]["resourceVersion"] == str(change.version)

    def listed(self, resource: str, version: int | None) -> State:
        entries = self.objects.snapshot(resource, at=version)
        return {key(decode(e)["metadata"]["name"], resource): decode(e)["colour"] for e in entries}


ObjectsMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestObjects = ObjectsMachine.TestCase
