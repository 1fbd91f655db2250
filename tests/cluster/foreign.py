"""CRDs that somebody else installed under the names of ours, made like KubeDL's."""

from __future__ import annotations

from typing import Any

GROUP = "model.kubedl.io"


def definitions() -> list[dict[str, Any]]:
    """Model and ModelVersion with the fields that KubeDL's have, and none of our labels."""
    storage = {
        "localStorage": _strings("path", "nodeName", "mountPath"),
        "nfs": _strings("server", "path", "mountPath"),
        "AWSEfs": _strings("volumeHandle"),
    }
    version = {**_strings("createdBy", "imageRepo", "imageTag", "modelName")["properties"], "storage": _object(storage)}
    model = {"description": {"type": "string"}, "latestVersion": _strings("imageName", "modelVersion")}
    status = _strings("finishTime", "image", "imageBuildPhase", "message")
    return [
        _definition("Model", "models", "mo", _object(model), _object({"latestVersion": model["latestVersion"]})),
        _definition("ModelVersion", "modelversions", "mv", _object(version), status),
    ]


def model_version(name: str) -> dict[str, Any]:
    """An object of that kind, as KubeDL's users write it."""
    storage = {"nfs": {"server": "nfs.example", "path": "/models", "mountPath": "/mnt"}}
    spec = {"modelName": "mymodel", "createdBy": "user1", "imageRepo": "modelhub/resnet", "storage": storage}
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": "ModelVersion", "metadata": {"name": name}, "spec": spec}


def _definition(kind: str, plural: str, short: str, spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _object({"spec": spec, "status": status})},
    }
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower(), "shortNames": [short]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {"controller-gen.kubebuilder.io/version": "v0.4.1"},
        },
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _strings(*names: str) -> dict[str, Any]:
    return _object({name: {"type": "string"} for name in names})
