"""What can keep a ModelVersion from being built here, one check for each fault."""

from __future__ import annotations

from typing import Any

from modelwright.api.model_version import ModelVersion
from modelwright.reconcile.findings import Check, Finding
from modelwright.reconcile.repositories import has_host
from modelwright.reconcile.storage import kind_of_storage


def storage_is_not_supported(version: ModelVersion, observed: Any) -> Finding | None:
    kind = kind_of_storage(version.spec.storage)
    if kind in observed.capabilities.storage:
        return None
    supported = ", ".join(sorted(observed.capabilities.storage))
    return Finding(
        "StorageNotSupported",
        f"{kind} storage needs a cluster; here there is {supported}: copy the files to this machine "
        "and name their folder in localStorage.path",
    )


def builder_needs_containers(version: ModelVersion, observed: Any) -> Finding | None:
    if version.spec.builder == "native" or observed.capabilities.containers:
        return None
    return Finding(
        "NeedsContainers",
        f"the builder {version.spec.builder} runs in a container, and there are none here: "
        "use builder native, which makes the same image",
    )


def there_is_no_registry(version: ModelVersion, observed: Any) -> Finding | None:
    if has_host(version.spec.image_repo) or observed.capabilities.default_registry:
        return None
    return Finding(
        "NoRegistry",
        f"imageRepo {version.spec.image_repo} names no registry and the operator has no default one: "
        "write HOST/REPOSITORY, or set the operator's default registry",
    )


CHECKS: tuple[Check, ...] = (storage_is_not_supported, builder_needs_containers, there_is_no_registry)
