"""What can keep files from being packed and pushed here: the same for a version and for the training that makes one."""

from __future__ import annotations

from typing import Any

from modelwright.api.storage import Storage
from modelwright.ports.capabilities import Capabilities
from modelwright.reconcile.findings import Finding
from modelwright.reconcile.repositories import has_host
from modelwright.reconcile.storage import kind_of_storage
from modelwright.reconcile.storage_policy import forbidden_storage


def unsupported_storage(storage: Storage, capabilities: Capabilities, instead: str) -> Finding | None:
    """Storage of a kind that there is not here; `instead` says what to do, as the end of a sentence."""
    kind = kind_of_storage(storage)
    if kind in capabilities.storage:
        return None
    supported = ", ".join(sorted(capabilities.storage))
    return Finding("StorageNotSupported", f"{kind} storage needs a cluster; here there is {supported}: {instead}")


def storage_is_forbidden(resource: Any, observed: Any) -> Finding | None:
    """A check for whatever has a storage: the admin's policy."""
    return forbidden_storage(resource.spec.storage, observed.capabilities.storage_policy)


def there_is_no_registry(resource: Any, observed: Any) -> Finding | None:
    """A check for whatever has an imageRepo."""
    if has_host(resource.spec.image_repo) or observed.capabilities.default_registry:
        return None
    return Finding(
        "NoRegistry",
        f"imageRepo {resource.spec.image_repo} names no registry and the operator has no default one: "
        "write HOST/REPOSITORY, or ask the cluster's admin to set one "
        "(the Helm value registry.default, or the operator's option --registry)",
    )
