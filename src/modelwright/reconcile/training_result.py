"""The ModelVersion that a training makes of what it wrote, with its lineage."""

from __future__ import annotations

import msgspec

from modelwright.api.lineage import Lineage, LineageDataset, SourceCode
from modelwright.api.meta import Metadata
from modelwright.api.model_version import ModelVersion, ModelVersionSpec
from modelwright.api.storage import Storage
from modelwright.api.training_model import Dataset, TrainingModel
from modelwright.ports.workloads import TaskStatus
from modelwright.reconcile.training_parameters import parameters, shortened, without_login
from modelwright.reconcile.training_task import dataset_path

TRAINING_UID = "modelwright.dev/training-uid"
"""Label of a ModelVersion: the UID of the TrainingModel that made it."""
SOURCE = "org.opencontainers.image.source"
REVISION = "org.opencontainers.image.revision"
URL_LIMIT = 2048


def made_by(version: ModelVersion | None, training: TrainingModel) -> bool:
    """Whether this version is the result of this very training, not of another of the same name."""
    return version is not None and version.metadata.labels.get(TRAINING_UID) == training.metadata.uid


def result_of(training: TrainingModel, seen: TaskStatus | None, node_name: str) -> ModelVersion:
    """The version to make, of the same name, so that it can be named before it exists.

    It belongs to its Model, not to the training: that may be deleted, and the version stays.
    """
    spec = training.spec
    metadata = Metadata(
        name=training.metadata.name,
        namespace=training.metadata.namespace,
        labels={TRAINING_UID: training.metadata.uid},
    )
    made = ModelVersionSpec(
        model_name=spec.model_name,
        created_by=f"TrainingModel/{training.metadata.name}",
        image_repo=spec.image_repo,
        image_tag=spec.image_tag,
        storage=on_node(spec.storage, node_name),
        push_secret=spec.push_secret,
        lineage=lineage(training, seen),
    )
    return ModelVersion(metadata=metadata, spec=made)


def on_node(storage: Storage, node_name: str) -> Storage:
    """The storage, with the node that has the files now: the chief's."""
    local = storage.local_storage
    if local is None:
        return storage
    node = node_name or local.node_name
    return msgspec.structs.replace(storage, local_storage=msgspec.structs.replace(local, node_name=node))


def lineage(training: TrainingModel, seen: TaskStatus | None) -> Lineage:
    """What the result was made from, and how."""
    spec = training.spec
    downloads = seen.downloads if seen is not None else {}
    return Lineage(
        training_model=training.metadata.name,
        parents=(spec.base_model_version,) if spec.base_model_version else (),
        datasets=tuple(dataset_read(dataset, downloads) for dataset in spec.datasets),
        source=source_code(training.metadata.annotations),
        parameters=parameters(spec),
    )


def dataset_read(dataset: Dataset, downloads: dict[str, str]) -> LineageDataset:
    """A dataset with the digest of what was really downloaded, else of what was asked for."""
    asked = f"sha256:{dataset.sha256sum}" if dataset.sha256sum else ""
    digest = downloads.get(dataset_path(dataset.name), asked)
    return LineageDataset(name=dataset.name, uri=dataset.uri, digest=digest)


def source_code(annotations: dict[str, str]) -> SourceCode | None:
    """The code that trained, as annotations say in OCI's words."""
    repo, revision = annotations.get(SOURCE, ""), annotations.get(REVISION, "")
    if not repo and not revision:
        return None
    return SourceCode(repo=without_login(repo)[:URL_LIMIT], revision=shortened(revision))
