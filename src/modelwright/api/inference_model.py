"""InferenceModel: a model that answers requests, in the cloud or at the edge."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from modelwright.api.fields import (
    Annotations,
    Count,
    Image,
    Label,
    Layer,
    Name,
    NodeSelector,
    Port,
    Resources,
    Sha256,
    Url,
    doc,
    keyed_by,
)
from modelwright.api.meta import Conditions, LastHandled, Metadata, ObservedGeneration, Remarks, Time

ServiceType = Literal["LoadBalancer", "NodePort", "ClusterIP"]


class InferenceModelFile(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """An archive file for a single version of the model."""

    version: Annotated[Label, doc("The version's name, unique in the manifest.")]
    download_url: Annotated[Url, doc("Where to download it: http, https or file.")] = msgspec.field(name="downloadURL")
    sha256sum: Annotated[Sha256, doc("SHA-256 of the file, as `sha256sum` prints it; not checked if absent.")] = ""


class Service(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How the Service in the cloud exposes the model."""

    type: Annotated[ServiceType, doc("The type of the Service.")] = "LoadBalancer"
    annotations: Annotated[Annotations, doc("Annotations of the Service.")] = {}
    load_balancer_class: Annotated[Name, doc("Which load balancer implementation to use.")] = ""
    load_balancer_source_ranges: Annotated[
        tuple[Annotated[str, Meta(max_length=64)], ...],
        Meta(max_length=32),
        doc("Who may connect, as CIDRs; everybody if absent."),
    ] = ()


class Auth(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Who may ask the model."""

    token_secret: Annotated[Name, doc("A Secret whose key `token` a request must carry as its bearer token.")]


class TLS(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Serving over https."""

    secret: Annotated[Name, doc("A Secret (kubernetes.io/tls) with certificate and key.")]


class InferenceModelSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What to serve, and where. The source is `image` if not empty, else `modelVersion`, else the manifest."""

    model_name: Annotated[Name, doc("The name under which the model answers: `/v1/models/NAME`.")]
    deploy_to_layer: Annotated[Layer, doc("Where it runs.")]
    framework_type: Annotated[Label, doc("What serves the model, such as `tensorflow`, `onnx` or `sklearn`.")] = ""
    node_selector: Annotated[NodeSelector, doc("Labels that the node must have.")] = {}
    node_name: Annotated[Name, doc("The node to run on.")] = ""
    image: Annotated[
        Image, doc("A complete serving image. If not empty, modelVersion, manifest and targetVersion are ignored.")
    ] = ""
    model_version: Annotated[Name, doc("A ModelVersion of the same namespace to serve; used if there is no image.")] = (
        ""
    )
    manifest: Annotated[
        tuple[InferenceModelFile, ...],
        keyed_by("version", 64),
        doc("Versions that can be downloaded; used if there is neither image nor modelVersion."),
    ] = ()
    target_version: Annotated[Label, doc("The version of the manifest to serve.")] = ""
    service: Annotated[Service, doc("How the Service in the cloud exposes the model.")] = Service()
    auth: Annotated[Auth | None, doc("Who may ask; anybody who reaches it if absent.")] = None
    tls: Annotated[TLS | None, doc("Serving over https; plain http if absent.")] = None
    serving_port: Annotated[Port, doc("The port to serve on. 0 or absent: 8501 on a cluster, a free one embedded.")] = 0
    replicas: Annotated[Count, doc("How many Pods or processes serve; at the edge 0 or 1.")] = 1
    resources: Annotated[Resources, doc("Compute resources of each replica.")] = Resources()
    pull_secret: Annotated[Name, doc("The Secret (kubernetes.io/dockerconfigjson) to pull images with.")] = ""
    download_secret: Annotated[Name, doc("The Secret to download with: `token`, or `username` and `password`.")] = ""


class ServableVersion(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A version that can be asked for by number, as TensorFlow Serving's REST does."""

    version: Annotated[Name, doc("The version's name.")]
    number: Annotated[int, doc("Its number in `/v1/models/NAME/versions/NUMBER`.")]


class Source(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What a spec said to serve: one of the three sources."""

    image: Annotated[Image, doc("The serving image.")] = ""
    model_version: Annotated[Name, doc("The ModelVersion.")] = ""
    file: Annotated[InferenceModelFile | None, doc("The entry of the manifest that targetVersion named.")] = None


class HistoryEntry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A source that was served."""

    source: Annotated[Source, doc("What `rollback` writes back into the spec.")]
    since: Annotated[Time, doc("Since when it was served by all ready replicas.")]


class ResolvedVersion(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The image of a ModelVersion."""

    model_version: Annotated[Name, doc("The ModelVersion.")]
    image: Annotated[str, Meta(max_length=1024), doc("Its image, as `HOST/REPOSITORY@DIGEST`.")]


class InferenceModelStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What serves now."""

    url: Annotated[Url, doc("Where the model answers.")] = ""
    serving_version: Annotated[Name, doc("What all ready replicas serve; empty while they differ.")] = ""
    # A default_factory is written even when 0: a column should say 0, not nothing.
    replicas: Annotated[Count, doc("How many replicas there are.")] = msgspec.field(default_factory=int)
    ready_replicas: Annotated[Count, doc("How many of them are ready.")] = msgspec.field(default_factory=int)
    selector: Annotated[str, Meta(max_length=1024), doc("The Pods, as a label selector (for autoscalers).")] = ""
    node_name: Annotated[Name, doc("The edge node that serves.")] = ""
    versions: Annotated[
        tuple[ServableVersion, ...], keyed_by("version", 64), doc("Versions that can be asked for by number.")
    ] = ()
    history: Annotated[
        tuple[HistoryEntry, ...], Meta(max_length=10), doc("What was served, the newest last: the last ten sources.")
    ] = ()
    resolved: Annotated[
        ResolvedVersion | None,
        doc("What modelVersion was taken to be: it goes on being served if the ModelVersion is deleted."),
    ] = None
    notices: Remarks = ()
    observed_generation: ObservedGeneration = 0
    last_handled_reconcile_at: LastHandled = ""
    conditions: Conditions = ()


class InferenceModel(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A single serving service for one model."""

    api_version: str = "sedna.io/v1alpha1"
    kind: str = "InferenceModel"
    metadata: Metadata = Metadata()
    spec: Annotated[InferenceModelSpec, doc("What to serve, and where.")]
    status: Annotated[InferenceModelStatus, doc("What serves now.")] = InferenceModelStatus()
