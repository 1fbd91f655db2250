"""What can keep a ModelVersion from being built here, one check for each fault."""

from __future__ import annotations

from typing import Any

from modelwright.api.model_version import ModelVersion
from modelwright.reconcile.findings import Check, Finding
from modelwright.reconcile.packing_checks import storage_is_forbidden, there_is_no_registry, unsupported_storage


def storage_is_not_supported(version: ModelVersion, observed: Any) -> Finding | None:
    instead = "copy the files to this machine and name their folder in localStorage.path"
    return unsupported_storage(version.spec.storage, observed.capabilities, instead)


def builder_needs_containers(version: ModelVersion, observed: Any) -> Finding | None:
    if version.spec.builder == "native" or observed.capabilities.containers:
        return None
    return Finding(
        "NeedsContainers",
        f"the builder {version.spec.builder} runs in a container, and there are none here: "
        "use builder native, which makes the same image",
    )


CHECKS: tuple[Check, ...] = (
    storage_is_not_supported,
    storage_is_forbidden,
    builder_needs_containers,
    there_is_no_registry,
)
