"""What is said of CRDs: ours, others', missing, not ready, or older than the operator."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.contract.foreign import kubedl_model_versions, kubedl_models, sedna_inference_models

from modelwright.api.crd import crd
from modelwright.api.kinds import INFERENCE_MODEL, KINDS, MODEL, MODEL_VERSION
from modelwright.operator.definitions import Finding, State, examine, hindrance, lost, outdated

JSON = dict[str, Any]
ESTABLISHED = {"conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]}


def installed(definition: JSON) -> JSON:
    return {**definition, "status": ESTABLISHED}


def all_but(*others: Finding) -> list[Finding]:
    """What is found where all other CRDs are ours."""
    names = {other.name for other in others}
    good = [examine(kind, installed(crd(kind))) for kind in KINDS if kind.crd_name not in names]
    return [*good, *others]


def test_our_own_crds_are_usable_and_lack_nothing() -> None:
    findings = all_but()
    assert {finding.state for finding in findings} == {State.USABLE}
    assert hindrance(findings) == lost(findings) == outdated(findings) == ""


@pytest.mark.parametrize(
    ("kind", "definition"),
    [(MODEL, kubedl_models()), (MODEL_VERSION, kubedl_model_versions()), (INFERENCE_MODEL, sedna_inference_models())],
    ids=lambda each: getattr(each, "kind", ""),
)
def test_a_crd_without_our_label_is_foreign_whatever_else_it_is(kind: Any, definition: JSON) -> None:
    finding = examine(kind, installed(definition))
    assert finding.state is State.FOREIGN
    told = hindrance(all_but(finding))
    assert kind.crd_name in told
    assert ("KubeDL" if kind.group == "model.kubedl.io" else "Sedna") in told
    assert lost(all_but(finding)) == told


def test_another_value_of_the_label_is_foreign_too() -> None:
    definition = copy.deepcopy(installed(crd(MODEL)))
    definition["metadata"]["labels"] = {"app.kubernetes.io/part-of": "kubedl"}
    assert examine(MODEL, definition).state is State.FOREIGN


def test_while_one_is_foreign_nothing_else_is_asked_for() -> None:
    told = hindrance([examine(MODEL, kubedl_models()), examine(MODEL_VERSION, None)])
    assert "nothing is touched" in told
    assert "modelversions" not in told


def test_a_missing_crd_is_waited_for_and_its_loss_ends_the_work() -> None:
    missing = examine(MODEL, None)
    assert "models.model.kubedl.io is missing" in hindrance(all_but(missing))
    assert "models.model.kubedl.io is missing" in lost(all_but(missing))


def unserved(definition: JSON) -> None:
    definition["spec"]["versions"][0]["served"] = False


def renamed(definition: JSON) -> None:
    definition["spec"]["versions"][0]["name"] = "v1"


def leaving(definition: JSON) -> None:
    definition["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def accepted_only(definition: JSON) -> None:
    definition["status"] = {"conditions": [{"type": "Established", "status": "False"}]}


def just_made(definition: JSON) -> None:
    del definition["status"]


@pytest.mark.parametrize("change", [unserved, renamed, leaving, accepted_only, just_made])
def test_a_crd_that_is_not_ready_is_waited_for_and_ends_no_work_that_has_begun(change: Any) -> None:
    definition = copy.deepcopy(installed(crd(MODEL)))
    change(definition)
    finding = examine(MODEL, definition)
    assert finding.state is State.PENDING
    assert "models.model.kubedl.io" in hindrance(all_but(finding))
    assert lost(all_but(finding)) == ""


def test_fields_that_an_older_crd_lacks_are_told_by_their_paths() -> None:
    definition = copy.deepcopy(installed(crd(MODEL_VERSION)))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del schema["spec"]["properties"]["lineage"]["properties"]["datasets"]["items"]["properties"]["digest"]
    del schema["status"]["properties"]["progress"]
    finding = examine(MODEL_VERSION, definition)
    assert finding.state is State.USABLE
    assert finding.missing == (".spec.lineage.datasets[].digest", ".status.progress")
    assert "lacks .spec.lineage.datasets[].digest, .status.progress" in outdated(all_but(finding))


def test_a_newer_crd_is_not_called_old() -> None:
    definition = copy.deepcopy(installed(crd(MODEL)))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"]["properties"]["fromTheFuture"] = {"type": "string"}
    assert examine(MODEL, definition).missing == ()


def test_what_an_older_crd_lacks_is_not_told_without_end() -> None:
    told = outdated([Finding("x", State.USABLE, missing=tuple(f".spec.f{number}" for number in range(12)))])
    assert ".spec.f4 and 7 more" in told
    assert ".spec.f5" not in told
