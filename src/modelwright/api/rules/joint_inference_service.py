"""Rules of JointInferenceService."""

from __future__ import annotations

from modelwright.api.kind import Rule
from modelwright.api.rules import inference_model
from modelwright.api.rules.common import moved, name, node_labels, text

_MINING = "spec.hardExampleMining"
_POLICY = "(has(self.policy) ? self.policy : 'confidence')"


def _model(at: str, layer: str) -> tuple[Rule, ...]:
    one = Rule(
        at=at,
        rule=f"({text('name')} ? 1 : 0) + (has(self.spec) ? 1 : 0) == 1",
        message="must have exactly one of name (an InferenceModel that exists) and spec (one to make)",
        id=at,
    )
    there = Rule(
        at=f"{at}.spec",
        rule=f"self.deployToLayer == '{layer}'",
        message=f"must be {layer} here",
        field_path=".deployToLayer",
        id=f"{at}.spec.deployToLayer",
    )
    return (one, name(f"{at}.name", "an InferenceModel"), there, *moved(inference_model.RULES, "spec", f"{at}.spec"))


RULES: tuple[Rule, ...] = (
    *_model("spec.edgeModel", "edge"),
    *_model("spec.cloudModel", "cloud"),
    Rule(
        at="spec",
        rule="!has(self.edgeModel.name) || !has(self.cloudModel.name) || self.edgeModel.name == '' || "
        "self.edgeModel.name != self.cloudModel.name",
        message="edgeModel and cloudModel must be two InferenceModels",
        field_path=".cloudModel.name",
        id="spec.two-models",
    ),
    Rule(
        at=_MINING,
        rule="!has(self.parameters) || self.parameters.all(key, "
        f"key == ({_POLICY} == 'random' ? 'probability' : 'threshold'))",
        message="random takes probability; the other policies take threshold",
        field_path=".parameters",
        id=f"{_MINING}.parameters.names",
    ),
    Rule(
        at=_MINING,
        rule="!has(self.parameters) || self.parameters.all(key, self.parameters[key] >= 0.0 && "
        f"({_POLICY} == 'crossEntropy' || self.parameters[key] <= 1.0))",
        message="must lie between 0 and 1 (for crossEntropy: be 0 or more)",
        field_path=".parameters",
        id=f"{_MINING}.parameters.range",
    ),
    name("spec.gateway.nodeName", "a node"),
    node_labels("spec.gateway.nodeSelector"),
)
