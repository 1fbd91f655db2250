"""Trainings that write to the same place: one after the other."""

from __future__ import annotations

from datetime import datetime
from itertools import permutations
from typing import Any

import msgspec
import pytest
from tests.unit.reconcile.make import HERE, NOW, only_workload, reason, seconds, training

from modelwright.api.storage import NFS, LocalStorage, PersistentVolumeClaim, Storage
from modelwright.api.training_model import TrainingModel
from modelwright.reconcile import conditions
from modelwright.reconcile.training_model import Observed, reconcile
from modelwright.reconcile.training_rivals import goes_first, place_of


def named(name: str, *, begun: bool = False, ready: str = "", told: str = "", at: datetime = NOW) -> TrainingModel:
    """A training of the same storage; `ready` and `told` are status and reason of its condition."""
    subject = training()
    meta = msgspec.structs.replace(subject.metadata, name=name, uid=f"uid-{name}", creation_timestamp=at)
    known = {"True": conditions.ready, "Stalled": conditions.stalled, "False": conditions.reconciling}
    said = known[ready](told, "") if ready else ()
    status = msgspec.structs.replace(subject.status, attempts=int(begun), conditions=said)
    return msgspec.structs.replace(subject, metadata=meta, status=status)


def plan(subject: TrainingModel, *rivals: TrainingModel) -> Any:
    return reconcile(subject, Observed(base=None, result=None, tasks=(), capabilities=HERE, rivals=rivals), NOW)


def test_a_training_waits_until_the_other_one_has_its_image() -> None:
    first = named("first", begun=True, ready="False", told="TrainingRunning")
    waits = plan(named("second", at=NOW - seconds(9)), first)
    assert waits.workloads == ()
    assert reason(waits.status.conditions) == "StorageInUse"
    assert "TrainingModel default/first" in conditions.find(waits.status.conditions, "Ready").message  # type: ignore[union-attr]
    assert only_workload(plan(named("second"), named("first", begun=True, ready="True", told="ModelVersionReady")))


@pytest.mark.parametrize("ready", ["True", "Stalled"])
def test_one_that_is_settled_keeps_nobody_waiting(ready: str) -> None:
    assert not goes_first(named("a", begun=True, ready=ready, told="X"), named("b"))


def test_the_older_of_two_new_ones_goes_first_unless_it_waits_for_something_else() -> None:
    old, new = named("old", at=NOW - seconds(9)), named("new")
    assert goes_first(old, new)
    assert not goes_first(new, old)
    blocked = named("old", ready="False", told="BaseModelVersionNotFound", at=NOW - seconds(9))
    assert not goes_first(blocked, new)


def test_no_two_ever_wait_for_each_other() -> None:
    reasons = ("", "TrainingPending", "StorageInUse", "BaseModelVersionNotReady", "CommandFailed")
    every = [
        named(name, begun=begun, ready="False" if told else "", told=told, at=NOW + seconds(later))
        for name in ("a", "b")
        for begun in (False, True)
        for told in reasons
        for later in (0, 1)
    ]
    for one, other in permutations(every, 2):
        assert not (one.metadata.uid != other.metadata.uid and goes_first(one, other) and goes_first(other, one))


def test_a_place_is_the_same_whatever_is_said_of_how_it_is_mounted() -> None:
    def at(storage: Storage, namespace: str = "default") -> str:
        subject = training(storage=storage)
        meta = msgspec.structs.replace(subject.metadata, namespace=namespace)
        return place_of(msgspec.structs.replace(subject, metadata=meta))

    local = [LocalStorage(path="/m"), LocalStorage(path="/m/", mount_path="/x")]
    assert len({at(Storage(local_storage=one)) for one in local}) == 1
    claim = Storage(persistent_volume_claim=PersistentVolumeClaim(claim_name="m"))
    shared = Storage(nfs=NFS(server="nas", path="/m"))
    assert at(claim, "a") != at(claim, "b")
    assert at(shared, "a") == at(shared, "b")
    assert len({at(claim), at(shared), at(Storage(local_storage=local[0]))}) == 3
