"""Whatever happens, in whatever order: one attempt at a time, none after success, Ready only with an image."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.reconcile.make import HERE, NOW, built, seconds, state, training, version

from modelwright.api.kinds import decode, kind_of, to_dict
from modelwright.api.model_version import ModelVersion, ModelVersionStatus
from modelwright.api.training_model import TrainingModel
from modelwright.ports.workloads import Failure, Steps, Task, TaskStatus
from modelwright.reconcile import conditions
from modelwright.reconcile.plan import Plan
from modelwright.reconcile.training_model import Observed, reconcile
from modelwright.reconcile.training_result import TRAINING_UID, made_by

AGAIN = "modelwright.dev/reconcile-requested-at"
STALLED = ModelVersionStatus(message="no", conditions=conditions.stalled("StorageEmpty", "no"))
FAILURES = {
    "fails": Failure(reason="CommandFailed", message="exit code 1", retryable=True),
    "fails for good": Failure(reason="OOMKilled", message="too much memory", retryable=False),
    "is interrupted": Failure(reason="Interrupted", message="it was ended", retryable=True),
    "fails without a word": None,
}
PAUSES = {"a moment goes by": 1.0, "a while goes by": 70.0, "an hour goes by": 3600.0}
BASES = {
    "the base is deleted": None,
    "the base is being built": version("base"),
    "the base has its image": built("base"),
    "the base is stalled": version("base", status=STALLED),
}
RESULTS = {"the version has its image": built().status, "the version is stalled": STALLED}
EVENTS = [*FAILURES, *PAUSES, *BASES, *RESULTS]
EVENTS += ["runs", "ends well", "the version is deleted", "somebody makes that version", "somebody asks"]
EVENTS += ["fails", "a while goes by", "an hour goes by", "the base has its image"]  # so that there are retries
DEATHS = [0, 1, 2, 3, 4, 4, 4, 4]
"""After how many kinds of step the control plane dies: children, workloads, the status, removals."""


class World:
    """A store, a place to run tasks, a clock, and a control plane that may die between any two steps."""

    def __init__(self, subject: TrainingModel) -> None:
        self.stored = subject
        self.now = NOW
        self.tasks: dict[str, TaskStatus] = {}
        self.base: ModelVersion | None = None
        self.result: ModelVersion | None = None
        self.started: list[str] = []
        self.failed = 0
        self.succeeded = False
        self.requests = 0
        self.had_image = False

    # The control plane ----------------------------------------------------------------------------------------------

    def decided(self) -> Plan:
        tasks = tuple(self.tasks[name] for name in sorted(self.tasks))
        seen = Observed(base=self.base, result=self.result, tasks=tasks, capabilities=HERE)
        return reconcile(self.stored, seen, self.now)

    def reconcile(self, steps: int) -> None:
        plan = self.decided()
        if steps > 0:
            for child in plan.create:
                self.create(child)
        if steps > 1:
            applied: tuple[Any, ...] = ()
            while plan.workloads != applied:
                for workload in plan.workloads:
                    self.apply(workload)
                applied = plan.workloads
                plan = self.decided()
        if steps > 2:
            self.stored = msgspec.structs.replace(self.stored, status=plan.status)
        if steps > 3:
            wanted = {workload.name for workload in plan.workloads} | plan.keep
            for name in self.tasks.keys() - wanted:
                del self.tasks[name]

    def create(self, child: ModelVersion) -> None:
        assert self.succeeded, "a version of a training that has not ended well"
        if self.result is None:
            assert not self.stored.status.model_version, "a version that was deleted is made again"
            self.result = child

    def apply(self, task: Any) -> None:
        assert isinstance(task, Task)
        if task.name in self.tasks:
            return
        assert not self.succeeded, "a training that ended well is run again"
        assert self.live() is None, "two attempts at once"
        assert task.name not in self.started, "an attempt is run twice"
        if self.stored.spec.base_model_version:
            assert self.base is not None
            assert self.base.status.image_digest, "a training without what it starts from"
        self.started.append(task.name)
        self.tasks[task.name] = TaskStatus(name=task.name, phase="Pending")

    # What happens ---------------------------------------------------------------------------------------------------

    def live(self) -> TaskStatus | None:
        return next((task for task in self.tasks.values() if task.phase in ("Pending", "Running")), None)

    def happen(self, event: str) -> None:
        self.now += seconds(PAUSES.get(event, 0.0))
        self.base = BASES.get(event, self.base)
        live = self.live()
        if live is not None:
            self.tasks[live.name] = self.goes_on(live, event)
        if self.result is not None and event in RESULTS:
            self.result = msgspec.structs.replace(self.result, status=RESULTS[event])
            self.had_image |= made_by(self.result, self.stored) and event == "the version has its image"
        if event in ("the version is deleted", "somebody makes that version"):
            self.result = None
        if event == "somebody makes that version":
            self.result = version("train", metadata={"labels": {TRAINING_UID: "another"}})
        if event == "somebody asks":
            self.requests += 1
            metadata = msgspec.structs.replace(self.stored.metadata, annotations={AGAIN: f"request {self.requests}"})
            self.stored = msgspec.structs.replace(self.stored, metadata=metadata)

    def goes_on(self, task: TaskStatus, event: str) -> TaskStatus:
        if event == "runs":
            steps = Steps(completed=task.steps.completed + 1 if task.steps else 0)
            return msgspec.structs.replace(
                task, phase="Running", started_at=task.started_at or self.now, steps=steps, node_name="laptop"
            )
        if event == "ends well":
            self.succeeded = True
            return msgspec.structs.replace(task, phase="Succeeded", finished_at=self.now)
        if event in FAILURES:
            self.failed += event != "is interrupted"
            return msgspec.structs.replace(task, phase="Failed", failure=FAILURES[event], finished_at=self.now)
        return task

    # What is always so ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        status, limit = self.stored.status, self.stored.spec.backoff_limit
        assert decode(kind_of(TrainingModel).type, to_dict(self.stored)) == self.stored
        assert status.failures <= min(self.failed, limit + 1)
        assert self.failed <= (limit + 1) * (1 + self.requests), "tried too often"
        found = state(self.decided().status.conditions)
        assert (found["Succeeded"] == "True") <= self.succeeded
        assert (found["Ready"] == "True") <= self.had_image
        if self.live() is None and self.succeeded:
            assert found["Succeeded"] == "True", "an end that was good is forgotten"

    def settle(self) -> None:
        """Looked at again without any change, it says the same, and asks for nothing more."""
        self.reconcile(4)
        self.reconcile(4)
        before, names = self.stored, set(self.tasks)
        self.reconcile(4)
        assert (self.stored, set(self.tasks)) == (before, names)

    def come_to_an_end(self) -> None:
        """If nothing stands against it any more, and it does not fail, it becomes Ready."""
        for event in ("the base has its image", "the version is deleted", "an hour goes by", "ends well"):
            self.happen(event)
            self.settle()
        self.happen("the version has its image")
        self.settle()
        status = self.stored.status
        assert status.phase in ("Succeeded", "Failed")
        if status.phase == "Succeeded" and self.result is not None:
            assert state(status.conditions)["Ready"] == "True"


KILLED_TWICE = [("somebody asks", 2), ("fails", 2), ("is interrupted", 0), ("a while goes by", 2), ("ends well", 0)]
"""Two attempts in a row begin, and neither is written down."""


@settings(max_examples=400, deadline=None)
@example(limit=0, deadline=0, base="", story=KILLED_TWICE)
@given(
    limit=st.integers(0, 3),
    deadline=st.sampled_from([0, 0, 100]),
    base=st.sampled_from(["", "", "base"]),
    story=st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from(DEATHS)), max_size=40),
)
def test_any_sequence(limit: int, deadline: int, base: str, story: list[tuple[str, int]]) -> None:
    subject = training(backoff_limit=limit, active_deadline_seconds=deadline, base_model_version=base)
    world = World(subject)
    for event, steps in story:
        world.happen(event)
        world.reconcile(steps)
        world.check()
    world.settle()
    world.come_to_an_end()
