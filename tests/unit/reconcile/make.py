"""Builders of resources and observations for the tests of the reconcilers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from modelwright.api.inference_model import InferenceModel, InferenceModelFile, InferenceModelSpec
from modelwright.api.meta import Metadata
from modelwright.api.model import Model
from modelwright.api.model_version import ModelVersion, ModelVersionSpec, ModelVersionStatus
from modelwright.api.storage import LocalStorage, Storage
from modelwright.api.training_model import TrainingModel, TrainingModelSpec, TrainingModelStatus
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.workloads import BuildResult, Failure, ServerStatus, TaskStatus
from modelwright.reconcile.plan import Plan

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UID = "1c072e5f-0000-4000-8000-000000000001"
DIGEST = "sha256:" + "ab" * 32

HERE = Capabilities(
    containers=False,
    storage=frozenset({"hostPath"}),
    frameworks=frozenset({"onnx", "sklearn"}),
    default_registry="127.0.0.1:5000",
    single_node="laptop",
)
CLUSTER = Capabilities(
    containers=True,
    storage=frozenset({"hostPath", "nfs", "efs", "claim"}),
    frameworks=frozenset({"onnx"}),
    default_registry="",
)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def metadata(name: str, **changes: Any) -> Metadata:
    return msgspec.structs.replace(Metadata(name=name, namespace="default", uid=UID, generation=1), **changes)


def version(name: str = "mv-1", *, status: ModelVersionStatus | None = None, **changes: Any) -> ModelVersion:
    meta = metadata(name, **changes.pop("metadata", {}))
    local = Storage(local_storage=LocalStorage(path="/models/digits", node_name="laptop"))
    spec = ModelVersionSpec(model_name="digits", image_repo="modelhub/digits", storage=local)
    spec = msgspec.structs.replace(spec, **changes)
    return ModelVersion(metadata=meta, spec=spec, status=status or ModelVersionStatus(observed_generation=1))


def built(name: str = "mv-1", *, finished: datetime = NOW, digest: str = DIGEST) -> ModelVersion:
    status = ModelVersionStatus(
        image=f"modelhub/digits:{name}",
        image_digest=digest,
        resolved_image=f"127.0.0.1:5000/modelhub/digits@{digest}",
        image_build_phase="ImageBuildSucceeded",
        finish_time=finished,
        observed_generation=1,
    )
    return version(name, status=status)


def model(name: str = "digits", **changes: Any) -> Model:
    return Model(metadata=metadata(name, uid="model-uid", **changes))


def served(name: str = "digits", **changes: Any) -> InferenceModel:
    meta = metadata(name, **changes.pop("metadata", {}))
    spec = InferenceModelSpec(model_name="digits", deploy_to_layer="cloud", framework_type="onnx", model_version="mv-1")
    status = changes.pop("status", None)
    subject = InferenceModel(metadata=meta, spec=msgspec.structs.replace(spec, **changes))
    if status is None:
        status = msgspec.structs.replace(subject.status, observed_generation=1)
    return msgspec.structs.replace(subject, status=status)


def training(name: str = "train", *, status: TrainingModelStatus | None = None, **changes: Any) -> TrainingModel:
    meta = metadata(name, **changes.pop("metadata", {}))
    local = Storage(local_storage=LocalStorage(path="/models/train"))
    spec = TrainingModelSpec(
        model_name="digits", command=("python", "train.py"), image_repo="modelhub/digits", storage=local
    )
    spec = msgspec.structs.replace(spec, **changes)
    return TrainingModel(metadata=meta, spec=spec, status=status or TrainingModelStatus(observed_generation=1))


def manifest(*versions: str) -> tuple[InferenceModelFile, ...]:
    return tuple(InferenceModelFile(version=v, download_url=f"https://models.test/{v}.tar.gz") for v in versions)


def task(name: str, phase: Any, **changes: Any) -> TaskStatus:
    return msgspec.structs.replace(TaskStatus(name=name, phase=phase), **changes)


def result(**changes: Any) -> BuildResult:
    done = BuildResult(digest=DIGEST, tag="v1c072", resolved=f"127.0.0.1:5000/modelhub/digits@{DIGEST}", size_bytes=10)
    return msgspec.structs.replace(done, **changes)


def failure(reason: str = "RegistryUnavailable", *, retryable: bool = True) -> Failure:
    return Failure(reason=reason, message="the registry does not answer", retryable=retryable)


def server(name: str, **changes: Any) -> ServerStatus:
    seen = ServerStatus(
        name=name,
        host="127.0.0.1",
        port=40000,
        replicas=1,
        ready_replicas=1,
        serving_version="mv-1",
        up_to_date=True,
        node_name="laptop",
    )
    return msgspec.structs.replace(seen, **changes)


def state(conditions: tuple[Any, ...]) -> dict[str, str]:
    """The conditions as `type: status`."""
    return {condition.type: condition.status for condition in conditions}


def reason(conditions: tuple[Any, ...], type_: str = "Ready") -> str:
    return str(next(condition.reason for condition in conditions if condition.type == type_))


def only_workload(plan: Plan) -> Any:
    """The one workload of a plan."""
    (workload,) = plan.workloads
    return workload
