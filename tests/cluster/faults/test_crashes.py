"""The operator may be killed around any write of a build's life: what comes of it is the same, and is made once.

Every write, and before, during (done, and not told) and after each, for files on a node; for NFS, whose writes are the
same, one of the three moments at each write.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.faults.faults import MOMENTS, Moment
from tests.cluster.faults.operator import OperatorProcess
from tests.cluster.faults.plane import Plane
from tests.cluster.faults.registry import Registry
from tests.cluster.faults.sweep import Case, CrashSweep, Trace
from tests.cluster.faults.world import MODELS, NFS, VERSIONS, World, world

from modelwright.adapters.kubernetes.client import JSON

pytestmark = pytest.mark.anyio
FRUITLESS = 4
"""Rounds in which nothing crashed, until it is believed that a write is not made any more."""

SWEEP_SECONDS = 300.0
UNSTABLE = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "lastTransitionTime", "finishTime"}
Step = tuple[str, Moment]


async def test_a_crash_around_any_write_leads_to_the_same_end(plane: Plane, registry: Registry, tmp_path: Path) -> None:
    async with world(plane, registry, tmp_path) as stage:
        story = Story(stage, None)
        writes = await story.undisturbed()
        assert len(writes) >= 8, writes
        await story.sweep([(write, moment) for write in writes for moment in MOMENTS])


async def test_a_crash_around_any_write_leads_to_the_same_end_with_nfs(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    async with world(plane, registry, tmp_path) as stage:
        story = Story(stage, NFS)
        writes = await story.undisturbed()
        await story.sweep([(write, MOMENTS[number % 3]) for number, write in enumerate(writes)])


class Story:
    """Builds from one kind of storage: one that nothing happens to, and many that are disturbed."""

    def __init__(self, stage: World, storage: JSON | None) -> None:
        self._stage = stage
        self._storage = storage
        self._operator: OperatorProcess = stage.operator()
        self._made = 0

    async def undisturbed(self) -> list[str]:
        """Build one; its writes. What it came to is what all others are compared with."""
        name = self._next_name()
        self._operator.start()
        await self._stage.apply(self._version(name))
        await self._stage.built(name)
        self._operator.kill()
        self._reference = await self._end(name)
        return Trace().writes(self._stage.proxy.calls, name)

    async def sweep(self, steps: Sequence[Step]) -> None:
        """Build one for each step, with a crash there; then look at all of them.

        A write that the crash of another made needless, as of an Event that waited, is tried again on other builds:
        where nothing crashes, every write is made.
        """
        left, names, fruitless = list(steps), list[str](), 0
        while left:
            cases = [Case(self._next_name(), write, moment) for write, moment in left]
            names += [case.name for case in cases]
            await self._disturb(cases)
            left = [(case.write, case.moment) for case in cases if not case.fired]
            fruitless = fruitless + 1 if len(left) == len(cases) else 0
            assert fruitless < FRUITLESS, left
        for name in names:
            assert differences(self._reference, await self._end(name)) == "", name
        await self._quiet(names)

    async def _disturb(self, cases: Sequence[Case]) -> None:
        stage = self._stage
        sweep = CrashSweep(cases, self._kill)
        stage.proxy.faults = [sweep]
        await stage.apply(*(self._version(case.name) for case in cases))
        self._operator.start()

        async def over() -> bool:
            return all([case.fired or await stage.is_built(case.name) for case in cases])

        await stage.until(over, "all crashes", SWEEP_SECONDS)
        await stage.built(*(case.name for case in cases))
        stage.proxy.faults = []
        assert sweep.kills == sum(case.fired for case in cases)

    def _kill(self) -> None:
        self._operator.kill()
        self._operator.start()

    async def _end(self, name: str) -> JSON:
        """What it came to in the end, without what differs from one to the next."""
        stage, repository = self._stage, self._stage.repository(name)
        version, model = await stage.get(VERSIONS, name), await stage.get(MODELS, f"{name}-model")
        return {
            "version": _masked(version, name),
            "model": _masked(model, name),
            "builds": [build.exit_code for build in stage.kubelet.of(version["metadata"]["uid"])],
            "tags": stage.registry.tags(repository),
            "manifests": stage.registry.manifests(repository),
            "uploads": stage.registry.uploads(repository),
        }

    async def _quiet(self, names: Sequence[str]) -> None:
        """A new operator finds nothing to do: what it writes until a new version is built is about that alone."""
        stage = self._stage
        self._operator.kill()
        before = len(stage.proxy.calls)
        self._operator.start()
        last = self._next_name()
        await stage.apply(self._version(last))
        await stage.built(last)
        self._operator.kill()
        trace = Trace()
        writes = [call for call in stage.proxy.calls[before:] if call.write]
        assert [str(call) for call in writes if trace.whose(call) != last] == []

    def _version(self, name: str) -> JSON:
        return self._stage.version(name, self._storage, imageTag="v1")

    def _next_name(self) -> str:
        self._made += 1
        return f"case-{self._made:03}"


def differences(expected: JSON, seen: JSON) -> str:
    """Line by line; empty if there are none."""
    before, after = (json.dumps(each, indent=1, sort_keys=True).splitlines() for each in (expected, seen))
    return "\n".join(difflib.unified_diff(before, after, "expected", "seen", lineterm=""))


def _masked(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _masked(inner, name) for key, inner in value.items() if key not in UNSTABLE}
    if isinstance(value, list):
        return [_masked(inner, name) for inner in value]
    return re.sub(name, "CASE", value) if isinstance(value, str) else value
