"""JointInferenceService: an edge model and a cloud model that answer together."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from modelwright.api.fields import Label, Layer, Name, NodeSelector, Path, Port, Size, Url, doc
from modelwright.api.inference_model import InferenceModelSpec
from modelwright.api.meta import Conditions, LastHandled, Metadata, ObservedGeneration, Remarks

DEFAULT_PARAMETERS: dict[str, dict[str, float]] = {
    "confidence": {"threshold": 0.9},
    "margin": {"threshold": 0.8},
    "crossEntropy": {"threshold": 0.325},
    "random": {"probability": 0.1},
}
"""The policies that are built in: what each takes, and what that is where it is not given.

Of two classes, the three thresholds mean the same: 0.9 and 0.1 are 0.8 apart, and their entropy is 0.325 nats.
"""

_PARAMETERS = ", ".join(
    f"`{name}` of {policy} ({'0 or more' if policy == 'crossEntropy' else '0 to 1'}, {default} if absent)"
    for policy, parameters in DEFAULT_PARAMETERS.items()
    for name, default in parameters.items()
)


class JointModel(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One of the two models: exactly one of `name` and `spec`."""

    name: Annotated[Name, doc("An InferenceModel of the same namespace.")] = ""
    spec: Annotated[InferenceModelSpec | None, doc("An InferenceModel to make, inline.")] = None


class Keep(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Keeping hard examples on the edge node."""

    max_bytes: Annotated[int, Meta(ge=1), doc("How many bytes to keep; the oldest go first.")]


class HardExampleMining(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Which rows the edge model is not sure of."""

    policy: Annotated[
        Label,
        doc(f"How a row is found to be hard: {', '.join(DEFAULT_PARAMETERS)}, or the name of a plug-in."),
    ] = "confidence"
    parameters: Annotated[
        dict[str, float],
        Meta(max_length=8),
        doc(f"What the policy takes: {_PARAMETERS}."),
    ] = {}
    keep: Annotated[Keep | None, doc("Keep hard examples for the next training; none are kept if absent.")] = None


class Gateway(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The gateway on the edge."""

    node_name: Annotated[Name, doc("The node to run on; the edge model's if absent.")] = ""
    node_selector: Annotated[NodeSelector, doc("Labels that the node must have.")] = {}
    port: Annotated[Port, doc("The port to answer on. 0 or absent: 8500 on a cluster, a free one embedded.")] = 0


class JointInferenceServiceSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The two models and the gateway between them."""

    edge_model: Annotated[JointModel, doc("The model on the edge, asked first: exactly one of name and spec.")]
    cloud_model: Annotated[
        JointModel, doc("The model in the cloud, asked for hard rows: exactly one of name and spec.")
    ]
    hard_example_mining: Annotated[HardExampleMining, doc("Which rows go to the cloud.")] = HardExampleMining()
    gateway: Annotated[Gateway, doc("The gateway on the edge.")] = Gateway()
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=600), doc("How long to wait for the cloud before the edge's answer is given.")
    ] = 2.0


class JointModelStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How one of the two models is."""

    name: Annotated[Name, doc("The InferenceModel.")] = ""
    url: Annotated[Url, doc("Where the gateway asks it: the last address that is known.")] = ""
    ready: Annotated[bool, doc("Whether it can serve now.")] = msgspec.field(default_factory=bool)
    layer: Annotated[Layer | None, doc("Where it runs, as far as that is known.")] = None
    token_secret: Annotated[Name, doc("The Secret with the token that the gateway asks with.")] = ""
    tls_secret: Annotated[Name, doc("The Secret with the certificate that the gateway trusts.")] = ""


class JointInferenceServiceStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What answers now."""

    url: Annotated[Url, doc("Where the gateway answers.")] = ""
    edge_model: Annotated[JointModelStatus | None, doc("How the edge model is.")] = None
    cloud_model: Annotated[JointModelStatus | None, doc("How the cloud model is.")] = None
    node_name: Annotated[Name, doc("The node of the gateway.")] = ""
    kept_path: Annotated[Path, doc("The folder on the gateway's node that holds the kept hard examples.")] = ""
    kept_bytes: Annotated[Size, doc("How many bytes of hard examples are kept, to three digits.")] = 0
    notices: Remarks = ()
    observed_generation: ObservedGeneration = 0
    last_handled_reconcile_at: LastHandled = ""
    conditions: Conditions = ()


class JointInferenceService(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """An edge model and a cloud model behind one gateway: hard rows go to the cloud, the rest is answered at once."""

    api_version: str = "modelwright.dev/v1alpha1"
    kind: str = "JointInferenceService"
    metadata: Metadata = Metadata()
    spec: Annotated[JointInferenceServiceSpec, doc("The two models and the gateway between them.")]
    status: Annotated[JointInferenceServiceStatus, doc("What answers now.")] = JointInferenceServiceStatus()
