"""What the conditions of a JointInferenceService say."""

from __future__ import annotations

from modelwright.api.joint_inference_service import JointInferenceService
from modelwright.api.meta import Condition
from modelwright.ports.workloads import ServerStatus
from modelwright.reconcile import conditions, urls
from modelwright.reconcile.joint_inference_service_problems import Problem
from modelwright.reconcile.joint_inference_service_sides import Side
from modelwright.reconcile.nodes import is_away


def told(
    jis: JointInferenceService,
    edge: Side,
    cloud: Side,
    problems: tuple[Problem, ...],
    gateway: ServerStatus | None,
) -> tuple[Condition, ...]:
    """Ready, Reconciling and Stalled: the first problem that needs a person gives the reason, the message has all."""
    if not problems:
        policy = jis.spec.hard_example_mining.policy
        text = f"InferenceModel {edge.name} answers, and {cloud.name} the rows that are hard by {policy}"
        return conditions.ready("Serving", text)
    ordered = sorted(problems, key=lambda problem: not problem.stalled)
    text = "; ".join(problem.message for problem in ordered) + meanwhile(edge, cloud, up=urls.answers(gateway))
    if ordered[0].stalled:
        return conditions.stalled(ordered[0].reason, text)
    say = conditions.unknown if is_away(gateway) else conditions.reconciling
    return say(ordered[0].reason, text)


def meanwhile(edge: Side, cloud: Side, *, up: bool) -> str:
    """Who answers until then, as the end of a sentence."""
    if not up or edge.answers == cloud.answers:
        return ""
    return f"; until then {edge.name if edge.answers else cloud.name} answers all rows"


def available(edge: Side, cloud: Side, gateway: ServerStatus | None) -> Condition:
    """Whether somebody who asks now is answered, and by whom."""
    if gateway is not None and is_away(gateway):
        node = f"the node {gateway.node_name}" if gateway.node_name else "the gateway's node"
        text = f"{node} does not answer: what served there goes on serving there, as far as anybody can know"
        return conditions.condition("Available", "Unknown", "NodeUnreachable", text)
    if not urls.answers(gateway):
        return conditions.condition("Available", "False", "NoReadyGateway", "the gateway is not ready")
    if edge.answers and cloud.answers:
        return conditions.condition("Available", "True", "Serving", "both models answer requests")
    if edge.answers:
        return conditions.condition("Available", "True", "EdgeOnly", f"InferenceModel {edge.name} alone answers")
    if cloud.answers:
        return conditions.condition("Available", "True", "CloudOnly", f"InferenceModel {cloud.name} alone answers")
    return conditions.condition("Available", "False", "NoModelAnswers", "neither model answers")


def layers(edge: Side, cloud: Side) -> tuple[Condition, ...]:
    """Said where a model that is named runs on the other layer: it is asked all the same, from further away."""
    away = edge.seen is not None and edge.seen.spec.deploy_to_layer == "cloud"
    near = cloud.seen is not None and cloud.seen.spec.deploy_to_layer == "edge"
    texts = [
        *([f"InferenceModel {edge.name}, asked first, has deployToLayer cloud"] if away else []),
        *([f"InferenceModel {cloud.name}, asked for hard rows, has deployToLayer edge"] if near else []),
    ]
    reason = "EdgeModelInTheCloud" if away else "CloudModelAtTheEdge"
    return (conditions.condition("OtherLayer", "True", reason, "; ".join(texts)),) if texts else ()
