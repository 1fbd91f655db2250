"""By what else than their names resources are found in the caches."""

from __future__ import annotations

from typing import Any

from modelwright.api.inference_model import InferenceModel
from modelwright.api.joint_inference_service import JointInferenceService
from modelwright.api.model_version import ModelVersion
from modelwright.api.training_model import TrainingModel
from modelwright.engine.cache import Cache, Index, ObjectKey
from modelwright.reconcile.joint_inference_service import cloud_name, edge_name
from modelwright.reconcile.training_rivals import place_of

Caches = dict[type, Cache[Any]]

BY_MODEL = "model"
BY_MODEL_VERSION = "modelVersion"
BY_BASE = "baseModelVersion"
BY_STORAGE = "storage"
BY_INFERENCE_MODEL = "inferenceModel"
BY_CONTROLLER = "controller"


def versions_by_model(version: ModelVersion) -> list[ObjectKey]:
    """ModelVersions by the Model that they name."""
    return [(version.metadata.namespace, version.spec.model_name)]


def models_by_version(served: InferenceModel) -> list[ObjectKey]:
    """InferenceModels by the ModelVersion that they name."""
    name = served.spec.model_version
    return [(served.metadata.namespace, name)] if name else []


def models_by_controller(served: InferenceModel) -> list[ObjectKey]:
    """InferenceModels by namespace and the UID of what controls them."""
    owners = served.metadata.owner_references
    return [(served.metadata.namespace, owner.uid) for owner in owners if owner.controller]


def trainings_by_base(training: TrainingModel) -> list[ObjectKey]:
    """TrainingModels by the ModelVersion that they start from."""
    name = training.spec.base_model_version
    return [(training.metadata.namespace, name)] if name else []


def trainings_by_storage(training: TrainingModel) -> list[ObjectKey]:
    """TrainingModels by the place that they write to, in whatever namespace."""
    return [("", place_of(training))]


def services_by_model(service: JointInferenceService) -> list[ObjectKey]:
    """JointInferenceServices by the InferenceModels that they ask, or make."""
    return [(service.metadata.namespace, name) for name in (edge_name(service), cloud_name(service))]


INDEXES: dict[type, dict[str, Index]] = {
    ModelVersion: {BY_MODEL: versions_by_model},
    InferenceModel: {BY_MODEL_VERSION: models_by_version, BY_CONTROLLER: models_by_controller},
    TrainingModel: {BY_BASE: trainings_by_base, BY_STORAGE: trainings_by_storage},
    JointInferenceService: {BY_INFERENCE_MODEL: services_by_model},
}
