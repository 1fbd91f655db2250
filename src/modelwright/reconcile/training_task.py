"""The Task that is one attempt of a training: what runs, on what, where it finds things."""

from __future__ import annotations

from datetime import datetime
from math import ceil

from modelwright.api.fields import Resources as ResourcesSpec
from modelwright.api.model_version import ModelVersion
from modelwright.api.storage import MODEL_PATH, Storage
from modelwright.api.training_model import TrainingModel, TrainingModelSpec
from modelwright.ports.workloads import (
    Command,
    Download,
    HostPath,
    ModelImage,
    Mount,
    Placement,
    Resources,
    Task,
    Volume,
)
from modelwright.reconcile import owners
from modelwright.reconcile.storage import node_of, storage_source
from modelwright.reconcile.training_attempts import deadline_of, task_name

BASE_PATH = "/kubedl-base-model"
DATASETS_PATH = "/datasets"
PROGRESS_FILE = ".modelwright/progress.json"


def training_task(training: TrainingModel, base: ModelVersion | None, number: int, now: datetime) -> Task:
    """Attempt `number`, with what is left of the time until the deadline."""
    spec = training.spec
    command = Command(
        command=spec.command,
        args=spec.args,
        image=spec.image,
        env=environment(spec),
        mounts=mounts(spec, base, data_scope(training)),
        workers=spec.workers,
        framework=spec.framework_type,
        progress_file=f"{mount_path(spec.storage).rstrip('/')}/{PROGRESS_FILE}",
    )
    return Task(
        name=task_name(training, number),
        owner=owners.owner_of_workloads(training),
        action=command,
        placement=Placement(spec.deploy_to_layer, spec.node_name or node_of(spec.storage), spec.node_selector),
        resources=quantities(spec.resources),
        deadline_seconds=seconds_left(training, now),
    )


def environment(spec: TrainingModelSpec) -> dict[str, str]:
    """Where things are, then what the user wants beside."""
    paths = {"KUBEDL_MODEL_PATH": mount_path(spec.storage)}
    if spec.base_model_version:
        paths["KUBEDL_BASE_MODEL_PATH"] = BASE_PATH
    if spec.datasets:
        paths["MODELWRIGHT_DATASETS"] = DATASETS_PATH
    return {**paths, **{variable.name: variable.value for variable in spec.env}}


def data_scope(training: TrainingModel) -> str:
    """Which attempts read the same bytes: those of this training, until somebody asks to start it again.

    Who has mended a dataset and trains again wants what is there now.
    """
    return f"{training.metadata.uid}-{training.status.uncounted}"


def mounts(spec: TrainingModelSpec, base: ModelVersion | None, scope: str) -> tuple[Mount, ...]:
    """The storage to write to, the weights to start from, and the datasets."""
    written = Mount(volume=writable(spec.storage), path=mount_path(spec.storage), read_only=False)
    start = (Mount(volume=weights(base), path=BASE_PATH),) if base is not None else ()
    read = (
        Mount(
            volume=Download(
                url=dataset.uri,
                sha256sum=dataset.sha256sum,
                secret=spec.download_secret,
                scope="" if dataset.sha256sum else scope,
            ),
            path=dataset_path(dataset.name),
        )
        for dataset in spec.datasets
    )
    return (written, *start, *read)


def writable(storage: Storage) -> Volume:
    """The storage; a folder on a node is made where it is missing."""
    source = storage_source(storage)
    if isinstance(source, HostPath):
        return HostPath(path=source.path, node_name=source.node_name, create=True)
    return source


def weights(base: ModelVersion) -> ModelImage:
    """The image of the version to start from: who may push it may pull it."""
    return ModelImage(image=base.status.resolved_image, pull_secret=base.spec.push_secret)


def dataset_path(name: str) -> str:
    """Where workers find a dataset."""
    return f"{DATASETS_PATH}/{name}"


def mount_path(storage: Storage) -> str:
    """Where workers find the storage."""
    if storage.local_storage is not None:
        return storage.local_storage.mount_path
    return storage.nfs.mount_path if storage.nfs is not None else MODEL_PATH


def quantities(resources: ResourcesSpec) -> Resources:
    """Quantities as strings, whether the user wrote `2` or `"2"`."""
    requests = {name: str(quantity) for name, quantity in resources.requests.items()}
    return Resources(requests, {name: str(quantity) for name, quantity in resources.limits.items()})


def seconds_left(training: TrainingModel, now: datetime) -> int:
    """Until the deadline; all of them before the first start, 0 for no deadline."""
    deadline = deadline_of(training)
    if deadline is None:
        return training.spec.active_deadline_seconds
    return max(1, ceil((deadline - now).total_seconds()))
