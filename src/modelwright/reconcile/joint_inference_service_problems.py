"""What keeps a model of a JointInferenceService from answering, one check for each fault."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from modelwright.api.inference_model import InferenceModel, InferenceModelSpec
from modelwright.api.joint_inference_service import JointInferenceService
from modelwright.reconcile import conditions
from modelwright.reconcile.joint_inference_service_sides import Side


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Reason and message of a condition; `stalled` if only a person mends it."""

    reason: str
    message: str
    stalled: bool = False
    warn: bool = False
    """Whether it is worth a Warning although nobody has to act."""


Check = Callable[[JointInferenceService, Side], Problem | None]


def problem_of(jis: JointInferenceService, side: Side) -> Problem | None:
    """What the first check that finds something says."""
    return next((found for check in CHECKS if (found := check(jis, side)) is not None), None)


def name_is_taken(jis: JointInferenceService, side: Side) -> Problem | None:
    if side.foreign is None:
        return None
    if is_of_a_former_service(side.foreign, jis):
        return not_ready(side, f"InferenceModel {side.name} of a former {jis.metadata.name} is still being removed")
    text = (
        f"InferenceModel {side.name} exists, and was not made for this JointInferenceService: delete it, "
        f"or ask it as it is with {side.field}: {{name: {side.name}}}"
    )
    return Problem(reason="InferenceModelNameTaken", message=text, stalled=True)


def is_of_a_former_service(model: InferenceModel, jis: JointInferenceService) -> bool:
    """Whether it was made for a service of this name that has been deleted, and goes with that."""
    return any(
        owner.controller and (owner.kind, owner.name) == (jis.kind, jis.metadata.name)
        for owner in model.metadata.owner_references
    )


def is_asked_twice(jis: JointInferenceService, side: Side) -> Problem | None:
    """The schema's rules see names only, not those that inline models get."""
    named = jis.spec.edge_model.name or jis.spec.cloud_model.name
    if side.spec is None or named != side.name:
        return None
    text = f"InferenceModel {side.name} is the edge model and the cloud model at once: name two"
    return Problem(reason="SameModel", message=text, stalled=True)


def is_missing(jis: JointInferenceService, side: Side) -> Problem | None:
    if side.seen is not None:
        return None
    if side.spec is not None:
        return not_ready(side, f"InferenceModel {side.name} is being made")
    text = (
        f"InferenceModel {side.name} does not exist in namespace {jis.metadata.namespace}: "
        f"create it, or name another in {side.field}"
    )
    return Problem(reason="EdgeModelNotFound" if side.layer == "edge" else "CloudModelNotFound", message=text)


def is_being_deleted(_: JointInferenceService, side: Side) -> Problem | None:
    if side.seen is None or side.seen.metadata.deletion_timestamp is None:
        return None
    return not_ready(side, f"InferenceModel {side.name} is being deleted")


def wants_more_than_plain_requests(_: JointInferenceService, side: Side) -> Problem | None:
    if not side.unspoken:
        return None
    field = side.unspoken
    text = f"InferenceModel {side.name} asks for {field}, which the gateway does not speak: remove {field} from it"
    return Problem(reason="NotImplemented", message=text, stalled=True)


def has_no_replicas(_: JointInferenceService, side: Side) -> Problem | None:
    if side.available or side.seen is None or side.seen.spec.replicas:
        return None
    reason = "EdgeModelScaledToZero" if side.layer == "edge" else "CloudModelScaledToZero"
    text = f"InferenceModel {side.name} has replicas 0: raise them to have it answer"
    return Problem(reason=reason, message=text, stalled=True)


def is_stalled(_: JointInferenceService, side: Side) -> Problem | None:
    if side.available or side.seen is None:
        return None
    told = conditions.find(side.seen.status.conditions, "Stalled")
    if told is None or told.status != "True":
        return None
    reason = "EdgeModelStalled" if side.layer == "edge" else "CloudModelStalled"
    return Problem(reason=reason, message=f"InferenceModel {side.name}: {told.message}", stalled=True)


def does_not_answer(_: JointInferenceService, side: Side) -> Problem | None:
    if side.available or side.seen is None:
        return None
    told = conditions.headline(side.seen.status.conditions)
    why = f": {told.message}" if told is not None and told.type != "Ready" else ""
    return not_ready(side, f"InferenceModel {side.name} does not answer yet{why}")


def is_of_no_use_to_the_gateway(_: JointInferenceService, side: Side) -> Problem | None:
    if side.fault is None:
        return None
    text = f"the gateway cannot use InferenceModel {side.name}: {side.fault.message}{way_there(side)}"
    return Problem(reason=side.fault.reason, message=text, stalled=not side.fault.retryable, warn=True)


def way_there(side: Side) -> str:
    """What to do where the address of the model is one of the cluster's own network, as the end of a sentence."""
    if side.seen is None or side.seen.spec.deploy_to_layer != "cloud" or not is_inside(side.seen):
        return ""
    return (
        f"; {side.url} is known inside the cluster alone, and a gateway at the edge is outside: "
        f"have it exposed by service.type LoadBalancer or NodePort"
    )


def is_inside(model: InferenceModel) -> bool:
    """Whether the model can be reached from inside the cluster only."""
    ready = conditions.find(model.status.conditions, "Ready")
    return model.spec.service.type == "ClusterIP" or (ready is not None and ready.reason == "NotExposed")


def is_not_yet_what_is_inline(_: JointInferenceService, side: Side) -> Problem | None:
    """An inline model is part of this spec: it is realised when the model is, although an older version answers."""
    if side.spec is None or side.seen is None or is_realised(side.seen, side.spec):
        return None
    told = conditions.headline(side.seen.status.conditions)
    why = f": {told.message}" if told is not None and told.type != "Ready" else ""
    text = f"InferenceModel {side.name} answers, and is not yet what {side.field}.spec says{why}"
    if told is not None and told.type == "Stalled" and is_up_to_date(side.seen, side.spec):
        return Problem(reason=f"{side.layer.capitalize()}ModelStalled", message=text, stalled=True)
    return not_ready(side, text)


def is_up_to_date(model: InferenceModel, spec: InferenceModelSpec) -> bool:
    """Whether what the model says is about this spec."""
    return model.spec == spec and model.status.observed_generation == model.metadata.generation


def is_realised(model: InferenceModel, spec: InferenceModelSpec) -> bool:
    return is_up_to_date(model, spec) and conditions.is_true(model.status.conditions, "Ready")


def not_ready(side: Side, text: str) -> Problem:
    """It is on its way: nothing to do but wait."""
    return Problem(reason="EdgeModelNotReady" if side.layer == "edge" else "CloudModelNotReady", message=text)


CHECKS: tuple[Check, ...] = (
    is_asked_twice,
    name_is_taken,
    is_missing,
    is_being_deleted,
    wants_more_than_plain_requests,
    has_no_replicas,
    is_stalled,
    does_not_answer,
    is_of_no_use_to_the_gateway,
    is_not_yet_what_is_inline,
)
