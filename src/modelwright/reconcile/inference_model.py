"""InferenceModel: one serving service, always up while anything is there to serve.

What serves goes on serving until the wanted version is there; a version that cannot be had is said, and nothing else
changes. The server itself switches without a failed request (`ports.workloads.Server`): here is only what it should be.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from modelwright.api.inference_model import InferenceModel, InferenceModelStatus, ServableVersion
from modelwright.api.meta import Condition
from modelwright.api.model_version import ModelVersion
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.workloads import (
    ModelServer,
    Placement,
    Resources,
    ServedVersion,
    Server,
    ServerStatus,
)
from modelwright.reconcile import conditions, names, owners, requests
from modelwright.reconcile.findings import first_finding
from modelwright.reconcile.inference_model_checks import CHECKS
from modelwright.reconcile.inference_model_notices import once
from modelwright.reconcile.inference_model_state import State, state_of
from modelwright.reconcile.plan import Plan
from modelwright.reconcile.serving_history import remember
from modelwright.reconcile.sources import Wanted, waiting_for, wanted_source
from modelwright.reconcile.version_numbers import numbered

CLUSTER_PORT = 8501


class Observed(msgspec.Struct, frozen=True):
    """What is there: the ModelVersion that the spec names, the server, and what this place can do."""

    model_version: ModelVersion | None
    server: ServerStatus | None
    capabilities: Capabilities


def reconcile(model: InferenceModel, observed: Observed, now: datetime) -> Plan:
    """What to run for this model now, and what to say of it."""
    if requests.suspended(model):
        return Plan(untouched=True)
    if model.metadata.deletion_timestamp is not None:
        return Plan()
    notices = once(model, observed.capabilities)
    return msgspec.structs.replace(decide(model, observed, now), notices=notices)


def decide(model: InferenceModel, observed: Observed, now: datetime) -> Plan:
    """Stalled, waiting for a ModelVersion, or a server to run."""
    finding = first_finding(CHECKS, model, observed)
    if finding is not None:
        return hold(model, observed, conditions.stalled(finding.reason, finding.message), now)
    waiting = waiting_for(model, observed.model_version)
    if waiting is not None:
        return hold(model, observed, waiting, now)
    return serve(model, observed, wanted_source(model, observed.model_version), now)


def hold(model: InferenceModel, observed: Observed, wanted: tuple[Condition, ...], now: datetime) -> Plan:
    """Leave what runs exactly as it is, and say why nothing more is done. To stop it needs nothing that is missing."""
    status = seen_status(model, observed.server, model.status.versions)
    return Plan(
        status=finished(model, status, (*left_as_it_is(wanted, observed.server), available(observed.server)), now),
        keep=frozenset({server_name(model)} if model.spec.replicas else ()),
    )


def left_as_it_is(wanted: tuple[Condition, ...], seen: ServerStatus | None) -> tuple[Condition, ...]:
    """Said where something runs: no other change of the spec reaches it before the version can be had."""
    if seen is None or seen.replicas == 0:
        return wanted
    text = "; until then what runs is left as it is"
    return tuple(msgspec.structs.replace(one, message=one.message and one.message + text) for one in wanted)


def serve(model: InferenceModel, observed: Observed, wanted: Wanted, now: datetime) -> Plan:
    """Run the server as the spec wants it, and report how far that is."""
    versions = numbered(model, wanted.version)
    server = wanted_server(model, wanted, versions, observed.capabilities)
    state = state_of(server, observed.server)
    status = seen_status(model, observed.server, versions)
    if state == State.SERVING:
        status = remember(status, wanted.history_source, now)
    text = conditions_for(state, server, observed.server)
    return Plan(
        status=finished(model, status, (*text, available(observed.server), *limited(model)), now),
        workloads=(server,),
        warn=state is State.RETRYING,
    )


# The server ---------------------------------------------------------------------------------------------------------


def server_name(model: InferenceModel) -> str:
    """One server for each model, whatever it serves: it is changed, not replaced."""
    return names.child_name(model.metadata.name, "serve", model.metadata.uid)


def wanted_server(
    model: InferenceModel, wanted: Wanted, versions: tuple[ServableVersion, ...], capabilities: Capabilities
) -> Server:
    spec = model.spec
    edge = spec.deploy_to_layer == "edge"
    number = next(version.number for version in versions if version.version == wanted.version)
    program = ModelServer(
        model_name=spec.model_name,
        framework=spec.framework_type,
        versions=(ServedVersion(wanted.version, number, wanted.source),),
        default=wanted.version,
        in_place=edge,
    )
    return Server(
        name=server_name(model),
        owner=owners.owner_of_workloads(model),
        program=program,
        replicas=min(spec.replicas, 1) if edge else spec.replicas,
        port=spec.serving_port or (0 if capabilities.single_node else CLUSTER_PORT),
        placement=Placement(spec.deploy_to_layer, spec.node_name, spec.node_selector),
        resources=Resources(as_text(spec.resources.requests), as_text(spec.resources.limits)),
    )


def as_text(quantities: dict[str, str | int]) -> dict[str, str]:
    """Quantities as strings, whether the user wrote `2` or `"2"`."""
    return {name: str(quantity) for name, quantity in quantities.items()}


# The status ---------------------------------------------------------------------------------------------------------


def seen_status(
    model: InferenceModel, seen: ServerStatus | None, versions: tuple[ServableVersion, ...]
) -> InferenceModelStatus:
    """What is seen of the server, as the status says it."""
    seen = seen or ServerStatus(name="")
    answers = seen.ready_replicas > 0 and seen.port > 0
    return msgspec.structs.replace(
        model.status,
        url=f"http://{seen.host}:{seen.port}/v1/models/{model.spec.model_name}" if answers else "",
        serving_version=seen.serving_version,
        replicas=seen.replicas,
        ready_replicas=seen.ready_replicas,
        node_name=seen.node_name,
        selector=f"modelwright.dev/server={server_name(model)}",
        versions=versions,
    )


def finished(
    model: InferenceModel, status: InferenceModelStatus, wanted: tuple[Condition, ...], now: datetime
) -> InferenceModelStatus:
    generation = model.metadata.generation
    return msgspec.structs.replace(
        status,
        observed_generation=generation,
        last_handled_reconcile_at=requests.requested_at(model),
        conditions=conditions.settle(wanted, model.status.conditions, generation, now),
    )


def available(seen: ServerStatus | None) -> Condition:
    """Whether somebody who asks now is answered: kept apart from Ready, which is about the whole spec."""
    if seen is not None and seen.ready_replicas > 0:
        version = f"version {seen.serving_version}" if seen.serving_version else "two versions, during a switch"
        return conditions.condition("Available", "True", "Serving", f"{version} answers requests")
    return conditions.condition("Available", "False", "NoReadyReplica", "no replica is ready")


def limited(model: InferenceModel) -> tuple[Condition, ...]:
    """Said where the edge runs fewer replicas than were asked for."""
    if model.spec.deploy_to_layer != "edge" or model.spec.replicas <= 1:
        return ()
    text = f"replicas is {model.spec.replicas}, and one edge node runs one replica at most: 1 runs"
    return (conditions.condition("ReplicasLimited", "True", "OneReplicaAtTheEdge", text),)


def conditions_for(state: State, server: Server, seen: ServerStatus | None) -> tuple[Condition, ...]:
    """Ready, Reconciling and Stalled for this state of the server."""
    message = state.message(server, seen)
    if state in (State.SERVING, State.SCALED_TO_ZERO):
        return conditions.ready(state.reason(seen), message)
    if state is State.FAILED:
        return conditions.stalled(state.reason(seen), message)
    return conditions.reconciling(state.reason(seen), message)
