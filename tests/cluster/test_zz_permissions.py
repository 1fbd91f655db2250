"""What the operator may do, beside what it did in all tests before: run last, it sees the audit log of them all."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.cluster.audit import Right, compare, granted, report, usage
from tests.cluster.operator import USER, Operator, roles
from tests.cluster.rig.waiting import until
from tests.cluster.work import built, said_of_kinds_not_run_here, version_on_node

TAKEN = "asked for only if what is to be created is there already: a predecessor made it a moment before it was killed"
APPLIED = "asked for when server-side apply makes what is not there yet; the audit log calls that patch"
INLINE = "asked for only if a JointInferenceService spells one of its inline models anew, or leaves it"
CHANGED = "asked for only if an InferenceModel stops needing it while it is served, or others have made it first"
SOMETIMES = {
    Right("apps", "deployments", "create"): APPLIED,
    Right("", "services", "create"): APPLIED,
    Right("policy", "poddisruptionbudgets", "create"): APPLIED,
    Right("sedna.io", "inferencemodels", "patch"): INLINE,
    Right("sedna.io", "inferencemodels", "delete"): INLINE,
    Right("apps", "deployments", "delete"): CHANGED,
    Right("", "services", "delete"): CHANGED,
    Right("policy", "poddisruptionbudgets", "delete"): CHANGED,
    Right("", "pods", "get"): TAKEN,
    Right("batch", "jobs", "get"): TAKEN,
    Right("", "persistentvolumeclaims", "get"): TAKEN,
    Right("", "persistentvolumes", "get"): TAKEN,
    Right("", "pods/log", "get"): "asked for only while a build runs for longer than its progress is not looked at",
    Right("", "events", "get"): "asked for only if an Event is to be counted up that a predecessor wrote",
    Right("", "events", "patch"): "asked for only if the same thing happens to an object again",
}
"""Each right of which it depends on the moment whether a test run makes use of it, and why it is granted.

The tests of faults, which kill the operator at every write, use all of them; they have an API server of their own.
"""
SERVING = ("deployments", "services", "poddisruptionbudgets", "pods", "pods/log", "nodes", "inferencemodels")
"""What is asked for to serve: nothing of it where this file is run alone."""
NEVER = ("secrets", "pods/exec", "pods/attach", "pods/portforward", "nodes/proxy", "serviceaccounts/token")
"""No right on any of these, whatever it is used for."""


def test_nothing_was_refused_and_every_right_is_used_or_has_a_reason(operator: Operator, namespace: str) -> None:
    # What is always used, so that this does not hang on which tests ran before.
    assert built(operator.cluster, "mv-1", namespace)
    assert said_of_kinds_not_run_here(operator.cluster, namespace)
    operator.cluster.apply(version_on_node(operator.cluster, "mv-2", "/models/missing"), namespace=namespace)
    listed = Right("", "events", "list")
    until(lambda: listed in usage(operator.cluster.audit_events(), USER).used, "a build's Events to be read", pause=1.0)

    used = usage(operator.cluster.audit_events(), USER)
    comparison = compare(used, granted(roles(operator.cluster)))
    print(report(comparison, SOMETIMES))
    assert comparison.refused == {}, "used, and not granted"
    served = Right("apps", "deployments", "patch") in used.used
    unexplained = {right for right in comparison.unused - SOMETIMES.keys() if served or right.resource not in SERVING}
    assert unexplained == set(), "granted, never used, and without a written reason"
    assert SOMETIMES.keys() - comparison.unused - comparison.used.keys() == set(), "a reason for what is not granted"


def test_no_right_is_on_secrets_or_leads_to_other_rights(operator: Operator) -> None:
    rights = granted(roles(operator.cluster)).names
    assert [right for right in rights if "*" in (right.group, right.resource, right.verb)] == []
    assert [right for right in rights if right.resource in NEVER] == []
    assert [right for right in rights if right.verb in ("escalate", "bind", "impersonate", "deletecollection")] == []


@pytest.mark.parametrize("resource", ["customresourcedefinitions", "leases"])
def test_rights_on_what_others_share_are_limited_to_names(operator: Operator, resource: str) -> None:
    rights = granted(roles(operator.cluster)).names
    assert all(names for right, names in rights.items() if right.resource == resource)


def test_the_report_can_be_printed_for_a_running_cluster(operator: Operator) -> None:
    from tests.cluster.rig.state import state_file

    command = [sys.executable, "-m", "tests.cluster.audit", str(state_file(operator.cluster.name))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "update leases.coordination.k8s.io" in done.stdout
