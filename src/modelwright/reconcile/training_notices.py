"""What is said once of a training's spec: what of it means nothing on one machine."""

from __future__ import annotations

from modelwright.api.training_model import TrainingModel
from modelwright.ports.capabilities import Capabilities
from modelwright.reconcile import requests
from modelwright.reconcile.plan import Notice
from modelwright.reconcile.storage import node_of


def once(training: TrainingModel, capabilities: Capabilities) -> tuple[Notice, ...]:
    """Notices for a training that is seen for the first time."""
    if not requests.first_sight(training) or not capabilities.single_node:
        return ()
    found = (node_is_this_machine(training, capabilities.single_node), resources_not_enforced(training))
    return tuple(notice for notice in found if notice is not None)


def node_is_this_machine(training: TrainingModel, here: str) -> Notice | None:
    named = {training.spec.node_name, node_of(training.spec.storage)} - {"", here}
    if not named and not training.spec.node_selector:
        return None
    node = " and ".join(sorted(named)) or "that nodeSelector chooses"
    text = f"node {node} is taken to be this machine ({here}): there is no other"
    return Notice("Normal", "NodeIsThisMachine", text)


def resources_not_enforced(training: TrainingModel) -> Notice | None:
    resources = training.spec.resources
    unused = [f"requests.{name}" for name in sorted(resources.requests)]
    unused += [f"limits.{name}" for name in sorted(resources.limits) if name != "memory"]
    if not unused:
        return None
    text = f"resources.{', '.join(unused)}: means nothing on this machine, where only limits.memory is enforced"
    return Notice("Normal", "ResourcesNotEnforced", text)
