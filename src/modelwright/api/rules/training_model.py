"""Rules of TrainingModel."""

from __future__ import annotations

from modelwright.api.kind import Rule
from modelwright.api.rules.common import (
    PLAIN_NAME,
    download,
    image,
    name,
    node_labels,
    pattern,
    repository,
    sha256sum,
    storage,
    tag,
    text,
)

_OURS = (
    "['KUBEDL_MODEL_PATH', 'KUBEDL_BASE_MODEL_PATH', 'MODELWRIGHT_DATASETS', "
    "'RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT', 'TF_CONFIG']"
)
_LOCAL_NODE = (
    "(has(self.storage.localStorage) && has(self.storage.localStorage.nodeName) && "
    "self.storage.localStorage.nodeName != '')"
)

RULES: tuple[Rule, ...] = (
    name("spec.modelName", "a Model", optional=False),
    pattern(
        "spec.frameworkType", PLAIN_NAME, "must be a framework such as tensorflow: letters, digits, '-', '_' and '.'"
    ),
    Rule(
        at="spec",
        rule=f"self.deployToLayer == 'cloud' || {text('nodeName')} || {_LOCAL_NODE} || "
        "(has(self.nodeSelector) && size(self.nodeSelector) > 0)",
        message="a training at the edge runs on a node of its own: give nodeName or nodeSelector",
        reason="FieldValueRequired",
        id="spec.edge-node",
    ),
    Rule(
        at="spec",
        rule=f"{text('image')} || {text('frameworkType')} || has(self.fraemworkType) || "
        "(has(self.command) && size(self.command) > 0)",
        message="nothing to run: give command, image, or frameworkType with args",
        reason="FieldValueRequired",
        id="spec.program",
    ),
    node_labels("spec.nodeSelector"),
    name("spec.nodeName", "a node"),
    image("spec.image"),
    pattern(
        "spec.env[].name",
        "^[A-Za-z_.-][A-Za-z0-9_.-]*$",
        "must be the name of an environment variable: letters, digits, '_', '-' and '.', not first a digit",
        optional=False,
    ),
    Rule(
        at="spec.env[].name",
        rule=f"!(self in {_OURS})",
        message="is set by Modelwright: take another name",
        reason="FieldValueForbidden",
        id="spec.env[].name.reserved",
    ),
    name("spec.baseModelVersion", "a ModelVersion"),
    pattern(
        "spec.datasets[].name",
        "^[a-z0-9]([-a-z0-9_.]*[a-z0-9])?$",
        "is the name of a folder: lower-case letters, digits, '-', '_' and '.', first and last a letter or digit",
        optional=False,
    ),
    *download("spec.datasets[].uri"),
    sha256sum("spec.datasets[].sha256sum"),
    *storage("spec.storage"),
    repository("spec.imageRepo"),
    tag("spec.imageTag"),
    name("spec.pushSecret", "a Secret"),
    name("spec.downloadSecret", "a Secret"),
)
