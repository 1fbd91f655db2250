"""Gather: read once what a reconciler has to know, from the caches and the workloads, then ask it."""

from __future__ import annotations

from typing import Any, TypeVar

from modelwright.api.inference_model import InferenceModel
from modelwright.api.model import Model
from modelwright.api.model_version import ModelVersion
from modelwright.engine.cache import Cache, Index, ObjectKey
from modelwright.ports.clock import Clock
from modelwright.ports.workloads import ServerStatus, TaskStatus, Workloads
from modelwright.reconcile import inference_model, model, model_version, not_implemented
from modelwright.reconcile.inference_model import server_name
from modelwright.reconcile.plan import Plan

R = TypeVar("R")
Caches = dict[type, Cache[Any]]

BY_MODEL = "model"
BY_MODEL_VERSION = "modelVersion"


def versions_by_model(version: ModelVersion) -> list[ObjectKey]:
    """Index of ModelVersions by the Model that they name."""
    return [(version.metadata.namespace, version.spec.model_name)]


def models_by_version(served: InferenceModel) -> list[ObjectKey]:
    """Index of InferenceModels by the ModelVersion that they name."""
    name = served.spec.model_version
    return [(served.metadata.namespace, name)] if name else []


INDEXES: dict[type, dict[str, Index]] = {
    ModelVersion: {BY_MODEL: versions_by_model},
    InferenceModel: {BY_MODEL_VERSION: models_by_version},
}


class Gatherer:
    """Decides for one resource of any kind: gathers, then calls the pure reconciler of that kind."""

    def __init__(self, caches: Caches, workloads: Workloads, clock: Clock) -> None:
        self._caches = caches
        self._workloads = workloads
        self._clock = clock

    async def model(self, resource: Model) -> Plan:
        key = (resource.metadata.namespace, resource.metadata.name)
        versions = tuple(self._caches[ModelVersion].by(BY_MODEL, key))
        return model.reconcile(resource, model.Observed(versions=versions), self._clock.now())

    async def model_version(self, resource: ModelVersion) -> Plan:
        seen = await self._workloads.observe(resource.metadata.uid)
        observed = model_version.Observed(
            model=self._caches[Model].get(resource.metadata.namespace, resource.spec.model_name),
            tasks=tuple(status for status in seen if isinstance(status, TaskStatus)),
            capabilities=self._workloads.capabilities,
        )
        return model_version.reconcile(resource, observed, self._clock.now())

    async def inference_model(self, resource: InferenceModel) -> Plan:
        name = "" if resource.spec.image else resource.spec.model_version
        version = self._caches[ModelVersion].get(resource.metadata.namespace, name) if name else None
        observed = inference_model.Observed(
            model_version=version, server=await self._server(resource), capabilities=self._workloads.capabilities
        )
        return inference_model.reconcile(resource, observed, self._clock.now())

    async def not_implemented(self, resource: Any) -> Plan:
        return not_implemented.reconcile(resource, self._clock.now())

    async def _server(self, resource: InferenceModel) -> ServerStatus | None:
        wanted = server_name(resource)
        seen = await self._workloads.observe(resource.metadata.uid)
        return next((status for status in seen if isinstance(status, ServerStatus) and status.name == wanted), None)
