"""TrainingModel: a training whose result becomes a ModelVersion."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from modelwright.api.fields import (
    Arguments,
    Count,
    Image,
    Label,
    Layer,
    Message,
    Name,
    NodeSelector,
    Repository,
    Resources,
    Sha256,
    Size,
    Tag,
    Url,
    doc,
    keyed_by,
)
from modelwright.api.meta import Conditions, LastHandled, Metadata, ObservedGeneration, Time
from modelwright.api.storage import Storage

TrainingPhase = Literal["Pending", "Running", "Succeeded", "Failed"]


class EnvVar(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """An environment variable."""

    name: Annotated[Name, doc("The variable's name, unique in the list.")]
    value: Annotated[str, Meta(max_length=8192), doc("Its value.")] = ""


class Dataset(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A dataset that is downloaded before the training starts."""

    name: Annotated[Label, doc("The dataset's name, unique in the list: workers find it at `/datasets/NAME`.")]
    uri: Annotated[Url, doc("Where to download it: http, https or file.")]
    sha256sum: Annotated[Sha256, doc("SHA-256 of the file, as `sha256sum` prints it; not checked if absent.")] = ""


class TrainingModelSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What to run, on what, and where the result goes. It never changes: another training is another TrainingModel."""

    model_name: Annotated[Name, doc("The Model that the result becomes a version of.")]
    deploy_to_layer: Annotated[Layer, doc("Where the workers run.")] = "cloud"
    framework_type: Annotated[
        Label,
        doc(
            "What trains: workers find each other by TF_CONFIG (tensorflow) or torchrun's variables (any other), "
            "and on a cluster the runtime catalogue has an image for it where `image` is absent."
        ),
    ] = ""
    node_selector: Annotated[NodeSelector, doc("Labels that the workers' nodes must have.")] = {}
    node_name: Annotated[Name, doc("The node to run on.")] = ""
    image: Annotated[
        Image, doc("The training image. If absent: the command itself embedded, the catalogue's image on a cluster.")
    ] = ""
    command: Annotated[Arguments, doc("The command; `$(VAR)` is expanded as Kubernetes does.")] = ()
    args: Annotated[Arguments, doc("Its arguments; `$(VAR)` is expanded as Kubernetes does.")] = ()
    env: Annotated[
        tuple[EnvVar, ...],
        keyed_by("name", 128),
        doc("Environment variables of the workers; each may name others by `$(VAR)`."),
    ] = ()
    resources: Annotated[Resources, doc("Compute resources of each worker.")] = Resources()
    workers: Annotated[int, Meta(ge=1, le=256), doc("How many workers run; worker 0 is the chief.")] = 1
    base_model_version: Annotated[
        Name, doc("A ModelVersion to start from: workers find it read-only at `/kubedl-base-model`.")
    ] = ""
    datasets: Annotated[tuple[Dataset, ...], keyed_by("name", 32), doc("Datasets, at `/datasets/NAME`.")] = ()
    storage: Annotated[Storage, doc("Where the model is written, mounted at `/kubedl-model`: exactly one of the four.")]
    image_repo: Annotated[
        Repository, doc("The repository to push the result to, `[HOST[:PORT]/]PATH`; see ModelVersion.")
    ]
    image_tag: Annotated[Tag, doc("The tag to push; see ModelVersion.")] = ""
    push_secret: Annotated[
        Name, doc("The Secret (kubernetes.io/dockerconfigjson) to push the result with; see ModelVersion.")
    ] = ""
    download_secret: Annotated[
        Name, doc("The Secret to download datasets with: `token`, or `username` and `password`.")
    ] = ""
    backoff_limit: Annotated[
        int, Meta(ge=0, le=100), doc("How often a failed training is started again, after growing pauses.")
    ] = 6
    active_deadline_seconds: Annotated[
        Count,
        doc("After how many seconds, over all attempts, the training is ended as failed; 0 or absent: never."),
    ] = 0


class WorkerCounts(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How many workers are in which state."""

    # A default_factory is written even when 0: a column should say 0, not nothing.
    active: Annotated[Count, doc("Workers that run or wait to.")] = msgspec.field(default_factory=int)
    succeeded: Annotated[Count, doc("Workers that ended well.")] = msgspec.field(default_factory=int)
    failed: Annotated[Count, doc("Workers that failed.")] = msgspec.field(default_factory=int)


class TrainingProgress(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What the training says of itself."""

    completed: Annotated[Size, doc("Steps done.")] = 0
    total: Annotated[Size, doc("Steps to do; 0 while that is not known.")] = 0
    message: Annotated[str, Meta(max_length=1024), doc("What it is doing.")] = ""


class TrainingModelStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How the training stands."""

    phase: Annotated[TrainingPhase | None, doc("How the training stands.")] = None
    message: Annotated[Message, doc("How the training stands, in words.")] = ""
    workers: Annotated[WorkerCounts | None, doc("How many workers are in which state.")] = None
    progress: Annotated[TrainingProgress | None, doc("What the training says of itself.")] = None
    node_name: Annotated[Name, doc("The node of the chief.")] = ""
    attempts: Annotated[Count, doc("How often the training was started.")] = 0
    failures: Annotated[Count, doc("How many of these attempts failed; `backoffLimit` bounds it.")] = 0
    uncounted: Annotated[
        Count,
        doc(
            "How many attempts before the present one do not count as failures: they were interrupted, "
            "or came before a request to start again."
        ),
    ] = 0
    start_time: Annotated[Time | None, doc("When the workers first started.")] = None
    completion_time: Annotated[Time | None, doc("When the training ended, either way.")] = None
    model_version: Annotated[Name, doc("The ModelVersion that was made of the result.")] = ""
    observed_generation: ObservedGeneration = 0
    last_handled_reconcile_at: LastHandled = ""
    conditions: Conditions = ()


class TrainingModel(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A training: it runs workers once and makes a ModelVersion, of the same name, of what they wrote."""

    api_version: str = "sedna.io/v1alpha1"
    kind: str = "TrainingModel"
    metadata: Metadata = Metadata()
    spec: Annotated[TrainingModelSpec, doc("What to run, and where the result goes. It never changes.")]
    status: Annotated[TrainingModelStatus, doc("How the training stands.")] = TrainingModelStatus()
