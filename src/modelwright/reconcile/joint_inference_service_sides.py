"""The two models of a JointInferenceService, each as it is wanted and as it is seen."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

import msgspec

from modelwright.api.inference_model import InferenceModel, InferenceModelSpec
from modelwright.api.joint_inference_service import JointInferenceService, JointModel, JointModelStatus
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.workloads import Failure, ServerStatus, Upstream
from modelwright.reconcile import conditions, urls

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
    upstream: Upstream = Upstream()
    """How to ask there: what goes with the address."""
    unspoken: str = ""
    """The field by which the model asks for more than the gateway speaks here; empty if it does not."""
    runs_in: Layer | None = None
    """Where it runs; of one that has gone, where it did."""
    fault: Failure | None = None
    """Why the gateway cannot use it, although it answers."""

    @property
    def field(self) -> str:
        """Where the spec speaks of it."""
        return f"{self.layer}Model"

    @property
    def available(self) -> bool:
        """Whether somebody who asks it now is answered, as it says itself."""
        if self.seen is None or self.unspoken:
            return False
        return bool(self.seen.status.url) and conditions.is_true(self.seen.status.conditions, "Available")

    @property
    def answers(self) -> bool:
        """Whether it is of use to the gateway now."""
        return self.available and self.fault is None

    @property
    def status(self) -> JointModelStatus:
        """What the status of the service says of it."""
        return JointModelStatus(
            name=self.name,
            url=self.url,
            ready=self.answers,
            layer=self.runs_in,
            token_secret=self.upstream.token_secret,
            tls_secret=self.upstream.tls_secret,
        )


def side_of(
    jis: JointInferenceService,
    layer: Layer,
    found: InferenceModel | None,
    gateway: ServerStatus | None,
    capabilities: Capabilities,
) -> Side:
    """The model of a layer; `found` is the InferenceModel of its name."""
    wanted = wanted_model(jis, layer)
    foreign = found if wanted.spec is not None and found is not None and not is_controlled(found, jis) else None
    seen = None if foreign is not None else found
    url, upstream = asked(jis, layer, seen)
    here = bool(capabilities.single_node)
    return Side(
        layer=layer,
        name=model_name(jis, layer),
        spec=wanted.spec,
        seen=seen,
        foreign=foreign,
        url=url,
        upstream=Upstream() if here else upstream,
        runs_in=layer_of(jis, layer, seen),
        unspoken=secured(seen) if here and seen is not None else "",
        fault=next((each.failure for each in gateway.asked if each.side == layer), None) if gateway else None,
    )


def wanted_model(jis: JointInferenceService, layer: Layer) -> JointModel:
    return jis.spec.edge_model if layer == "edge" else jis.spec.cloud_model


def model_name(jis: JointInferenceService, layer: Layer) -> str:
    """The InferenceModel to ask: the one that is named, else the one that is made of the inline spec."""
    return wanted_model(jis, layer).name or made_name(jis, layer)


def made_name(jis: JointInferenceService, layer: Layer) -> str:
    """`NAME-edge` or `NAME-cloud`, the name cut where that is too long."""
    return jis.metadata.name[: NAME_LIMIT - len(layer) - 1].rstrip("-.") + f"-{layer}"


def asked(jis: JointInferenceService, layer: Layer, seen: InferenceModel | None) -> tuple[str, Upstream]:
    """Where and how to ask: what the model says, else what the gateway was told last, else what it will be.

    An address and what it asks for belong together; one that is down for a while changes neither.
    """
    if seen is not None and seen.status.url:
        return url_of_model(seen), upstream_of(seen.spec)
    before = before_of(jis, layer)
    if before is not None and before.url:
        return before.url, Upstream(token_secret=before.token_secret, tls_secret=before.tls_secret)
    spec = seen.spec if seen is not None else wanted_model(jis, layer).spec
    return "", upstream_of(spec) if spec is not None else Upstream()


def layer_of(jis: JointInferenceService, layer: Layer, seen: InferenceModel | None) -> Layer | None:
    """The layer of the model itself: one that is named may be of the other."""
    spec = seen.spec if seen is not None else wanted_model(jis, layer).spec
    if spec is not None:
        return spec.deploy_to_layer
    before = before_of(jis, layer)
    return before.layer if before is not None else None


def url_of_model(model: InferenceModel) -> str:
    """Where the model answers; of an image that is known of its server alone, and it is asked by the model's name."""
    url = model.status.url
    return url if urlsplit(url).path else url + urls.model_path(model.spec.model_name)


def upstream_of(spec: InferenceModelSpec) -> Upstream:
    """What somebody needs who asks a model of this spec."""
    return Upstream(
        token_secret=spec.auth.token_secret if spec.auth is not None else "",
        tls_secret=spec.tls.secret if spec.tls is not None else "",
    )


def before_of(jis: JointInferenceService, layer: Layer) -> JointModelStatus | None:
    """The model as the status has it."""
    return jis.status.edge_model if layer == "edge" else jis.status.cloud_model


def asked_before(jis: JointInferenceService, layer: Layer) -> str:
    """The address that the gateway was told last, as the status has it."""
    before = before_of(jis, layer)
    return before.url if before is not None else ""


def is_controlled(model: InferenceModel, jis: JointInferenceService) -> bool:
    """Whether the model was made for this very service."""
    return any(owner.controller and owner.uid == jis.metadata.uid for owner in model.metadata.owner_references)


def secured(model: InferenceModel) -> str:
    """The field by which the model asks for more than plain requests; empty if it does not."""
    if model.spec.auth is not None:
        return "auth"
    return "tls" if model.spec.tls is not None else ""
