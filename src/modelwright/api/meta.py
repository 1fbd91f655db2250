"""What all kinds have in common: metadata, owners, conditions. Names and JSON keys are those of Kubernetes' meta/v1."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Time = Annotated[datetime, Meta(tz=True)]
"""A moment: always with a time zone, RFC 3339 on the wire."""


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
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Condition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One observation of an object; a list of them is a map by `type` (kstatus: Ready, Reconciling, Stalled)."""

    type: Annotated[str, Meta(max_length=63, description="What is observed, such as Ready.")]
    status: Annotated[Literal["True", "False", "Unknown"], Meta(description="Whether it is so.")]
    reason: Annotated[str, Meta(max_length=1024, description="Why, in one CamelCase word.")]
    message: Annotated[str, Meta(max_length=32768, description="Why, and what to do, for people.")] = ""
    last_transition_time: Annotated[Time | None, Meta(description="Since when the status is what it is.")] = None
    observed_generation: Annotated[int, Meta(description="The generation that was looked at.")] = 0


Conditions = Annotated[
    tuple[Condition, ...],
    Meta(
        max_length=16,
        description="What is observed: Ready, Reconciling, Stalled and others, each with reason and message.",
        extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]


class Remark(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Something worth knowing that nobody has to act on."""

    reason: Annotated[str, Meta(max_length=256, description="What it is about, in one CamelCase word.")]
    message: Annotated[str, Meta(max_length=4096, description="One sentence for people.")]


REMARKS_LIMIT = 16
Remarks = Annotated[
    tuple[Remark, ...],
    Meta(
        max_length=REMARKS_LIMIT,
        description="What is worth knowing, and nobody has to act on: each was told in an Event when it came up.",
    ),
]

ObservedGeneration = Annotated[int, Meta(description="The generation of the spec that this status is about.")]

LastHandled = Annotated[
    str, Meta(max_length=256, description="The `modelwright.dev/reconcile-requested-at` that was handled last.")
]
