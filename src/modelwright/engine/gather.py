"""Gather: read once what a reconciler has to know, from the caches and the workloads, then ask it."""

from __future__ import annotations

from typing import Any

from modelwright.api.inference_model import InferenceModel
from modelwright.api.joint_inference_service import JointInferenceService
from modelwright.api.model import Model
from modelwright.api.model_version import ModelVersion
from modelwright.api.training_model import TrainingModel
from modelwright.engine.indexes import BY_CONTROLLER, BY_MODEL, BY_STORAGE, Caches
from modelwright.ports.clock import Clock
from modelwright.ports.workloads import ServerStatus, TaskStatus, Workloads
from modelwright.reconcile import inference_model, joint_inference_service, model, model_version, training_model
from modelwright.reconcile.plan import Plan
from modelwright.reconcile.training_rivals import place_of

CHAIN_LIMIT = 100
"""How many trainings that wait for each other are looked at."""


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
        observed = model_version.Observed(
            model=self._caches[Model].get(resource.metadata.namespace, resource.spec.model_name),
            tasks=await self._tasks(resource),
            capabilities=self._workloads.capabilities,
            parents=self._parents(resource),
        )
        return model_version.reconcile(resource, observed, self._clock.now())

    async def inference_model(self, resource: InferenceModel) -> Plan:
        name = "" if resource.spec.image else resource.spec.model_version
        version = self._caches[ModelVersion].get(resource.metadata.namespace, name) if name else None
        observed = inference_model.Observed(
            model_version=version,
            server=await self._server(resource, inference_model.server_name(resource)),
            capabilities=self._workloads.capabilities,
        )
        return inference_model.reconcile(resource, observed, self._clock.now())

    async def training_model(self, resource: TrainingModel) -> Plan:
        namespace, base = resource.metadata.namespace, resource.spec.base_model_version
        versions = self._caches[ModelVersion]
        observed = training_model.Observed(
            base=versions.get(namespace, base) if base else None,
            result=versions.get(namespace, resource.metadata.name),
            tasks=await self._tasks(resource),
            capabilities=self._workloads.capabilities,
            awaited=self._awaited(resource),
            rivals=self._rivals(resource),
        )
        return training_model.reconcile(resource, observed, self._clock.now())

    async def joint_inference_service(self, resource: JointInferenceService) -> Plan:
        namespace, uid = resource.metadata.namespace, resource.metadata.uid
        models = self._caches[InferenceModel]
        observed = joint_inference_service.Observed(
            edge=models.get(namespace, joint_inference_service.edge_name(resource)),
            cloud=models.get(namespace, joint_inference_service.cloud_name(resource)),
            owned=tuple(models.by(BY_CONTROLLER, (namespace, uid))),
            gateway=await self._server(resource, joint_inference_service.gateway_name(resource)),
            capabilities=self._workloads.capabilities,
        )
        return joint_inference_service.reconcile(resource, observed, self._clock.now())

    # What is asked more than once -----------------------------------------------------------------------------------

    def _rivals(self, resource: TrainingModel) -> tuple[TrainingModel, ...]:
        """The other trainings that write to the same place."""
        there = self._caches[TrainingModel].by(BY_STORAGE, ("", place_of(resource)))
        return tuple(training for training in there if training.metadata.uid != resource.metadata.uid)

    def _awaited(self, resource: TrainingModel) -> tuple[str, ...]:
        """The versions without an image that this training waits for, each because the training before it does."""
        namespace, names = resource.metadata.namespace, list[str]()
        training: TrainingModel | None = resource
        while training is not None and len(names) < CHAIN_LIMIT:
            base = training.spec.base_model_version
            version = self._caches[ModelVersion].get(namespace, base)
            if not base or base in names or (version is not None and version.status.image_digest):
                break
            names.append(base)
            training = None if base == resource.metadata.name else self._caches[TrainingModel].get(namespace, base)
        return tuple(names)

    async def _tasks(self, resource: Any) -> tuple[TaskStatus, ...]:
        seen = await self._workloads.observe(resource.metadata.uid)
        return tuple(status for status in seen if isinstance(status, TaskStatus))

    def _parents(self, version: ModelVersion) -> tuple[ModelVersion, ...]:
        """The versions that it was made from, as far as they exist."""
        names = version.spec.lineage.parents if version.spec.lineage is not None else ()
        found = (self._caches[ModelVersion].get(version.metadata.namespace, name) for name in names)
        return tuple(parent for parent in found if parent is not None)

    async def _server(self, resource: Any, name: str) -> ServerStatus | None:
        seen = await self._workloads.observe(resource.metadata.uid)
        return next((status for status in seen if isinstance(status, ServerStatus) and status.name == name), None)
