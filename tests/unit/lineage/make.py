"""Small resources, as the API lists them."""

from __future__ import annotations

import json
from typing import Any

from modelwright.lineage.graph import Graph
from modelwright.lineage.nodes import Trace
from modelwright.lineage.records import TYPES, Records, items

HEX = "ab" * 32
SOURCE = {"repo": "https://code.test/train", "revision": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d"}


def condition(status: str, reason: str = "Because") -> list[dict[str, Any]]:
    return [{"type": "Ready", "status": status, "reason": reason}]


def version(name: str, *, model: str = "digits", status: Any = None, **spec: Any) -> dict[str, Any]:
    built = {
        "image": f"hub/digits:{name}",
        "imageDigest": f"sha256:{HEX}",
        "sizeBytes": 1234567,
        "fileCount": 2,
        "conditions": condition("True"),
    }
    path = {"localStorage": {"path": f"/models/{name}"}}
    return {
        "metadata": {"name": name},
        "spec": {"modelName": model, "storage": path, **spec},
        "status": built if status is None else status,
    }


def training(name: str, *, annotations: Any = None, status: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"modelName": "digits", "command": ["python", "train.py"], **spec},
        "status": {"phase": "Succeeded"} if status is None else status,
    }


def served(name: str, *, status: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"modelName": "digits", "deployToLayer": "cloud", **spec},
        "status": status or {},
    }


def joint(name: str, edge: Any, cloud: Any, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"edgeModel": edge, "cloudModel": cloud}, "status": status}


def lists(**objects: list[dict[str, Any]]) -> dict[str, bytes]:
    kinds = {
        "versions": "ModelVersion",
        "trainings": "TrainingModel",
        "served": "InferenceModel",
        "joint": "JointInferenceService",
        "models": "Model",
    }
    return {kinds[name]: json.dumps({"kind": "List", "items": found}).encode() for name, found in objects.items()}


def decode(found: dict[str, bytes]) -> Records:
    """The records in the API's lists, as the verb puts them together."""
    return Records(**{TYPES[kind][0]: items(kind, body) for kind, body in found.items()})


def graph(**objects: list[dict[str, Any]]) -> Graph:
    return Graph(decode(lists(**objects)))


def edges(trace: Trace) -> list[str]:
    return [f"{edge.source} -{edge.role}{' by ' + edge.by if edge.by else ''}-> {edge.target}" for edge in trace.edges]


def ids(trace: Trace) -> list[str]:
    return [node.id for node in trace.nodes]
