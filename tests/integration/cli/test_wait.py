"""wait ends when the object is as wanted, at once when waiting is no use, and in time."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.apiserver.kubectl import Kubectl
from tests.integration.cli.support import DEADLINE_SECONDS, Cli
from tests.integration.cli.test_objects import apply, model, on_terminal

JSON = dict[str, Any]


def set_status(kubectl: Kubectl, *conditions: JSON, **more: Any) -> None:
    patch = json.dumps({"status": {"conditions": list(conditions), **more}})
    kubectl.run("patch", "mo", "resnet", "--subresource=status", "--type=merge", "-p", patch)


def condition(type_: str, status: str, *, observed: int = 1, reason: str = "Because", message: str = "") -> JSON:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": observed,
        "lastTransitionTime": "2024-02-29T12:00:00Z",
    }


def test_wait_ends_when_the_condition_is_met(cli: Cli, kubectl: Kubectl) -> None:
    apply(cli, model())
    with cli.start("wait", "--for=condition=Ready", "mo/resnet") as process:
        set_status(kubectl, condition("Ready", "False"), condition("Reconciling", "True"))
        set_status(kubectl, condition("Ready", "True"))
        stdout, stderr = process.communicate(timeout=DEADLINE_SECONDS)
    assert (process.returncode, stdout, stderr) == (0, "model.model.kubedl.io/resnet condition met\n", "")


def test_wait_ends_at_once_when_the_object_is_stalled(cli: Cli, kubectl: Kubectl) -> None:
    apply(cli, model())
    set_status(kubectl, condition("Stalled", "True", reason="NoRegistry", message="Name a registry."))
    complaint = cli.fail("wait", "mo", "resnet")
    assert complaint == "error: model.model.kubedl.io/resnet is stalled: NoRegistry: Name a registry.\n"
    assert "condition met" in cli.run("wait", "mo/resnet", "--for=condition=Stalled")


def test_wait_does_not_believe_what_is_said_of_an_older_spec(cli: Cli, kubectl: Kubectl) -> None:
    apply(cli, model())
    set_status(kubectl, condition("Ready", "True"), condition("Stalled", "True"))
    apply(cli, model(description="changed"))
    assert "has not got condition Ready=True after 0 s" in cli.fail("wait", "mo/resnet", "--timeout=0")
    set_status(kubectl, condition("Ready", "True", observed=2))
    assert "condition met" in cli.run("wait", "mo/resnet", "--timeout=0")


def test_wait_says_how_far_it_was_when_time_ran_out(cli: Cli, kubectl: Kubectl) -> None:
    apply(cli, model())
    set_status(kubectl, condition("Ready", "False", reason="Building", message="It is being built."))
    assert "Building: It is being built." in cli.fail("wait", "mo/resnet", "--timeout=0.1s")


def test_wait_for_a_status_other_than_true(cli: Cli, kubectl: Kubectl) -> None:
    apply(cli, model())
    set_status(kubectl, condition("Ready", "False"))
    assert "condition met" in cli.run("wait", "mo/resnet", "--for=condition=ready=false")


def test_wait_for_what_does_not_exist(cli: Cli) -> None:
    assert "does not exist" in cli.fail("wait", "mo/none")
    assert cli.run("wait", "mo/none", "--for=delete") == "model.model.kubedl.io/none deleted\n"


def test_a_terminal_shows_how_far_it_is_on_a_line_that_goes_away(cli: Cli, kubectl: Kubectl) -> None:
    apply(cli, model())
    set_status(kubectl, condition("Ready", "True"))
    assert "condition met" in on_terminal(cli, "wait", "mo/resnet")
