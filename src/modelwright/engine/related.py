"""Who else has to look when a resource changes."""

from __future__ import annotations

from typing import Any

from modelwright.api.inference_model import InferenceModel
from modelwright.api.joint_inference_service import JointInferenceService
from modelwright.api.model import Model
from modelwright.api.model_version import ModelVersion
from modelwright.api.training_model import TrainingModel
from modelwright.engine.cache import ObjectKey, key_of
from modelwright.engine.indexes import BY_BASE, BY_INFERENCE_MODEL, BY_MODEL, BY_MODEL_VERSION, BY_STORAGE, Caches
from modelwright.reconcile.model_version import former_owner
from modelwright.reconcile.training_rivals import place_of

Related = list[tuple[type, list[ObjectKey]]]


class Relations:
    """Finds them in the caches. What a spec does not wait for, such as the parents in a lineage, wakes nobody."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches

    def of(self, resource: Any) -> Related:
        """The keys to look at, by kind."""
        key = key_of(resource)
        match resource:
            case ModelVersion():
                served = self._keys(InferenceModel, BY_MODEL_VERSION, key)
                trained = self._keys(TrainingModel, BY_BASE, key)
                own = [key] if self._caches[TrainingModel].get(*key) is not None else []
                model = (key[0], resource.spec.model_name)
                return [(Model, [model]), (InferenceModel, served), (TrainingModel, [*own, *trained])]
            case Model():
                return [(ModelVersion, [key_of(found) for found in self._unowned_versions(resource)])]
            case TrainingModel():
                rivals = self._keys(TrainingModel, BY_STORAGE, ("", place_of(resource)))
                others = [rival for rival in rivals if rival != key]
                return [(TrainingModel, [*self._waiting_for(key), *others])]
            case InferenceModel():
                asked = self._keys(JointInferenceService, BY_INFERENCE_MODEL, key)
                return [(JointInferenceService, [*asked, *makers(resource)])]
        return []

    def _keys(self, kind: type, index: str, key: ObjectKey) -> list[ObjectKey]:
        return [key_of(found) for found in self._caches[kind].by(index, key)]

    def _unowned_versions(self, model: Model) -> list[ModelVersion]:
        """The versions of a Model that do not point to it: their owner reference or the Model itself is missing."""
        versions = self._caches[ModelVersion].by(BY_MODEL, key_of(model))
        missing = self._caches[Model].get(*key_of(model)) is None
        return [version for version in versions if missing or former_owner(version) is None]

    def _waiting_for(self, key: ObjectKey) -> list[ObjectKey]:
        """The trainings that start from this one's result, and those that start from theirs: it may be a circle."""
        found: dict[ObjectKey, None] = {}
        ahead = [key]
        while ahead:
            next_ones = self._keys(TrainingModel, BY_BASE, ahead.pop())
            new = [each for each in next_ones if each not in found and each != key]
            found.update(dict.fromkeys(new))
            ahead.extend(new)
        return list(found)


def makers(served: InferenceModel) -> list[ObjectKey]:
    """The JointInferenceServices that have made this InferenceModel, although they may name another by now."""
    owners = served.metadata.owner_references
    return [(served.metadata.namespace, owner.name) for owner in owners if owner.kind == JointInferenceService.__name__]
