"""What all kinds have in common: metadata, owners, conditions. Names and JSON keys are those of Kubernetes' meta/v1."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What this object goes away with, when that is deleted."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class Metadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The part of meta/v1 ObjectMeta that we read or write; `resource_version` is opaque."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Condition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One observation of an object; a list of them is a map by `type` (kstatus: Ready, Reconciling, Stalled)."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0
