"""Names of nodes: `KIND/NAME` in lower case; `dataset/DIGITS` by content, `file/NAME@DIGITS` by name and content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from modelwright.lineage.records import Version

NAME_LIMIT = 253
_DIGITS = 12


def version_id(name: str) -> str:
    """Of a ModelVersion."""
    return f"modelversion/{name}"


def training_id(name: str) -> str:
    """Of a TrainingModel."""
    return f"trainingmodel/{name}"


def served_id(name: str) -> str:
    """Of an InferenceModel."""
    return f"inferencemodel/{name}"


def joint_id(name: str) -> str:
    """Of a JointInferenceService."""
    return f"jointinferenceservice/{name}"


def content_id(kind: str, name: str, content: str) -> str:
    """Of what has no name of its own in the cluster: `content` is its digest, or where it is."""
    return f"{kind}/{name}@{_digits(content)}"


def dataset_id(name: str, uri: str, digest: str) -> str:
    """Of a data set: its content, else where it is, else its name, whatever is known first."""
    return f"dataset/{_digits(digest or uri or f' {name}')}"


def _digits(content: str) -> str:
    algorithm, _, value = content.partition(":")
    return (value if algorithm == "sha256" else hashlib.sha256(content.encode()).hexdigest())[:_DIGITS]


def training_of(version: Version) -> str:
    """The TrainingModel that made a version, as its lineage says, or else `createdBy`."""
    if version.spec.lineage is not None and version.spec.lineage.training_model:
        return version.spec.lineage.training_model
    kind, slash, name = version.spec.created_by.partition("/")
    return name if slash and kind == "TrainingModel" else ""


def folders_of(uri: str) -> Iterator[str]:
    """The path of a `file:` URI and the folders above it, the innermost first; none for other URIs."""
    if not uri.startswith("file:"):
        return
    path = unquote(urlsplit(uri).path).rstrip("/")
    while path:
        yield path
        path = path.rpartition("/")[0]
