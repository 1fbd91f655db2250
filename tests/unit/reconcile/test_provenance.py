"""What a build is told of how a version came to be, and what that must not change."""

from __future__ import annotations

import msgspec
from tests.unit.reconcile.make import DIGEST, HERE, NOW, UID, built, model, only_workload, version

from modelwright.api.lineage import Lineage, LineageDataset, SourceCode
from modelwright.api.model_version import ModelVersion
from modelwright.ports.workloads import BuildImage, Material, Provenance, Task
from modelwright.reconcile.model_version import Observed, reconcile

MADE = Lineage(
    training_model="t",
    parents=("mv-0", "lost"),
    datasets=(LineageDataset(name="d", uri="https://data.test/d", digest=DIGEST),),
    source=SourceCode(repo="https://code.test/a", revision="main"),
    parameters={"lr": "0.1"},
    metrics={"loss": 0.5},
)


def task(subject: ModelVersion, *parents: ModelVersion) -> Task:
    observed = Observed(model=model(), tasks=(), capabilities=HERE, parents=parents)
    found = only_workload(reconcile(subject, observed, NOW))
    assert isinstance(found, Task)
    return found


def told(subject: ModelVersion, *parents: ModelVersion) -> Provenance | None:
    action = task(subject, *parents).action
    assert isinstance(action, BuildImage)
    return action.provenance


def test_all_that_the_spec_says_is_told_with_the_digests_of_base_versions() -> None:
    base = built("mv-0")
    assert told(version(created_by="TrainingModel/t", lineage=MADE), base) == Provenance(
        namespace="default",
        name="mv-1",
        uid=UID,
        model_name="digits",
        created_by="TrainingModel/t",
        training_model="t",
        parents=(
            Material(name="mv-0", uri=f"127.0.0.1:5000/modelhub/digits@{DIGEST}", digest=DIGEST),
            Material(name="lost"),
        ),
        datasets=(Material(name="d", uri="https://data.test/d", digest=DIGEST),),
        source=Material(name="main", uri="https://code.test/a"),
        parameters={"lr": "0.1"},
        metrics={"loss": 0.5},
    )


def test_a_version_that_says_nothing_has_nothing_attached() -> None:
    assert told(version()) is None
    assert told(version(created_by="ann")) is not None
    assert told(version(lineage=Lineage())) is not None


def test_a_base_without_an_image_is_named_only() -> None:
    found = told(version(lineage=Lineage(parents=("mv-0",))), version("mv-0"))
    assert found
    assert found.parents == (Material(name="mv-0"),)


def test_what_becomes_known_while_a_build_runs_starts_no_second_one() -> None:
    subject = version(lineage=MADE)
    before, after = task(subject), task(subject, built("mv-0"))
    assert before.name == after.name
    assert before != after


def test_what_is_attached_has_no_part_in_the_name_of_the_build() -> None:
    assert task(version(lineage=MADE)).name == task(version()).name
    assert task(version(base_image="busybox")).name != task(version()).name


def test_a_source_without_anything_is_none() -> None:
    found = told(version(lineage=Lineage(source=SourceCode())))
    assert found
    assert found.source is None
    assert msgspec.json.decode(msgspec.json.encode(found), type=Provenance) == found
