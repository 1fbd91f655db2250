"""What the operator may do, beside what it did in all tests before: run last, it sees the audit log of them all."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.cluster.audit import Right, compare, granted, report, usage
from tests.cluster.operator import USER, Operator, roles

UNUSED: dict[Right, str] = {}
"""Each right that is granted although no test makes use of it, and why it is."""
NEVER = ("secrets", "pods/exec", "pods/attach", "pods/portforward", "nodes/proxy", "serviceaccounts/token")
"""No right on any of these, whatever it is used for."""


def test_nothing_was_refused_and_every_right_is_used_or_has_a_reason(operator: Operator) -> None:
    comparison = compare(usage(operator.cluster.audit_events(), USER), granted(roles(operator.cluster)))
    print(report(comparison, UNUSED))
    assert comparison.refused == {}, "used, and not granted"
    assert comparison.unused - UNUSED.keys() == set(), "granted, never used, and without a written reason"
    assert UNUSED.keys() - comparison.unused == set(), "has a reason for being unused, and is used or not granted"


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
