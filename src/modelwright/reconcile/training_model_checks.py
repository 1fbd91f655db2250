"""What can keep a TrainingModel from being run here, one check for each fault."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from modelwright.api.training_model import TrainingModel
from modelwright.reconcile.findings import Check, Finding
from modelwright.reconcile.packing_checks import storage_is_forbidden, there_is_no_registry, unsupported_storage
from modelwright.reconcile.training_result import made_by
from modelwright.reconcile.training_task import BASE_PATH, DATASETS_PATH, mount_path


def image_needs_containers(training: TrainingModel, observed: Any) -> Finding | None:
    if not training.spec.image or observed.capabilities.containers:
        return None
    return Finding(
        "NeedsContainers",
        f"image {training.spec.image} is a container, and there are none here: leave image empty and give the command "
        "that trains on this machine, or use a cluster",
    )


def no_command_to_run(training: TrainingModel, observed: Any) -> Finding | None:
    """A frameworkType alone means the image that a cluster's catalogue has for it."""
    if training.spec.command or observed.capabilities.containers:
        return None
    return Finding(
        "NeedsContainers",
        "without a command the training image of the frameworkType is run, and there are no containers here: "
        "give the command that trains on this machine, or use a cluster",
    )


def storage_is_not_supported(training: TrainingModel, observed: Any) -> Finding | None:
    instead = "let the training write to a folder of this machine, named in localStorage.path"
    return unsupported_storage(training.spec.storage, observed.capabilities, instead)


def mount_path_is_the_root(training: TrainingModel, _observed: Any) -> Finding | None:
    if PurePosixPath(mount_path(training.spec.storage)).name:
        return None
    return Finding("MountPathInvalid", "mountPath / hides everything else: choose a folder below it")


def mount_path_is_taken(training: TrainingModel, _observed: Any) -> Finding | None:
    spec = training.spec
    path = PurePosixPath(mount_path(spec.storage))
    for taken, used in ((BASE_PATH, bool(spec.base_model_version)), (DATASETS_PATH, bool(spec.datasets))):
        if used and (path.is_relative_to(taken) or PurePosixPath(taken).is_relative_to(path)):
            return Finding("MountsOverlap", f"mountPath {path} overlaps {taken}, which is mounted too: choose another")
    return None


def name_of_result_is_taken(training: TrainingModel, observed: Any) -> Finding | None:
    """Said before anything runs: what could not become a version would be trained for nothing."""
    if observed.result is None or made_by(observed.result, training):
        return None
    return Finding(
        "ModelVersionNameTaken",
        f"the result becomes ModelVersion {training.metadata.name}, and there is one of that name already: "
        "delete that, or give the training another name",
    )


def waits_for_itself(training: TrainingModel, observed: Any) -> Finding | None:
    """A training makes the ModelVersion of its own name, so that a chain of base versions may lead back to it."""
    name = training.metadata.name
    if name not in observed.awaited or (observed.base is not None and observed.base.status.image_digest):
        return None
    chain = " for ".join((name, *observed.awaited))
    return Finding(
        "BaseModelVersionCycle",
        f"the training waits for its own result ({chain}): name a baseModelVersion that exists or that another "
        "training makes, or none",
    )


CHECKS: tuple[Check, ...] = (
    image_needs_containers,
    no_command_to_run,
    storage_is_not_supported,
    storage_is_forbidden,
    mount_path_is_the_root,
    mount_path_is_taken,
    there_is_no_registry,
    name_of_result_is_taken,
    waits_for_itself,
)
