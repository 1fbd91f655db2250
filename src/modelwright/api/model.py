"""Model: what the versions of one model have in common."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from modelwright.api.fields import Digest, Image, Name, Size, doc
from modelwright.api.meta import Conditions, LastHandled, Metadata, ObservedGeneration


class ModelSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A Model needs no spec."""

    description: Annotated[str, Meta(max_length=4096), doc("What the model is for, in words.")] = ""


class LatestVersion(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The newest version whose image exists."""

    model_version: Annotated[Name, doc("The name of the ModelVersion.")] = ""
    image_name: Annotated[Image, doc("Its image, with tag.")] = ""
    image_digest: Annotated[Digest, doc("The digest of its image.")] = ""


class ModelStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What is known of a Model's versions."""

    latest_version: Annotated[LatestVersion | None, doc("The newest version whose image exists.")] = None
    # A default_factory is written even when 0: a column should say 0, not nothing.
    versions: Annotated[Size, doc("How many ModelVersions name this Model.")] = msgspec.field(default_factory=int)
    observed_generation: ObservedGeneration = 0
    last_handled_reconcile_at: LastHandled = ""
    conditions: Conditions = ()


class Model(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A model with its versions. Deleting it deletes its ModelVersions, never pushed images or the user's files."""

    api_version: str = "model.kubedl.io/v1alpha1"
    kind: str = "Model"
    metadata: Metadata = Metadata()
    spec: Annotated[ModelSpec, doc("Nothing is required.")] = ModelSpec()
    status: Annotated[ModelStatus, doc("What is known of the versions.")] = ModelStatus()
