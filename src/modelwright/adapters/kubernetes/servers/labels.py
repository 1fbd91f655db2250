"""What the children of a Server are called, and how each says whose it is."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.workloads.labels import (
    COMPONENT,
    MANAGED_BY,
    MANAGER,
    OWNER_UID,
    owner_annotations,
    owner_reference,
)
from modelwright.ports.workloads import Owner, Server

SERVER = "modelwright.dev/server"
LAYER = "modelwright.dev/layer"
RENDERED = "modelwright.dev/rendered"
VERSION = "modelwright.dev/version"
IMAGE_VOLUMES = "modelwright.dev/image-volumes"
BALANCER_CLASS = "modelwright.dev/load-balancer-class"
SERVE, GATEWAY = "serve", "gateway"
"""What a component is: a model that is served, or a gateway."""


def labels(server: Server, component: str = SERVE) -> dict[str, str]:
    """The same on each child."""
    return {**selector(server), MANAGED_BY: MANAGER, COMPONENT: component, OWNER_UID: server.owner.uid}


def selector(server: Server) -> dict[str, str]:
    """What the Pods of a Server have, and no others: while it moves between layers, those of one only."""
    return {SERVER: server.name, LAYER: server.placement.layer}


def metadata(server: Server, name: str, component: str = SERVE, /, **annotations: str) -> JSON:
    """A child's metadata; what a user may name an annotation is of no matter to it. It goes with its owner: the garbage
    collector sees to that."""
    owner: Owner = server.owner
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": labels(server, component),
        "annotations": {**annotations, **owner_annotations(owner)},
        "ownerReferences": [owner_reference(owner)],
    }


def digest(rendered: Any) -> str:
    """Of something as it was rendered: two that are equal have the same."""
    return hashlib.sha256(msgspec.json.encode(rendered, order="sorted")).hexdigest()[:32]
