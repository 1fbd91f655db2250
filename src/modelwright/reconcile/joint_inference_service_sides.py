"""The two models of a JointInferenceService, each as it is wanted and as it is seen."""

from __future__ import annotations

from typing import Literal

import msgspec

from modelwright.api.inference_model import InferenceModel, InferenceModelSpec
from modelwright.api.joint_inference_service import JointInferenceService, JointModelStatus
from modelwright.ports.workloads import Failure, ServerStatus
from modelwright.reconcile import conditions

Layer = Literal["edge", "cloud"]
NAME_LIMIT = 253


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two models. `url` is the last address that is known: one that is down for a while changes nothing."""

    layer: Layer
    name: str
    spec: InferenceModelSpec | None
    """What to make, where the model is inline."""
    seen: InferenceModel | None
    foreign: InferenceModel | None
    """What bears the name of an inline model, and was not made for this service."""
    url: str
    fault: Failure | None = None
    """Why the gateway cannot use it, although it answers."""

    @property
    def field(self) -> str:
        """Where the spec speaks of it."""
        return f"{self.layer}Model"

    @property
    def available(self) -> bool:
        """Whether somebody who asks it now is answered, as it says itself."""
        if self.seen is None or secured(self.seen):
            return False
        return bool(self.seen.status.url) and conditions.is_true(self.seen.status.conditions, "Available")

    @property
    def answers(self) -> bool:
        """Whether it is of use to the gateway now."""
        return self.available and self.fault is None

    @property
    def status(self) -> JointModelStatus:
        """What the status of the service says of it."""
        return JointModelStatus(name=self.name, url=self.url, ready=self.answers)


def side_of(
    jis: JointInferenceService, layer: Layer, found: InferenceModel | None, gateway: ServerStatus | None
) -> Side:
    """The model of a layer; `found` is the InferenceModel of its name."""
    wanted = jis.spec.edge_model if layer == "edge" else jis.spec.cloud_model
    foreign = found if wanted.spec is not None and found is not None and not is_controlled(found, jis) else None
    seen = None if foreign is not None else found
    return Side(
        layer=layer,
        name=model_name(jis, layer),
        spec=wanted.spec,
        seen=seen,
        foreign=foreign,
        url=(seen.status.url if seen is not None else "") or asked_before(jis, layer),
        fault=next((asked.failure for asked in gateway.asked if asked.side == layer), None) if gateway else None,
    )


def model_name(jis: JointInferenceService, layer: Layer) -> str:
    """The InferenceModel to ask: the one that is named, else the one that is made of the inline spec."""
    wanted = jis.spec.edge_model if layer == "edge" else jis.spec.cloud_model
    return wanted.name or made_name(jis, layer)


def made_name(jis: JointInferenceService, layer: Layer) -> str:
    """`NAME-edge` or `NAME-cloud`, the name cut where that is too long."""
    return jis.metadata.name[: NAME_LIMIT - len(layer) - 1].rstrip("-.") + f"-{layer}"


def asked_before(jis: JointInferenceService, layer: Layer) -> str:
    """The address that the gateway was told last, as the status has it."""
    before = jis.status.edge_model if layer == "edge" else jis.status.cloud_model
    return before.url if before is not None else ""


def is_controlled(model: InferenceModel, jis: JointInferenceService) -> bool:
    """Whether the model was made for this very service."""
    return any(owner.controller and owner.uid == jis.metadata.uid for owner in model.metadata.owner_references)


def secured(model: InferenceModel) -> str:
    """The field by which the model asks for more than plain requests; empty if it does not."""
    if model.spec.auth is not None:
        return "auth"
    return "tls" if model.spec.tls is not None else ""
