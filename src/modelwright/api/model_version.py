"""ModelVersion: one version of a model, packed into an image."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from modelwright.api.fields import (
    Count,
    Digest,
    Image,
    Line,
    Message,
    Metrics,
    Name,
    Progress,
    Repository,
    Size,
    Tag,
    doc,
)
from modelwright.api.lineage import Lineage
from modelwright.api.meta import Conditions, LastHandled, Metadata, ObservedGeneration, Time
from modelwright.api.storage import Storage

BuildPhase = Literal["ImageBuilding", "ImageBuildSucceeded", "ImageBuildFailed"]


class ModelVersionSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What to pack, and where to push it. It never changes: a change is a new ModelVersion."""

    model_name: Annotated[Name, doc("The Model that this is a version of; it is made if it does not exist.")]
    created_by: Annotated[Line, doc("The user or training job that made the model.")] = ""
    image_repo: Annotated[
        Repository, doc("The repository to push to, `[HOST[:PORT]/]PATH`; without a host, in the default registry.")
    ]
    image_tag: Annotated[
        Tag, doc("The tag to push. If absent: `v` and the first characters of the UID. No tag is ever overwritten.")
    ] = ""
    storage: Annotated[Storage, doc("Where the model's files are: exactly one of the four.")]
    builder: Annotated[Literal["native", "kaniko"], doc("What builds the image.")] = "native"
    push_secret: Annotated[Name, doc("The Secret (kubernetes.io/dockerconfigjson) to push with.")] = ""
    base_image: Annotated[
        Image, doc("The image to add the model to; none if absent. `busybox` where a consumer needs a shell.")
    ] = ""
    lineage: Annotated[Lineage | None, doc("What the version was made from.")] = None


class ModelVersionStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How far the image is."""

    image: Annotated[Image, doc("The image with tag, spelled as in the spec.")] = ""
    image_digest: Annotated[Digest, doc("The digest of the image (of its index).")] = ""
    resolved_image: Annotated[
        Annotated[str, msgspec.Meta(max_length=1024)], doc("`HOST/REPOSITORY@DIGEST`: what workloads use.")
    ] = ""
    image_build_phase: Annotated[BuildPhase | None, doc("How the build stands.")] = None
    finish_time: Annotated[Time | None, doc("When the build ended, either way.")] = None
    message: Annotated[Message, doc("How the build stands, in words.")] = ""
    size_bytes: Annotated[Size, doc("Size of the image's layers.")] = 0
    file_count: Annotated[Count, doc("How many files the model has.")] = 0
    metrics: Annotated[Metrics, doc("Numbers that the training wrote beside the model.")] = {}
    progress: Annotated[Progress | None, doc("How far packing and pushing are.")] = None
    attempts: Annotated[Count, doc("How often the build was started.")] = 0
    observed_generation: ObservedGeneration = 0
    last_handled_reconcile_at: LastHandled = ""
    conditions: Conditions = ()


class ModelVersion(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One version of a model: its files are packed into an image and pushed, once."""

    api_version: str = "model.kubedl.io/v1alpha1"
    kind: str = "ModelVersion"
    metadata: Metadata = Metadata()
    spec: Annotated[ModelVersionSpec, doc("What to pack, and where to push it. It never changes.")]
    status: Annotated[ModelVersionStatus, doc("How far the image is.")] = ModelVersionStatus()
