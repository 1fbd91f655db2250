"""Objects that are completed, refused or stripped; both places where that happens must do it alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.unit.api.bases import CLOUD, EDGE, JOINT, MANIFEST, TRAINING, VERSION, Object, patched, resource

from modelwright.api.kind import Kind
from modelwright.api.kinds import (
    INFERENCE_MODEL,
    JOINT_INFERENCE_SERVICE,
    MODEL,
    MODEL_VERSION,
    TRAINING_MODEL,
    by_kind,
)


@dataclass(frozen=True)
class Sample:
    id: str
    sent: Object

    @property
    def kind(self) -> Kind:
        kind = by_kind(self.sent["apiVersion"], self.sent["kind"])
        assert kind is not None
        return kind


def sample(name: str, base: Object, changes: dict[str, Any]) -> Sample:
    return Sample(name, patched(base, changes))


A_MODEL = resource(MODEL, {})
NFS = {"server": "nas", "path": "/m"}
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Done",
    "message": "all is well",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
    "observedGeneration": 1,
}

SHAPED = (
    sample("a model without spec", A_MODEL, {"spec": ...}),
    sample("a model with an empty spec", A_MODEL, {}),
    sample("a model whose spec is null", A_MODEL, {"spec": None}),
    sample("defaults", VERSION, {}),
    sample("inner defaults where the parent is given", VERSION, {"spec.storage": {"nfs": NFS}}),
    sample("a null counts as absent", VERSION, {"spec.storage": {"nfs": NFS, "localStorage": None}}),
    sample(
        "a null takes the default", VERSION, {"spec.builder": None, "spec.storage": {"nfs": {**NFS, "mountPath": None}}}
    ),
    sample("an empty object stays", VERSION, {"spec.lineage": {"source": {}, "parameters": {}, "parents": []}}),
    sample(
        "nulls in maps go", VERSION, {"spec.lineage": {"parameters": {"a": None, "b": "c"}, "metrics": {"x": None}}}
    ),
    sample(
        "numbers stay as they are", VERSION, {"spec.lineage": {"metrics": {"a": 1, "b": 0.5, "c": -2e-9, "d": 1e300}}}
    ),
    sample("unknown fields go", VERSION, {"spec.zip": 1, "spec.storage.localStorage.x": {"y": 2}, "other": [1]}),
    sample("a status that a client sends is dropped", VERSION, {"status": {"image": "a:b", "unknown": 1}}),
    sample("labels and annotations", VERSION, {"metadata.labels": {"a/b": "c"}, "metadata.annotations": {"d": "e\nf"}}),
    sample("null labels", VERSION, {"metadata.labels": None, "metadata.finalizers": None}),
    sample("finalizers", VERSION, {"metadata.finalizers": ["modelwright.dev/keep"]}),
    sample("an empty image", EDGE, {"spec.image": ""}),
    sample("zero replicas stay", EDGE, {"spec.replicas": 0, "spec.servingPort": 0}),
    sample("a whole float is an integer", CLOUD, {"spec.servingPort": 8501.0}),
    sample("defaults of a service", CLOUD, {"spec.service": {}}),
    sample("null items of an object", CLOUD, {"spec.service": {"type": None, "annotations": None}, "spec.auth": None}),
    sample(
        "quantities of both types", CLOUD, {"spec.resources": {"limits": {"cpu": 2, "memory": "1.5Gi", "x": "1e3"}}}
    ),
    sample("unknown fields in items", EDGE, {"spec.manifest": [{**MANIFEST[0], "zip": True}]}),
    sample("defaults of a training", TRAINING, {}),
    sample("a training that is not repeated", TRAINING, {"spec.backoffLimit": 0}),
    sample("an empty list stays", TRAINING, {"spec.args": [], "spec.env": [{"name": "A"}]}),
    sample("defaults of a joint service", JOINT, {}),
    sample("a timeout in fractions", JOINT, {"spec.timeoutSeconds": 0.25, "spec.hardExampleMining": {}}),
    sample("a null parameter", JOINT, {"spec.hardExampleMining": {"parameters": {"x": None}}}),
    sample("inner defaults of an inline model", JOINT, {"spec.edgeModel": {"spec": EDGE["spec"]}}),
)

FAULTY = (
    sample("no spec", VERSION, {"spec": ...}),
    sample("a null spec", VERSION, {"spec": None}),
    sample("a spec that is text", VERSION, {"spec": "x"}),
    sample("an empty spec", VERSION, {"spec": {}}),
    sample("several at once", VERSION, {"spec.modelName": ..., "spec.imageRepo": 1, "spec.builder": "docker"}),
    sample("a null where something is required", VERSION, {"spec.modelName": None}),
    sample("a wrong word", EDGE, {"spec.deployToLayer": "fog"}),
    sample("too small and too large", CLOUD, {"spec.servingPort": 65536, "spec.replicas": -1}),
    sample("a fraction", CLOUD, {"spec.servingPort": 1.5}),
    sample("a boolean for a number", CLOUD, {"spec.servingPort": True}),
    sample("text for a list", EDGE, {"spec.manifest": "x"}),
    sample("a list for an object", EDGE, {"spec.service": []}),
    sample("text for a map", EDGE, {"spec.nodeSelector": "x"}),
    sample("a number in a map of texts", EDGE, {"spec.nodeSelector": {"a": 1}}),
    sample("a null item", EDGE, {"spec.manifest": [None]}),
    sample("an item without its key", EDGE, {"spec.manifest": [{"downloadURL": "http://h/1"}]}),
    sample("the same version twice", EDGE, {"spec.manifest": [*MANIFEST, *MANIFEST]}),
    sample("the same dataset twice", TRAINING, {"spec.datasets": [{"name": "d", "uri": "http://h/d"}] * 2}),
    sample("the same variable twice", TRAINING, {"spec.env": [{"name": "A"}, {"name": "A", "value": "b"}]}),
    sample("the same parent twice", VERSION, {"spec.lineage": {"parents": ["a", "b", "a"]}}),
    sample("a number among parameters", VERSION, {"spec.lineage": {"parameters": {"epochs": 10}}}),
    sample("text among metrics", VERSION, {"spec.lineage": {"metrics": {"accuracy": "high"}}}),
    sample("a text that is too long", VERSION, {"spec.imageTag": "a" * 129}),
    sample("too many items", TRAINING, {"spec.args": ["a"] * 257}),
    sample("not a quantity", CLOUD, {"spec.resources": {"limits": {"cpu": "two", "memory": "-1Gi"}}}),
    sample("no workers", TRAINING, {"spec.workers": 0, "spec.backoffLimit": 101}),
    sample("no timeout", JOINT, {"spec.timeoutSeconds": 0}),
    sample("nothing to keep", JOINT, {"spec.hardExampleMining": {"keep": {}, "policy": "guess"}}),
    sample("an inline model with faults", JOINT, {"spec.edgeModel": {"spec": {"replicas": -1}}}),
    sample("a bad name", VERSION, {"metadata.name": "Not_a_name"}),
    sample("bad labels", VERSION, {"metadata.labels": {"a b": "c", "d": "e f", "g/h/i": "j"}}),
    sample("bad annotations", VERSION, {"metadata.annotations": {"a b": "c"}}),
    sample("a bad finalizer", VERSION, {"metadata.finalizers": ["a b"]}),
    sample(
        "an empty owner", VERSION, {"metadata.ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]}
    ),
)

UNKNOWN = (
    sample("in the object", VERSION, {"specs": {}}),
    sample("in the metadata", VERSION, {"metadata.label": {"a": "b"}}),
    sample("in the spec", VERSION, {"spec.imagerepo": "a", "spec.storage.localstorage": {}}),
    sample("in a list", EDGE, {"spec.manifest": [{**MANIFEST[0], "downloadUrl": "a"}], "spec.port": 1}),
    sample("with a null", EDGE, {"spec.ports": None}),
    sample("in a status", EDGE, {"status": {"urls": []}}),
)

_COUNTED = {"replicas": 2, "readyReplicas": 0, "conditions": [CONDITION]}
_LATEST = {"modelVersion": "mv-3", "imageName": "modelhub/resnet:v1c072"}

STATUSES = (
    sample("model", A_MODEL, {"metadata.name": "model", "status": {"latestVersion": _LATEST, "versions": 3}}),
    sample(
        "version",
        VERSION,
        {
            "metadata.name": "version",
            "status": {
                "image": "modelhub/resnet:v1c072",
                "imageBuildPhase": "ImageBuildSucceeded",
                "finishTime": "2026-01-02T03:04:05Z",
                "sizeBytes": 2**40,
                "metrics": {"accuracy": 0.93},
                "progress": {"bytesDone": 1, "bytesTotal": 2},
                "conditions": [CONDITION, {**CONDITION, "type": "Stalled", "status": "False"}],
            },
        },
    ),
    sample("serving", CLOUD, {"metadata.name": "serving", "status": {"url": "http://h/v1/models/m", **_COUNTED}}),
    sample("nothing", CLOUD, {"metadata.name": "nothing", "status": {}}),
    sample("training", TRAINING, {"metadata.name": "training", "status": {"phase": "Running", "nodeName": "n"}}),
    sample("joint", JOINT, {"metadata.name": "joint", "status": {"edgeModel": {"name": "a", "ready": False}}}),
)

assert {each.kind for each in STATUSES} == {
    MODEL,
    MODEL_VERSION,
    INFERENCE_MODEL,
    TRAINING_MODEL,
    JOINT_INFERENCE_SERVICE,
}
