"""The gateway of a JointInferenceService: what it should be, and how it is doing."""

from __future__ import annotations

from modelwright.api.joint_inference_service import DEFAULT_PARAMETERS, HardExampleMining, JointInferenceService
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.workloads import Gateway, Kept, Placement, Server, ServerStatus
from modelwright.reconcile import names, owners, urls
from modelwright.reconcile.joint_inference_service_problems import Problem
from modelwright.reconcile.joint_inference_service_sides import Side
from modelwright.reconcile.nodes import NODE_LOST, is_away

CLUSTER_PORT = 8500


def gateway_name(jis: JointInferenceService) -> str:
    """One gateway for each service, whatever it is told: it is changed, not replaced."""
    return names.child_name(jis.metadata.name, "gateway", jis.metadata.uid)


def wanted_gateway(jis: JointInferenceService, edge: Side, cloud: Side, capabilities: Capabilities) -> Server | None:
    """The gateway; None as long as nobody knows which node it belongs to."""
    placement = placement_of(jis, edge, capabilities)
    if placement is None:
        return None
    return Server(
        name=gateway_name(jis),
        owner=owners.owner_of_workloads(jis),
        program=program_of(jis, edge, cloud),
        port=jis.spec.gateway.port or (0 if capabilities.single_node else CLUSTER_PORT),
        placement=placement,
    )


def program_of(jis: JointInferenceService, edge: Side, cloud: Side) -> Gateway:
    """What it is told: it can change while it answers, where it has not to be given other Secrets."""
    mining = jis.spec.hard_example_mining
    keep = mining.keep
    return Gateway(
        name=jis.metadata.name,
        edge_url=edge.url,
        cloud_url=cloud.url,
        policy=mining.policy,
        parameters=parameters_of(mining),
        timeout_seconds=jis.spec.timeout_seconds,
        kept=Kept(name=f"{jis.metadata.namespace}/{jis.metadata.name}") if keep is not None else None,
        keep_max_bytes=keep.max_bytes if keep is not None else 0,
        edge=edge.upstream,
        cloud=cloud.upstream,
    )


def parameters_of(mining: HardExampleMining) -> dict[str, float]:
    """The parameters of the policy, those that are not given at their default; a plug-in has its own defaults."""
    return {**DEFAULT_PARAMETERS.get(mining.policy, {}), **mining.parameters}


def placement_of(jis: JointInferenceService, edge: Side, capabilities: Capabilities) -> Placement | None:
    """The node that is asked for, else the one that has the edge model; None while that is not known."""
    wanted = jis.spec.gateway
    if capabilities.single_node:
        return Placement("edge", capabilities.single_node)
    if wanted.node_name or wanted.node_selector:
        return Placement("edge", wanted.node_name, wanted.node_selector)
    model = edge.seen
    if model is not None and model.spec.deploy_to_layer == "cloud":
        return Placement("cloud", model.spec.node_name, model.spec.node_selector)
    if model is not None:
        # A model that is down for a while leaves the gateway where it is.
        node = model.status.node_name or model.spec.node_name or jis.status.node_name
    elif edge.runs_in == "cloud":
        return None  # it had a place of its own choice there: what runs is left as it is
    else:
        node = (edge.spec.node_name if edge.spec is not None else "") or jis.status.node_name
    return Placement("edge", node) if node else None


def is_up(seen: ServerStatus | None) -> bool:
    """Whether somebody who asks the gateway now is answered."""
    return urls.answers(seen)


def gateway_problem(wanted: Server | None, seen: ServerStatus | None) -> Problem | None:
    """Why the gateway is not what it should be; None if it is."""
    if seen is None:
        where = "waits to know the node of the edge model" if wanted is None else "is starting"
        return Problem(reason="Starting", message=f"the gateway {where}")
    if seen.failure is not None and is_away(seen):
        text = f"the gateway: {seen.failure.message}; nothing of it is removed"
        return Problem(reason=NODE_LOST, message=text, warn=True)
    if seen.failure is not None and not seen.up_to_date:
        again = "; trying again" if seen.failure.retryable else ""
        return Problem(
            reason=seen.failure.reason,
            message=f"the gateway: {seen.failure.message}{again}",
            stalled=not seen.failure.retryable,
            warn=True,
        )
    if not seen.up_to_date:
        doing = "takes over what has changed" if is_up(seen) else "is starting"
        return Problem(reason="RollingOut" if is_up(seen) else "Starting", message=f"the gateway {doing}")
    return None
