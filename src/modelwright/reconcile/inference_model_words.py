"""What the conditions of an InferenceModel say."""

from __future__ import annotations

import msgspec

from modelwright.api.inference_model import InferenceModel
from modelwright.api.meta import Condition
from modelwright.ports.workloads import Server, ServerStatus
from modelwright.reconcile import conditions
from modelwright.reconcile.inference_model_state import State
from modelwright.reconcile.nodes import is_away


def conditions_for(state: State, server: Server, seen: ServerStatus | None) -> tuple[Condition, ...]:
    """Ready, Reconciling and Stalled for this state of the server."""
    reason, message = state.reason(seen), state.message(server, seen)
    match state:
        case State.SERVING | State.NOT_EXPOSED | State.SCALED_TO_ZERO:
            return conditions.ready(reason, message)
        case State.FAILED:
            return conditions.stalled(reason, message)
        case State.NODE_LOST:
            return conditions.unknown(reason, message)
    return conditions.reconciling(reason, message)


def without_its_version(
    waiting: tuple[Condition, ...], state: State, told: tuple[Condition, ...]
) -> tuple[Condition, ...]:
    """Where the ModelVersion is gone, and what it was goes on being served: both are said, a failure first."""
    if state in (State.FAILED, State.RETRYING, State.NODE_LOST):
        return with_text(told, f"; besides, {waiting[0].message}")
    return with_text(waiting, f"; until then what it was is served: {told[0].message}")


def left_as_it_is(wanted: tuple[Condition, ...], seen: ServerStatus | None) -> tuple[Condition, ...]:
    """Said where something runs: no other change of the spec reaches it before the version can be had."""
    if seen is None or seen.replicas == 0:
        return wanted
    return with_text(wanted, "; until then what runs is left as it is")


def with_text(told: tuple[Condition, ...], text: str) -> tuple[Condition, ...]:
    """The conditions with this at the end of their messages."""
    return tuple(msgspec.structs.replace(one, message=one.message and one.message + text) for one in told)


def available(model: InferenceModel, seen: ServerStatus | None) -> Condition:
    """Whether somebody who asks now is answered: kept apart from Ready, which is about the whole spec."""
    if seen is not None and seen.ready_replicas > 0:
        return conditions.condition("Available", "True", "Serving", f"{answering(model, seen)} answers requests")
    if model.spec.deploy_to_layer == "edge" and is_away(seen):
        node = f"the node {seen.node_name}" if seen is not None and seen.node_name else "its node"
        text = f"{node} does not answer: what served there goes on serving there, as far as anybody can know"
        return conditions.condition("Available", "Unknown", "NodeUnreachable", text)
    return conditions.condition("Available", "False", "NoReadyReplica", "no replica is ready")


def answering(model: InferenceModel, seen: ServerStatus) -> str:
    """What answers."""
    if seen.serving_version:
        return f"version {seen.serving_version}"
    return "the serving image" if model.spec.image else "two versions, during a switch"


def limited(model: InferenceModel) -> tuple[Condition, ...]:
    """Said where the edge runs fewer replicas than were asked for."""
    if model.spec.deploy_to_layer != "edge" or model.spec.replicas <= 1:
        return ()
    text = f"replicas is {model.spec.replicas}, and one edge node runs one replica at most: 1 runs"
    return (conditions.condition("ReplicasLimited", "True", "OneReplicaAtTheEdge", text),)
