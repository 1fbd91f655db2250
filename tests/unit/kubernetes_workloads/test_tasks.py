"""Whose word counts where many may write objects: what a Task is put together from."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes_workloads.support import JSON, OWNER, RESULT, at, terminated

from modelwright.adapters.kubernetes.access import Access
from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.workloads.labels import owner_of
from modelwright.adapters.kubernetes.workloads.mirror import Mirror
from modelwright.adapters.kubernetes.workloads.tasks import Mirrors, Tasks
from modelwright.ports.job import Report

NAME = "resnet-3-build-1"
_versions = itertools.count(1)


class Place:
    """Tasks over mirrors that are filled by hand, as the API server would tell them."""

    def __init__(self) -> None:
        client = KubernetesClient(Access(server="http://127.0.0.1:1", source="a test"))
        self.mirrors = Mirrors(client, lambda _uid: None)
        self.tasks = Tasks(self.mirrors)

    def put(self, mirror: Mirror[Any], body: JSON) -> None:
        mirror.wrote(mirror.decode(msgspec.json.encode(body)))

    def job(self, namespace: str, uid: str, name: str = NAME) -> None:
        self.put(self.mirrors.jobs, {"metadata": metadata(namespace, name, uid)})

    def claim(self, namespace: str, uid: str, phase: str, age: float) -> None:
        body = {"metadata": {**metadata(namespace, NAME, uid), "creationTimestamp": ago(age)}}
        self.put(self.mirrors.claims, {**body, "status": {"phase": phase}})

    def pod(self, namespace: str, uid: str, job: str, digest: str = RESULT.digest, *, by_label: bool = False) -> None:
        """A Pod that has succeeded, of this Job; or one that only wears its labels."""
        said = metadata(namespace, uid, uid)
        said["labels"] |= {"batch.kubernetes.io/job-name": NAME, "batch.kubernetes.io/controller-uid": job}
        said["ownerReferences"] = [] if by_label else [{"uid": job, "controller": True}]
        report = Report(result=msgspec.structs.replace(RESULT, digest=digest))
        status = {"phase": "Succeeded", "containerStatuses": [terminated(message=report)]}
        self.put(self.mirrors.pods, {"metadata": said, "status": status})

    def digest(self) -> str:
        """What is said of the one Task of the owner."""
        (status,) = self.tasks.statuses(OWNER.uid)
        return status.result.digest if status.result is not None else status.phase


def ago(seconds: float) -> str:
    """A real time: that of the tasks is the clock's."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def metadata(namespace: str, name: str, uid: str) -> JSON:
    labels = {"app.kubernetes.io/managed-by": "modelwright", "modelwright.dev/owner-uid": OWNER.uid}
    annotations = {
        "modelwright.dev/owner-api-version": OWNER.api_version,
        "modelwright.dev/owner-kind": OWNER.kind,
        "modelwright.dev/owner-namespace": OWNER.namespace,
        "modelwright.dev/owner-name": OWNER.name,
    }
    said: JSON = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(next(_versions))}
    return {**said, "labels": labels, "annotations": annotations, "creationTimestamp": at(60)}


@pytest.fixture
def place() -> Place:
    return Place()


def test_a_build_of_another_namespace_says_nothing_of_a_version_that_it_claims_to_be_for(place: Place) -> None:
    place.job("attacker", "j-forged")
    place.pod("attacker", "p-forged", "j-forged", "sha256:evil")
    assert place.digest() == "Pending"  # nobody has said yet where the owner lives
    place.tasks.know(OWNER)
    assert place.tasks.statuses(OWNER.uid) == ()
    place.job("vision", "j")
    assert place.digest() == "Pending"
    place.pod("vision", "p", "j")
    assert place.digest() == RESULT.digest


@pytest.mark.parametrize("first", ["aaa", "zzz"])
def test_it_makes_no_difference_who_is_seen_first(place: Place, first: str) -> None:
    place.job(first, "j-forged")
    place.pod(first, "p-forged", "j-forged", "sha256:evil")
    place.job("vision", "j")
    place.pod("vision", "p", "j")
    place.tasks.know(OWNER)
    assert place.digest() == RESULT.digest


@pytest.mark.parametrize(("namespace", "by_label"), [("attacker", False), ("attacker", True), ("vision", True)])
def test_a_pod_that_the_job_has_not_made_says_nothing_of_it(place: Place, namespace: str, *, by_label: bool) -> None:
    place.tasks.know(OWNER)
    place.job("vision", "j")
    place.pod(namespace, "p", "j", "sha256:evil", by_label=by_label)
    assert place.digest() == "Pending"


def test_a_child_is_for_somebody_of_its_own_namespace_whatever_it_says(place: Place) -> None:
    place.job("attacker", "j-forged")
    assert [owner.namespace for owner in place.tasks.owners()] == ["attacker"]
    place.tasks.know(OWNER)
    place.job("vision", "j")
    assert owner_of(place.mirrors.jobs.get("vision", NAME)) == OWNER  # type: ignore[arg-type]
    assert list(place.tasks.owners_of(OWNER.uid)) == [OWNER]


def test_all_that_claims_to_be_of_a_task_goes_with_it(place: Place) -> None:
    place.tasks.know(OWNER)
    for namespace in ("attacker", "vision"):
        place.job(namespace, f"j-{namespace}")
    found = place.tasks.everywhere(OWNER.uid, NAME)
    assert sorted(parts.job.metadata.namespace for parts in found if parts.job) == ["attacker", "vision"]


@pytest.mark.parametrize(
    ("phase", "age", "reason"),
    [("Pending", 40, ""), ("", 70, "VolumeNotBound"), ("Pending", 70, "VolumeNotBound"), ("Bound", 70, "")],
)
def test_a_claim_that_finds_no_volume_is_told_although_there_is_no_job_yet(
    place: Place, phase: str, age: float, reason: str
) -> None:
    place.tasks.know(OWNER)
    place.claim("vision", "c", phase, age)
    (status,) = place.tasks.statuses(OWNER.uid)
    assert (status.phase, status.failure.reason if status.failure else "") == ("Pending", reason)
    if status.failure is not None:
        assert f"kubectl describe pvc -n vision {NAME}" in status.failure.message
