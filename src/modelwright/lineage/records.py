"""The few fields of resources that a graph needs: of ten thousand objects, most are never looked at again.

What only a node that is shown needs stays undecoded (`Raw`) until it is shown. Null equals absent.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from modelwright.api.kinds import drop_nulls
from modelwright.ports.errors import Unavailable

NOTHING = msgspec.Raw(b"null")

T = TypeVar("T")


class Meta(msgspec.Struct, frozen=True, gc=False):
    """The name alone."""

    name: str


class AnnotatedMeta(msgspec.Struct, frozen=True):
    """The name, and the annotations that say where the code of a training is."""

    name: str
    annotations: msgspec.Raw = NOTHING


class NamedDataset(msgspec.Struct, frozen=True, gc=False):
    """A data set, as trainings (`sha256sum`) and versions (`digest`) spell it."""

    name: str
    uri: str = ""
    digest: str = ""
    sha256sum: str = ""


class Made(msgspec.Struct, frozen=True, rename="camel"):
    """What a version says it was made from."""

    training_model: str = ""
    parents: tuple[str, ...] = ()
    datasets: tuple[NamedDataset, ...] = ()
    source: msgspec.Raw = NOTHING
    parameters: msgspec.Raw = NOTHING
    metrics: msgspec.Raw = NOTHING


class LocalPath(msgspec.Struct, frozen=True, gc=False):
    """A folder on a node."""

    path: str = ""


class Place(msgspec.Struct, frozen=True, rename="camel"):
    """Storage, as far as paths can be compared."""

    local_storage: LocalPath | None = None


class VersionSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Of a ModelVersion's spec; `storage` is a `Place`."""

    model_name: str = ""
    created_by: str = ""
    base_image: str = ""
    lineage: Made | None = None
    storage: msgspec.Raw = NOTHING


class VersionStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Of a ModelVersion's status."""

    image: str = ""
    image_digest: str = ""
    resolved_image: str = ""
    size_bytes: int = 0
    file_count: int = 0
    metrics: msgspec.Raw = NOTHING
    conditions: msgspec.Raw = NOTHING


class Version(msgspec.Struct, frozen=True):
    """A ModelVersion; `status` is a `VersionStatus`."""

    metadata: Meta
    spec: VersionSpec
    status: msgspec.Raw = NOTHING


class TrainingSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Of a TrainingModel's spec."""

    model_name: str = ""
    base_model_version: str = ""
    datasets: tuple[NamedDataset, ...] = ()
    framework_type: str = ""
    workers: int = 1
    command: msgspec.Raw = NOTHING
    args: msgspec.Raw = NOTHING
    env: msgspec.Raw = NOTHING
    image: str = ""


class TrainingStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Of a TrainingModel's status."""

    phase: str = ""
    model_version: str = ""


class Training(msgspec.Struct, frozen=True):
    """A TrainingModel; `status` is a `TrainingStatus`."""

    metadata: AnnotatedMeta
    spec: TrainingSpec
    status: msgspec.Raw = NOTHING


class ServedFile(msgspec.Struct, frozen=True, rename={"download_url": "downloadURL"}):
    """An entry of a manifest."""

    version: str = ""
    download_url: str = ""
    sha256sum: str = ""


class ServedSource(msgspec.Struct, frozen=True, rename="camel"):
    """What was served."""

    image: str = ""
    model_version: str = ""
    file: ServedFile | None = None


class HistoryEntry(msgspec.Struct, frozen=True):
    """One line of an InferenceModel's history."""

    source: ServedSource = ServedSource()


class ServedSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Of an InferenceModel's spec."""

    model_name: str = ""
    deploy_to_layer: str = ""
    framework_type: str = ""
    image: str = ""
    model_version: str = ""
    manifest: tuple[ServedFile, ...] = ()
    target_version: str = ""


class ServedStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Of an InferenceModel's status."""

    url: str = ""
    serving_version: str = ""
    history: tuple[HistoryEntry, ...] = ()
    conditions: msgspec.Raw = NOTHING


class Served(msgspec.Struct, frozen=True):
    """An InferenceModel."""

    metadata: Meta
    spec: ServedSpec
    status: ServedStatus = ServedStatus()


class JointModel(msgspec.Struct, frozen=True):
    """One of the two models of a JointInferenceService."""

    name: str = ""


class Mining(msgspec.Struct, frozen=True):
    """How hard rows are found."""

    policy: str = "confidence"


class JointSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Of a JointInferenceService's spec."""

    edge_model: JointModel = JointModel()
    cloud_model: JointModel = JointModel()
    hard_example_mining: Mining = Mining()


class JointStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Of a JointInferenceService's status."""

    url: str = ""
    kept_path: str = ""
    conditions: msgspec.Raw = NOTHING


class Joint(msgspec.Struct, frozen=True):
    """A JointInferenceService."""

    metadata: Meta
    spec: JointSpec
    status: JointStatus = JointStatus()


class Model(msgspec.Struct, frozen=True):
    """A Model."""

    metadata: Meta


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one namespace holds."""

    versions: tuple[Version, ...] = ()
    trainings: tuple[Training, ...] = ()
    served: tuple[Served, ...] = ()
    joint: tuple[Joint, ...] = ()
    models: tuple[Model, ...] = ()


TYPES: dict[str, tuple[str, Any]] = {
    "ModelVersion": ("versions", Version),
    "TrainingModel": ("trainings", Training),
    "InferenceModel": ("served", Served),
    "JointInferenceService": ("joint", Joint),
    "Model": ("models", Model),
}
"""By kind: the field of `Records`, and the type of its items."""


class _List(msgspec.Struct, Generic[T], frozen=True):
    items: tuple[T, ...] = ()


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


def detail(raw: msgspec.Raw, type_: type[T]) -> T:
    """What was left undecoded; an empty value where nothing is, or nothing that can be read."""
    try:
        found = msgspec.json.decode(raw, type=type_ | None)
    except (msgspec.MsgspecError, RecursionError):
        found = None
    return type_() if found is None else found


def state(conditions: msgspec.Raw) -> str:
    """`Ready`, or else the reason why it is not."""
    for each in detail(conditions, list[_Condition]):
        if each.type == "Ready":
            return "Ready" if each.status == "True" else each.reason
    return ""


def items(kind: str, body: bytes) -> tuple[Any, ...]:
    """The items of one list. Raises Unavailable."""
    type_ = TYPES[kind][1]
    try:
        return tuple(msgspec.json.decode(body, type=_List[type_]).items)  # type: ignore[valid-type]
    except msgspec.ValidationError:
        return _without_nulls(kind, body)
    except msgspec.DecodeError as error:
        raise _unreadable(kind, error) from None


def _without_nulls(kind: str, body: bytes) -> tuple[Any, ...]:
    """Servers may keep nulls, which no field of ours takes; only then is everything read twice."""
    type_ = TYPES[kind][1]
    try:
        plain = msgspec.json.encode(drop_nulls(msgspec.json.decode(body)))
        return tuple(msgspec.json.decode(plain, type=_List[type_]).items)  # type: ignore[valid-type]
    except msgspec.MsgspecError as error:
        raise _unreadable(kind, error) from None


def _unreadable(kind: str, error: Exception) -> Unavailable:
    return Unavailable(f"the list of {kind} objects cannot be read: {error}", reason="BadAnswer")
