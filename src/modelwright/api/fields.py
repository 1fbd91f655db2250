"""Types of fields that several kinds share, with their limits: every string, list and map has one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


def doc(description: str) -> Meta:
    """What a field means, for the schema, `kubectl explain` and the reference."""
    return Meta(description=description)


def keyed_by(key: str, limit: int) -> Meta:
    """At most `limit` items that are a map by `key`: two items with the same key are refused."""
    extra: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return Meta(max_length=limit, extra_json_schema=extra)


Name = Annotated[str, Meta(max_length=253)]
Label = Annotated[str, Meta(max_length=63)]
Path = Annotated[str, Meta(max_length=1024)]
Url = Annotated[str, Meta(max_length=2048)]
Line = Annotated[str, Meta(max_length=1024)]
Message = Annotated[str, Meta(max_length=32768)]
Repository = Annotated[str, Meta(max_length=255)]
Tag = Annotated[str, Meta(max_length=128)]
Image = Annotated[str, Meta(max_length=512)]
Digest = Annotated[str, Meta(max_length=256)]
Sha256 = Annotated[str, Meta(max_length=64)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Size = Annotated[int, Meta(ge=0)]

NodeSelector = Annotated[dict[str, Label], Meta(max_length=32)]
Annotations = Annotated[dict[str, Annotated[str, Meta(max_length=4096)]], Meta(max_length=64)]
Metrics = Annotated[dict[str, float], Meta(max_length=128)]
Arguments = Annotated[tuple[Annotated[str, Meta(max_length=8192)], ...], Meta(max_length=256)]

Layer = Literal["cloud", "edge"]

_QUANTITY = r"^(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$"
Quantity = Annotated[str, Meta(max_length=64, pattern=_QUANTITY)] | int
Quantities = Annotated[dict[str, Quantity], Meta(max_length=16)]


class Resources(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Compute resources, as in a container of a Pod."""

    requests: Annotated[
        Quantities, doc("What is set aside: a quantity such as `500m` or `256Mi`, by resource name.")
    ] = {}
    limits: Annotated[Quantities, doc("What may be used at most: a quantity by resource name.")] = {}


class Progress(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Bytes moved so far."""

    bytes_done: Annotated[Size, doc("Bytes moved.")] = 0
    bytes_total: Annotated[Size, doc("Bytes to move; 0 while that is not known.")] = 0
