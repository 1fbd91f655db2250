"""InferenceModel: one serving service, always up while anything is there to serve.

What serves goes on serving until the wanted version is there; a version that cannot be had is said, and nothing else
changes. The server itself switches without a failed request (`ports.workloads.Server`): here is only what it should be.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from modelwright.api.inference_model import InferenceModel, InferenceModelStatus
from modelwright.api.meta import Condition
from modelwright.api.model_version import ModelVersion
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.workloads import ServerStatus
from modelwright.reconcile import conditions, remarks, requests
from modelwright.reconcile.findings import first_finding
from modelwright.reconcile.inference_model_checks import CHECKS
from modelwright.reconcile.inference_model_notices import ignored, once
from modelwright.reconcile.inference_model_server import server_name, wanted_server
from modelwright.reconcile.inference_model_state import State, state_of
from modelwright.reconcile.inference_model_status import finished, seen_status
from modelwright.reconcile.inference_model_words import (
    available,
    conditions_for,
    left_as_it_is,
    limited,
    without_its_version,
)
from modelwright.reconcile.plan import Plan
from modelwright.reconcile.serving_history import remember
from modelwright.reconcile.sources import Wanted, version_as_it_was, waiting_for, wanted_source
from modelwright.reconcile.version_numbers import numbered

__all__ = ["Observed", "reconcile", "server_name"]


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
    return told(model, observed, decide(model, observed, now))


def told(model: InferenceModel, observed: Observed, plan: Plan) -> Plan:
    """The plan with what is worth an Event, beside the change of its conditions."""
    found = remarks.remarks(observed.server, ignored(model, observed.capabilities))
    notices = (*once(model, observed.capabilities), *remarks.news(model.status.notices, found))
    return msgspec.structs.replace(plan, status=msgspec.structs.replace(plan.status, notices=found), notices=notices)


def decide(model: InferenceModel, observed: Observed, now: datetime) -> Plan:
    """Stalled, waiting for a ModelVersion, or a server to run."""
    finding = first_finding(CHECKS, model, observed)
    if finding is not None:
        return hold(model, observed, conditions.stalled(finding.reason, finding.message), now)
    waiting = waiting_for(model, observed.model_version)
    if waiting is None:
        return serve(model, observed, wanted_source(model, observed.model_version), now)
    known = version_as_it_was(model)
    if known is None or not model.spec.replicas:
        return hold(model, observed, waiting, now)
    return serve(model, observed, known, now, waiting=waiting)


def hold(model: InferenceModel, observed: Observed, wanted: tuple[Condition, ...], now: datetime) -> Plan:
    """Leave what runs exactly as it is, and say why nothing more is done. To stop it needs nothing that is missing."""
    status = seen_status(model, observed.server, model.status.versions, applied=False)
    text = left_as_it_is(wanted, observed.server)
    return Plan(
        status=finished(model, status, (*text, available(model, observed.server)), now),
        keep=frozenset({server_name(model)} if model.spec.replicas else ()),
    )


def serve(
    model: InferenceModel,
    observed: Observed,
    wanted: Wanted,
    now: datetime,
    *,
    waiting: tuple[Condition, ...] | None = None,
) -> Plan:
    """Run the server as the spec wants it, and report how far that is; `waiting` if its ModelVersion has gone."""
    versions = numbered(model, wanted.version) if wanted.version else model.status.versions
    server = wanted_server(model, wanted, versions, observed.capabilities)
    state = state_of(server, observed.server)
    status = seen_status(model, observed.server, versions, applied=True)
    text = conditions_for(state, server, observed.server)
    if waiting is not None:
        text = without_its_version(waiting, state, text)
    return Plan(
        status=finished(
            model,
            served(status, wanted, state, now),
            (*text, available(model, observed.server), *limited(model)),
            now,
        ),
        workloads=(server,),
        warn=state in (State.RETRYING, State.NODE_LOST, State.NOT_EXPOSED),
    )


def served(status: InferenceModelStatus, wanted: Wanted, state: State, now: datetime) -> InferenceModelStatus:
    """The status with what is asked for, and with what is served by now in its history."""
    status = msgspec.structs.replace(status, resolved=wanted.resolved)
    return remember(status, wanted.history_source, now) if state in (State.SERVING, State.NOT_EXPOSED) else status
