"""Which kinds are run here, by the programs that their workloads are. (`ports.capabilities.PROGRAMS`)"""

from __future__ import annotations

from modelwright.ports.capabilities import Capabilities
from modelwright.reconcile.findings import Finding

KINDS: tuple[tuple[str, str], ...] = (
    ("buildImage", "ModelVersion"),
    ("modelServer", "InferenceModel"),
    ("command", "TrainingModel"),
    ("gateway", "JointInferenceService"),
)
"""The program without which nothing of a kind can be done."""


def not_run_here(kind: str, program: str, capabilities: Capabilities) -> Finding | None:
    """Said of a resource whose program is none of this place's; `kind` says what it is, in the user's words."""
    if program in capabilities.programs:
        return None
    known = ", ".join(["Model", *(name for needed, name in KINDS if needed in capabilities.programs)])
    return Finding(
        "NotImplemented",
        f"{kind} is not run by this operator, which runs {known} on this cluster: "
        "`modelwright up` runs every kind on one machine, from the same manifests",
    )
