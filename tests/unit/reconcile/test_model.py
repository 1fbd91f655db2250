"""What a Model says of its versions."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.unit.reconcile.make import DIGEST, NOW, built, model, seconds, state, version

from modelwright.api.meta import OwnerReference
from modelwright.api.model import LatestVersion
from modelwright.api.model_version import ModelVersion, ModelVersionStatus
from modelwright.reconcile.model import Observed, reconcile
from modelwright.reconcile.plan import Plan


def test_the_version_that_finished_last_is_the_latest() -> None:
    versions = (built("mv-9", finished=NOW), built("mv-1", finished=NOW + seconds(1)))
    status = reconcile(model(), Observed(versions=versions), NOW).status
    assert status.latest_version.model_version == "mv-1"
    assert status.versions == 2


def test_the_name_decides_between_two_that_finished_at_once() -> None:
    status = reconcile(model(), Observed(versions=(built("mv-2"), built("mv-1"))), NOW).status
    assert status.latest_version.model_version == "mv-2"


def test_a_version_without_an_image_is_never_the_latest() -> None:
    status = reconcile(model(), Observed(versions=(version("mv-3"), built("mv-1"))), NOW).status
    assert status.latest_version.model_version == "mv-1"
    assert reconcile(model(), Observed(versions=(version("mv-3"),)), NOW).status.latest_version is None


def test_a_version_that_is_being_deleted_is_not_the_latest() -> None:
    going = built("mv-9", finished=NOW + seconds(9))
    going = msgspec.structs.replace(going, metadata=msgspec.structs.replace(going.metadata, deletion_timestamp=NOW))
    status = reconcile(model(), Observed(versions=(going, built("mv-1"))), NOW).status
    assert status.latest_version.model_version == "mv-1"


def test_nothing_differs_the_second_time() -> None:
    observed = Observed(versions=(built("mv-1"),))
    first = reconcile(model(), observed, NOW).status
    again = reconcile(msgspec.structs.replace(model(), status=first), observed, NOW + seconds(60)).status
    assert again == first
    assert state(first.conditions) == {"Ready": "True", "Reconciling": "False", "Stalled": "False"}


def owned(subject: ModelVersion, uid: str, **changes: Any) -> ModelVersion:
    """The version as its Model of this UID owns it."""
    reference = OwnerReference(api_version="model.kubedl.io/v1alpha1", kind="Model", name="digits", uid=uid)
    metadata = msgspec.structs.replace(subject.metadata, owner_references=(reference,), **changes)
    return msgspec.structs.replace(subject, metadata=metadata)


def test_a_model_of_the_same_name_takes_nothing_over_from_a_former_one() -> None:
    """What the former one owned is on its way out with it, although the garbage collector may not have come yet."""
    left_over = owned(built("mv-9", finished=NOW + seconds(9)), "former-uid")
    own = owned(built("mv-1"), "model-uid")
    status = reconcile(model(), Observed(versions=(left_over, own)), NOW).status
    assert (status.latest_version.model_version, status.versions) == ("mv-1", 1)


def test_versions_that_were_there_first_count_before_they_are_adopted() -> None:
    status = reconcile(model(), Observed(versions=(built("mv-1"), version("mv-2"))), NOW).status
    assert (status.latest_version.model_version, status.versions) == ("mv-1", 2)


def test_a_version_that_is_being_deleted_does_not_count() -> None:
    going = owned(built("mv-2"), "model-uid", deletion_timestamp=NOW)
    status = reconcile(model(), Observed(versions=(going, built("mv-1"))), NOW).status
    assert status.versions == 1
    assert status.conditions[0].message == "1 version, the latest is mv-1"


def test_the_latest_has_a_digest_and_not_just_an_image() -> None:
    """A failed build has a finish time, and a rebuilt one may have a name for its image: neither makes an image."""
    named = version("mv-9", status=ModelVersionStatus(image="modelhub/digits:v1", finish_time=NOW + seconds(9)))
    status = reconcile(model(), Observed(versions=(named, built("mv-1"))), NOW).status
    assert status.latest_version == LatestVersion(
        model_version="mv-1", image_name="modelhub/digits:mv-1", image_digest=DIGEST
    )


def test_without_its_latest_version_the_one_before_is_the_latest_again() -> None:
    both = (built("mv-1"), built("mv-2", finished=NOW + seconds(1)))
    first = msgspec.structs.replace(model(), status=reconcile(model(), Observed(versions=both), NOW).status)
    assert first.status.latest_version.model_version == "mv-2"  # type: ignore[union-attr]
    after = reconcile(first, Observed(versions=both[:1]), NOW).status
    assert after.latest_version.model_version == "mv-1"
    assert reconcile(first, Observed(versions=()), NOW).status.latest_version is None


def test_a_model_that_is_being_deleted_says_nothing_more() -> None:
    """Each write would get in the way of the garbage collector, which is taking its finalizer away."""
    assert reconcile(model(deletion_timestamp=NOW), Observed(versions=(built(),)), NOW) == Plan()


def test_a_suspended_model_is_left_as_it_is() -> None:
    suspended = model(annotations={"modelwright.dev/suspend": "true"})
    assert reconcile(suspended, Observed(versions=(built(),)), NOW).untouched
