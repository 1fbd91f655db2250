"""What a Model says of its versions."""

from __future__ import annotations

import msgspec
from tests.unit.reconcile.make import NOW, built, model, seconds, state, version

from modelwright.reconcile.model import Observed, reconcile


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
