"""Rules of ModelVersion."""

from __future__ import annotations

from modelwright.api.kind import Rule
from modelwright.api.rules.common import image, name, pattern, repository, storage, tag, text

_DIGEST = "^[a-z0-9]+([.+_-][a-z0-9]+)*:[A-Za-z0-9=_-]{32,}$"

RULES: tuple[Rule, ...] = (
    name("spec.modelName", "a Model", optional=False),
    repository("spec.imageRepo"),
    tag("spec.imageTag"),
    *storage("spec.storage"),
    Rule(
        at="spec.storage.localStorage",
        rule=text("nodeName"),
        message="name the node that has the files; where everything runs on one machine, any name does",
        field_path=".nodeName",
        reason="FieldValueRequired",
        id="spec.storage.localStorage.nodeName.required",
    ),
    name("spec.pushSecret", "a Secret"),
    image("spec.baseImage"),
    name("spec.lineage.trainingModel", "a TrainingModel"),
    name("spec.lineage.parents[]", "a ModelVersion", optional=False),
    pattern("spec.lineage.datasets[].digest", _DIGEST, "must be a digest such as sha256: and 64 hexadecimal digits"),
)
