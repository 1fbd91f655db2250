"""JointInferenceService: an edge model and a cloud model behind one gateway, which answers as long as one of them does.

The gateway runs from the first moment and is only ever told something new: a model that is missing, down or wrong is
said in the conditions, and changes nothing about what answers.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from modelwright.api.inference_model import InferenceModel
from modelwright.api.joint_inference_service import JointInferenceService, JointInferenceServiceStatus
from modelwright.api.meta import Condition
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.workloads import ServerStatus
from modelwright.reconcile import conditions, remarks, requests, urls
from modelwright.reconcile.findings import Finding
from modelwright.reconcile.joint_inference_service_children import made, respelled, superseded
from modelwright.reconcile.joint_inference_service_gateway import gateway_name, gateway_problem, wanted_gateway
from modelwright.reconcile.joint_inference_service_problems import Problem, problem_of
from modelwright.reconcile.joint_inference_service_sides import Side, model_name, side_of
from modelwright.reconcile.joint_inference_service_words import available, layers, told
from modelwright.reconcile.plan import Notice, Plan
from modelwright.reconcile.programs import not_run_here
from modelwright.reconcile.sizes import about

__all__ = ["Observed", "cloud_name", "edge_name", "gateway_name", "reconcile"]


class Observed(msgspec.Struct, frozen=True):
    """What is there.

    `edge` and `cloud` are the InferenceModels of the names `edge_name` and `cloud_name`, whoever made them; `owned` are
    all that this service controls; `gateway` is the Server of the name `gateway_name`.
    """

    edge: InferenceModel | None
    cloud: InferenceModel | None
    owned: tuple[InferenceModel, ...]
    gateway: ServerStatus | None
    capabilities: Capabilities


def edge_name(jis: JointInferenceService) -> str:
    """The InferenceModel that is asked first: the one that is named, or the one to make."""
    return model_name(jis, "edge")


def cloud_name(jis: JointInferenceService) -> str:
    """The InferenceModel that is asked for hard rows: the one that is named, or the one to make."""
    return model_name(jis, "cloud")


def reconcile(jis: JointInferenceService, observed: Observed, now: datetime) -> Plan:
    """Which models to make, what to tell the gateway, and what to say of all this."""
    if requests.suspended(jis):
        return Plan(untouched=True)
    if jis.metadata.deletion_timestamp is not None:
        return Plan()
    finding = not_run_here("a JointInferenceService", "gateway", observed.capabilities)
    if finding is not None:
        return left_alone(jis, finding, now)
    edge = side_of(jis, "edge", observed.edge, observed.gateway, observed.capabilities)
    cloud = side_of(jis, "cloud", observed.cloud, observed.gateway, observed.capabilities)
    gateway = wanted_gateway(jis, edge, cloud, observed.capabilities)
    found = (gateway_problem(gateway, observed.gateway), problem_of(jis, edge), problem_of(jis, cloud))
    problems = tuple(problem for problem in found if problem is not None)
    status = status_of(jis, edge, cloud, observed.gateway, problems, now)
    return Plan(
        status=status,
        workloads=(gateway,) if gateway is not None else (),
        keep=frozenset({gateway_name(jis)}),
        create=made(jis, edge, cloud),
        update=respelled(edge, cloud),
        delete=superseded(jis, edge, cloud, observed.owned, observed.gateway),
        notices=(*once(jis, observed.capabilities), *remarks.news(jis.status.notices, status.notices)),
        warn=any(problem.warn for problem in problems),
    )


def left_alone(jis: JointInferenceService, finding: Finding, now: datetime) -> Plan:
    """Where gateways are not run no model is made, asked or taken away either."""
    generation = jis.metadata.generation
    wanted = conditions.stalled(finding.reason, finding.message)
    status = msgspec.structs.replace(
        jis.status,
        observed_generation=generation,
        last_handled_reconcile_at=requests.requested_at(jis),
        conditions=conditions.settle(wanted, jis.status.conditions, generation, now),
    )
    return Plan(status=status, keep=frozenset({gateway_name(jis)}))


def status_of(
    jis: JointInferenceService,
    edge: Side,
    cloud: Side,
    seen: ServerStatus | None,
    problems: tuple[Problem, ...],
    now: datetime,
) -> JointInferenceServiceStatus:
    """What is seen, as the status says it; what a gateway that is down has kept is still there."""
    generation = jis.metadata.generation
    keeps, before = jis.spec.hard_example_mining.keep is not None, jis.status
    known = seen is not None and bool(seen.kept_path)
    wanted: tuple[Condition, ...] = (
        *told(jis, edge, cloud, problems, seen),
        available(edge, cloud, seen),
        *layers(edge, cloud),
    )
    return JointInferenceServiceStatus(
        url=url_of(jis, seen),
        edge_model=edge.status,
        cloud_model=cloud.status,
        node_name=(seen.node_name if seen is not None else "") or before.node_name,
        kept_path=(seen.kept_path if seen is not None and known else before.kept_path) if keeps else "",
        kept_bytes=(about(seen.kept_bytes, 3) if seen is not None and known else before.kept_bytes) if keeps else 0,
        notices=remarks.remarks(seen),
        observed_generation=generation,
        last_handled_reconcile_at=requests.requested_at(jis),
        conditions=conditions.settle(wanted, before.conditions, generation, now),
    )


def url_of(jis: JointInferenceService, seen: ServerStatus | None) -> str:
    """Where the gateway answers, under the service's own name; empty while it does not."""
    if seen is None or not urls.answers(seen):
        return ""
    return f"http://{urls.authority(seen.host, seen.port)}{urls.model_path(jis.metadata.name)}"


def once(jis: JointInferenceService, capabilities: Capabilities) -> tuple[Notice, ...]:
    """Said of a generation that is seen for the first time: what means nothing on one machine."""
    wanted, here = jis.spec.gateway, capabilities.single_node
    if not here or not requests.first_sight(jis) or (wanted.node_name in ("", here) and not wanted.node_selector):
        return ()
    node = wanted.node_name or "that nodeSelector chooses"
    text = f"the gateway's node {node} is taken to be this machine ({here}): there is no other"
    return (Notice("Normal", "NodeIsThisMachine", text),)
