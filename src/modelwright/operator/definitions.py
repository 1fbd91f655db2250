"""Whether the cluster's CRDs are ours: others have kinds of the same names, whose objects are not ours to touch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import msgspec

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient
from modelwright.adapters.kubernetes.resource import CRDS
from modelwright.api.crd import PART_OF, crd
from modelwright.api.kind import Kind
from modelwright.api.kinds import KINDS
from modelwright.ports.errors import NotFound

OTHERS = {"model.kubedl.io": "KubeDL", "sedna.io": "Sedna"}
"""Who else has kinds in these groups."""
INSTALL = "kubectl apply --server-side --field-manager=modelwright -f deploy/install.yaml"
"""By a name of its own, so that CRDs that others applied on the server are a conflict, and not overwritten."""
SHOWN = 5


class State(Enum):
    """How one CRD stands; only a usable one is worked with."""

    USABLE = "usable"
    MISSING = "missing"
    PENDING = "pending"
    FOREIGN = "foreign"


class Finding(msgspec.Struct, frozen=True):
    """What is to be said of one CRD; `missing` are the fields that this operator knows and the CRD does not."""

    name: str
    state: State
    message: str = ""
    missing: tuple[str, ...] = ()


class Definitions:
    """Looks at the CRDs of our kinds."""

    def __init__(self, client: KubernetesClient, kinds: Sequence[Kind] = KINDS) -> None:
        self._client = client
        self._kinds = kinds

    async def look(self) -> tuple[Finding, ...]:
        """All of them, in the order of the kinds. Raises what the client raises."""
        return tuple([examine(kind, await self._get(kind)) for kind in self._kinds])

    async def _get(self, kind: Kind) -> JSON | None:
        try:
            return await self._client.get(CRDS, "", kind.crd_name)
        except NotFound:
            return None


def examine(kind: Kind, found: JSON | None) -> Finding:
    """How the CRD of a kind stands; None: there is none."""
    name = kind.crd_name
    if found is None:
        return Finding(name, State.MISSING, f"the CRD {name} is missing")
    labels = found["metadata"].get("labels") or {}
    if any(labels.get(label) != value for label, value in PART_OF.items()):
        return Finding(name, State.FOREIGN, f"the CRD {name} is {_whose(kind)}")
    if found["metadata"].get("deletionTimestamp"):
        return Finding(name, State.PENDING, f"the CRD {name} is being deleted")
    version = next((each for each in found["spec"]["versions"] if each["name"] == kind.version), None)
    if version is None or not version.get("served"):
        return Finding(name, State.PENDING, f"the CRD {name} does not serve {kind.version}")
    if not _established(found):
        return Finding(name, State.PENDING, f"the CRD {name} is not established yet")
    return Finding(name, State.USABLE, missing=missing_fields(kind, version))


def missing_fields(kind: Kind, version: JSON) -> tuple[str, ...]:
    """Paths of the fields that this operator knows and this version of a CRD does not, none below another."""
    ours = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return tuple(_missing(ours, (version.get("schema") or {}).get("openAPIV3Schema") or {}, ""))


def _missing(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    known = theirs.get("properties") or {}
    for name, schema in (ours.get("properties") or {}).items():
        if name in known:
            yield from _missing(schema, known[name], f"{path}.{name}")
        elif not theirs.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{path}.{name}"
    for step in ("items", "additionalProperties"):
        below, there = ours.get(step), theirs.get(step)
        if isinstance(below, dict) and isinstance(there, dict):
            yield from _missing(below, there, path + ("[]" if step == "items" else "{}"))


def _established(found: JSON) -> bool:
    conditions = (found.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _whose(kind: Kind) -> str:
    label = ", ".join(f"{label}: {value}" for label, value in PART_OF.items())
    other = OTHERS.get(kind.group)
    return f"not ours: it lacks the label {label}" + (f", so it may be {other}'s" if other else "")


# What to say --------------------------------------------------------------------------------------------------------


def hindrance(findings: Sequence[Finding]) -> str:
    """Why the CRDs cannot be worked with, and what to do; empty if they can."""
    foreign = [finding.message for finding in findings if finding.state is State.FOREIGN]
    if foreign:
        return (
            f"nothing is touched: {'; '.join(foreign)}. To move: save its objects (kubectl get NAME -A -o yaml), stop"
            " what worked with them, delete that CRD and install ours; docs/operator.md leads through it"
        )
    wanting = [finding.message for finding in findings if finding.state is not State.USABLE]
    if wanting:
        return f"waiting: {'; '.join(wanting)}. Install them: {INSTALL}, or the Helm chart"
    return ""


def lost(findings: Sequence[Finding]) -> str:
    """Why work that had begun must stop: a CRD has gone, or is another's now. Empty if it need not."""
    return hindrance([each for each in findings if each.state in (State.FOREIGN, State.MISSING)])


def outdated(findings: Sequence[Finding]) -> str:
    """Which CRDs are older than this operator, and what to do; empty if none is."""
    old = [f"{each.name} lacks {_some(each.missing)}" for each in findings if each.missing]
    if not old:
        return ""
    return f"older than this operator: {'; '.join(old)}. What is missing cannot be used: apply the CRDs of this release"


def _some(fields: tuple[str, ...]) -> str:
    rest = len(fields) - SHOWN
    return ", ".join(fields[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
