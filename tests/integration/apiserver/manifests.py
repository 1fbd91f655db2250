"""Manifests as users write them."""

from __future__ import annotations

VERSION = """\
apiVersion: model.kubedl.io/v1alpha1
kind: ModelVersion
metadata:
  name: resnet-1
  labels: {team: vision}
spec:
  modelName: resnet
  createdBy: ada
  imageRepo: modelhub/resnet
  storage:
    localStorage: {path: /models/resnet, nodeName: node-0}
"""

INFERENCE = """\
apiVersion: sedna.io/v1alpha1
kind: InferenceModel
metadata:
  name: detector
spec:
  modelName: detector
  deployToLayer: cloud
  frameworkType: onnx
  modelVersion: resnet-1
  replicas: 2
"""

MODEL = """\
apiVersion: model.kubedl.io/v1alpha1
kind: Model
metadata:
  name: NAME
spec: {}
"""


def model(name: str) -> str:
    return MODEL.replace("NAME", name)


def models(*names: str) -> str:
    return "---\n".join(map(model, names))
