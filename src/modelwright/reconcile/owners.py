"""Who owns what."""

from __future__ import annotations

from typing import Any

from modelwright.api.meta import OwnerReference
from modelwright.ports.workloads import Owner


def owner_of_workloads(resource: Any) -> Owner:
    """How workloads name the resource that they run for."""
    return Owner(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=resource.metadata.namespace,
        name=resource.metadata.name,
        uid=resource.metadata.uid,
    )


def owner_reference(resource: Any) -> OwnerReference:
    """The reference by which a dependent goes away with this resource."""
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=resource.metadata.name,
        uid=resource.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
