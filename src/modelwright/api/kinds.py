"""The registry of kinds, and how their objects become bytes and dicts and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, overload

import msgspec

from modelwright.api.inference_model import InferenceModel
from modelwright.api.joint_inference_service import JointInferenceService
from modelwright.api.kind import Column, Kind, Misspelling, Scale
from modelwright.api.model import Model
from modelwright.api.model_version import ModelVersion
from modelwright.api.rules import inference_model, joint_inference_service, model_version, training_model
from modelwright.api.training_model import TrainingModel

R = TypeVar("R")

_READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status', description="Whether the spec is realised.")
_REASON = Column(
    "Reason", '.status.conditions[?(@.type=="Ready")].reason', priority=1, description="Why it is ready or not."
)

MODEL = Kind(
    group="model.kubedl.io",
    version="v1alpha1",
    kind="Model",
    plural="models",
    singular="model",
    short_names=("mo",),
    type=Model,
    columns=(
        Column("Latest", ".status.latestVersion.modelVersion", description="The newest version whose image exists."),
        Column("Image", ".status.latestVersion.imageName", description="Its image."),
        Column("Versions", ".status.versions", type="integer", description="How many versions there are."),
        Column("Digest", ".status.latestVersion.imageDigest", priority=1, description="The digest of its image."),
        Column(
            "Ready", '.status.conditions[?(@.type=="Ready")].status', priority=1, description="Whether all is well."
        ),
        Column("Description", ".spec.description", priority=1, description="What the model is for."),
    ),
)

MODEL_VERSION = Kind(
    group="model.kubedl.io",
    version="v1alpha1",
    kind="ModelVersion",
    plural="modelversions",
    singular="modelversion",
    short_names=("mv",),
    type=ModelVersion,
    rules=model_version.RULES,
    immutable=True,
    columns=(
        Column("Model", ".spec.modelName", description="The Model that this is a version of."),
        _READY,
        msgspec.structs.replace(_REASON, priority=0),
        Column("Image", ".status.image", description="The image."),
        Column("Phase", ".status.imageBuildPhase", priority=1, description="How the build stands."),
        Column("Digest", ".status.imageDigest", priority=1, description="The digest of the image."),
        Column("Size", ".status.sizeBytes", type="integer", priority=1, description="Bytes of the model's files."),
        Column("Created-By", ".spec.createdBy", priority=1, description="Who made the model."),
    ),
)

INFERENCE_MODEL = Kind(
    group="sedna.io",
    version="v1alpha1",
    kind="InferenceModel",
    plural="inferencemodels",
    singular="inferencemodel",
    short_names=("infm",),
    type=InferenceModel,
    rules=inference_model.RULES,
    misspellings=(Misspelling("spec", "fraemworkType", "frameworkType"),),
    columns=(
        Column("Model", ".spec.modelName", description="The name under which it answers."),
        Column("Layer", ".spec.deployToLayer", description="Where it runs."),
        Column("Serving", ".status.servingVersion", description="The version that all ready replicas serve."),
        Column("Wanted", ".spec.replicas", type="integer", description="How many replicas are wanted."),
        Column("Up", ".status.readyReplicas", type="integer", description="How many replicas are ready."),
        _READY,
        Column("URL", ".status.url", description="Where it answers."),
        _REASON,
        Column("Framework", ".spec.frameworkType", priority=1, description="What serves the model."),
        Column("Node", ".status.nodeName", priority=1, description="The edge node that serves."),
    ),
    scale=Scale(spec_replicas=".spec.replicas", status_replicas=".status.replicas", selector=".status.selector"),
)

TRAINING_MODEL = Kind(
    group="sedna.io",
    version="v1alpha1",
    kind="TrainingModel",
    plural="trainingmodels",
    singular="trainingmodel",
    short_names=("tm",),
    type=TrainingModel,
    rules=training_model.RULES,
    misspellings=(Misspelling("spec", "fraemworkType", "frameworkType"),),
    immutable=True,
    columns=(
        Column("Model", ".spec.modelName", description="The Model that the result becomes a version of."),
        Column("Layer", ".spec.deployToLayer", description="Where the workers run."),
        Column("Phase", ".status.phase", description="How the training stands."),
        Column("Version", ".status.modelVersion", description="The ModelVersion that was made of the result."),
        _READY,
        _REASON,
        Column("Workers", ".spec.workers", type="integer", priority=1, description="How many workers run."),
        Column("Framework", ".spec.frameworkType", priority=1, description="What trains."),
        Column("Node", ".status.nodeName", priority=1, description="The node of the chief."),
    ),
)

JOINT_INFERENCE_SERVICE = Kind(
    group="modelwright.dev",
    version="v1alpha1",
    kind="JointInferenceService",
    plural="jointinferenceservices",
    singular="jointinferenceservice",
    short_names=("jis",),
    type=JointInferenceService,
    rules=joint_inference_service.RULES,
    misspellings=(
        Misspelling("spec.edgeModel.spec", "fraemworkType", "frameworkType"),
        Misspelling("spec.cloudModel.spec", "fraemworkType", "frameworkType"),
    ),
    columns=(
        Column("Edge", ".status.edgeModel.name", description="The model on the edge."),
        Column("Cloud", ".status.cloudModel.name", description="The model in the cloud."),
        Column("Policy", ".spec.hardExampleMining.policy", description="How a row is found to be hard."),
        _READY,
        Column("URL", ".status.url", description="Where the gateway answers."),
        _REASON,
        Column("Node", ".status.nodeName", priority=1, description="The node of the gateway."),
    ),
)

KINDS: tuple[Kind, ...] = (MODEL, MODEL_VERSION, INFERENCE_MODEL, TRAINING_MODEL, JOINT_INFERENCE_SERVICE)

_BY_TYPE = {kind.type: kind for kind in KINDS}
_BY_PLURAL = {(kind.group, kind.plural): kind for kind in KINDS}
_BY_KIND = {(kind.api_version, kind.kind): kind for kind in KINDS}


def kind_of(resource: Any) -> Kind:
    """The kind of a struct or of one of its objects. Raises KeyError for anything else."""
    return _BY_TYPE[resource if isinstance(resource, type) else type(resource)]


def by_plural(group: str, plural: str) -> Kind | None:
    """The kind that the API serves under this group and plural name."""
    return _BY_PLURAL.get((group, plural))


def by_kind(api_version: str, kind: str) -> Kind | None:
    """The kind that a manifest names."""
    return _BY_KIND.get((api_version, kind))


def drop_nulls(value: Any) -> Any:
    """A JSON value without the fields that are null: null equals absent. Items of lists stay."""
    if isinstance(value, dict):
        return {key: drop_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [drop_nulls(item) for item in value]
    return value


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


@overload
def decode(kind: Kind, data: bytes | Mapping[str, Any]) -> Any: ...
@overload
def decode(kind: type[R], data: bytes | Mapping[str, Any]) -> R: ...
def decode(kind: Any, data: bytes | Mapping[str, Any]) -> Any:
    """The object in JSON bytes or a dict; null fields count as absent, unknown fields are passed over.

    Raises msgspec.ValidationError where it does not fit the struct, msgspec.DecodeError where it is no JSON.
    """
    type_ = kind.type if isinstance(kind, Kind) else kind
    if isinstance(data, bytes):
        try:
            return _decoder(type_).decode(data)
        except msgspec.ValidationError:
            data = msgspec.json.decode(data)
    return msgspec.convert(drop_nulls(data), type_)


def to_dict(resource: Any) -> dict[str, Any]:
    """The object as plain JSON values, with apiVersion and kind first; what is at its default may be left out."""
    body = msgspec.json.decode(msgspec.json.encode(resource))
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return head | {key: value for key, value in body.items() if key not in head}


def encode(resource: Any) -> bytes:
    """The object as JSON."""
    return msgspec.json.encode(to_dict(resource))
