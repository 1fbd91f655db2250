"""What the operator asked of the API server, beside what it may ask: from the audit log and its roles.

    python -m tests.cluster.audit STATE_FILE

A right is a verb on a resource (with its subresource) of a group. https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from tests.cluster.rig import state
from tests.cluster.rig.cluster import Cluster


class Right(msgspec.Struct, frozen=True, order=True):
    """A verb on a resource; `resource` has its subresource after a slash."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


class Usage(msgspec.Struct, frozen=True):
    """How often each right was used; and by right and name of the object, the URI of a request that was refused."""

    used: dict[Right, int]
    refused: dict[tuple[Right, str], str]


class Grant(msgspec.Struct, frozen=True):
    """Every right that is granted, and to which names alone where that is limited."""

    names: dict[Right, tuple[str, ...]]

    def covers(self, right: Right, name: str) -> bool:
        """Whether the right is granted, and on the object of this name."""
        return right in self.names and (not self.names[right] or name in self.names[right])


class Comparison(msgspec.Struct, frozen=True):
    """Used rights and those that were never used, both as they are granted; and what was refused and is not granted."""

    used: dict[Right, int]
    unused: frozenset[Right]
    refused: dict[Right, str]


def usage(events: Iterable[dict[str, Any]], user: str) -> Usage:
    """What this user asked for. A request that ran into an admission rule was not refused for want of a right."""
    used: Counter[Right] = Counter()
    refused: dict[tuple[Right, str], str] = {}
    seen: set[str] = set()
    for event in events:
        reference = event.get("objectRef") or {}
        if event["user"].get("username") != user or "resource" not in reference or event["auditID"] in seen:
            continue
        seen.add(event["auditID"])  # a watch is told of twice: when it begins, and when it ends
        right = _right(reference, event["verb"])
        if (event.get("annotations") or {}).get("authorization.k8s.io/decision") == "allow":
            used[right] += 1
        else:
            refused[right, reference.get("name", "")] = event["requestURI"]
    return Usage(dict(used), refused)


def granted(roles: Iterable[dict[str, Any]]) -> Grant:
    """What these roles grant."""
    return Grant(
        {
            Right(group, resource, verb): tuple(rule.get("resourceNames") or ())
            for role in roles
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
    )


def compare(usage: Usage, grant: Grant) -> Comparison:
    """What of the granted rights was used, and which would have been.

    A right that is granted is refused all the same for a moment after the API server was started: it answers before it
    has read the roles.
    """
    unused = frozenset(right for right in grant.names if right not in usage.used)
    refused = {right: uri for (right, name), uri in usage.refused.items() if not grant.covers(right, name)}
    return Comparison(usage.used, unused, refused)


def report(comparison: Comparison, reasons: dict[Right, str]) -> str:
    """The comparison for people: a line for each right."""
    lines = [f"{count:7}  {right}" for right, count in sorted(comparison.used.items())]
    lines += [f" unused  {right}: {reasons.get(right, 'WITHOUT A REASON')}" for right in sorted(comparison.unused)]
    lines += [f"REFUSED  {right}: {request}" for right, request in sorted(comparison.refused.items())]
    return "\n".join(lines)


def _right(reference: dict[str, Any], verb: str) -> Right:
    subresource = f"/{reference['subresource']}" if reference.get("subresource") else ""
    return Right(reference.get("apiGroup", ""), reference["resource"] + subresource, verb)


def main() -> None:
    """The command."""
    from tests.cluster.operator import USER, roles
    from tests.cluster.test_zz_permissions import SOMETIMES

    cluster = Cluster.of(state.read(Path(sys.argv[1])))
    comparison = compare(usage(cluster.audit_events(), USER), granted(roles(cluster)))
    print(report(comparison, SOMETIMES))


if __name__ == "__main__":
    main()
