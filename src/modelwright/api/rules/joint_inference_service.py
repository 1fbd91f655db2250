"""Rules of JointInferenceService."""

from __future__ import annotations

from modelwright.api.joint_inference_service import DEFAULT_PARAMETERS
from modelwright.api.kind import Rule
from modelwright.api.rules import inference_model
from modelwright.api.rules.common import moved, name, node_labels, text

_MINING = "spec.hardExampleMining"
_POLICY = "(has(self.policy) ? self.policy : 'confidence')"
_BUILT_IN = f"[{', '.join(repr(policy) for policy in DEFAULT_PARAMETERS)}]"
_WORD = "[A-Za-z0-9]([-A-Za-z0-9_]*[A-Za-z0-9])?"
_OTHERS = f"!has(self.parameters) || !({_POLICY} in {_BUILT_IN})"


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
        at=f"{_MINING}.policy",
        rule=f"self in {_BUILT_IN} || self.matches('^{_WORD}([.]{_WORD})+$')",
        message=f"must be one of {', '.join(DEFAULT_PARAMETERS)}, or a plug-in, whose name has a dot: example.energy",
        id=f"{_MINING}.policy",
    ),
    Rule(
        at=_MINING,
        rule=f"{_OTHERS} || self.parameters.all(key, key == ({_POLICY} == 'random' ? 'probability' : 'threshold'))",
        message="random takes probability; confidence, margin and crossEntropy take threshold",
        field_path=".parameters",
        id=f"{_MINING}.parameters.names",
    ),
    Rule(
        at=_MINING,
        rule=f"{_OTHERS} || self.parameters.all(key, self.parameters[key] >= 0.0 && "
        f"({_POLICY} == 'crossEntropy' || self.parameters[key] <= 1.0))",
        message="must lie between 0 and 1 (for crossEntropy: be 0 or more)",
        field_path=".parameters",
        id=f"{_MINING}.parameters.range",
    ),
    name("spec.gateway.nodeName", "a node"),
    node_labels("spec.gateway.nodeSelector"),
)
