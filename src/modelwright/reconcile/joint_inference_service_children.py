"""The InferenceModels that a JointInferenceService makes of its inline specs."""

from __future__ import annotations

import msgspec

from modelwright.api.inference_model import InferenceModel
from modelwright.api.joint_inference_service import JointInferenceService
from modelwright.api.meta import Metadata
from modelwright.ports.workloads import ServerStatus
from modelwright.reconcile import owners
from modelwright.reconcile.joint_inference_service_sides import Side, asked_before, made_name


def made(jis: JointInferenceService, *sides: Side) -> tuple[InferenceModel, ...]:
    """Those that are missing."""
    return tuple(
        InferenceModel(
            metadata=Metadata(
                name=side.name,
                namespace=jis.metadata.namespace,
                owner_references=(owners.owner_reference(jis),),
            ),
            spec=side.spec,
        )
        for side in sides
        if side.spec is not None and side.seen is None and side.foreign is None
    )


def respelled(*sides: Side) -> tuple[InferenceModel, ...]:
    """Those whose spec is not the inline one, with that."""
    return tuple(
        msgspec.structs.replace(side.seen, spec=side.spec)
        for side in sides
        if side.spec is not None and side.seen is not None and side.seen.spec != side.spec
    )


def superseded(
    jis: JointInferenceService,
    edge: Side,
    cloud: Side,
    owned: tuple[InferenceModel, ...],
    gateway: ServerStatus | None,
) -> tuple[InferenceModel, ...]:
    """Those that no spec asks for any more, once the gateway asks what took their place."""
    idle = gateway is None or gateway.up_to_date
    replaced = {made_name(jis, side.layer): idle and has_taken_over(jis, side) for side in (edge, cloud)}
    wanted = {edge.name, cloud.name}
    spare = (model for model in owned if model.metadata.name not in wanted)
    return tuple(model for model in spare if replaced.get(model.metadata.name, idle))


def has_taken_over(jis: JointInferenceService, side: Side) -> bool:
    """Whether the model answers, and the gateway was told its address before now."""
    return side.answers and asked_before(jis, side.layer) == side.url
