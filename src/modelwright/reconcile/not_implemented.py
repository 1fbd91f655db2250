"""Kinds that are accepted and do not run yet: said in a condition, never passed over."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from modelwright.reconcile import conditions, requests
from modelwright.reconcile.plan import Plan

WHAT_TO_DO = {
    "TrainingModel": "run the training yourself, and make a ModelVersion of the folder that it writes",
    "JointInferenceService": "make two InferenceModels, one with deployToLayer edge and one with cloud",
}


def reconcile(resource: Any, now: datetime) -> Plan:
    """Stalled, with what to do instead."""
    if requests.suspended(resource):
        return Plan(untouched=True)
    message = f"{resource.kind} is not implemented in this version of Modelwright: {WHAT_TO_DO[resource.kind]}"
    generation = resource.metadata.generation
    wanted = conditions.stalled("NotImplemented", message)
    status = msgspec.structs.replace(
        resource.status,
        observed_generation=generation,
        last_handled_reconcile_at=requests.requested_at(resource),
        conditions=conditions.settle(wanted, resource.status.conditions, generation, now),
    )
    return Plan(status=status)
