"""The status of an InferenceModel, as far as it is what is seen."""

from __future__ import annotations

from datetime import datetime

import msgspec

from modelwright.api.inference_model import InferenceModel, InferenceModelStatus, ServableVersion
from modelwright.api.meta import Condition
from modelwright.ports.workloads import ServerStatus
from modelwright.reconcile import conditions, requests, urls
from modelwright.reconcile.inference_model_server import server_name


def seen_status(
    model: InferenceModel,
    seen: ServerStatus | None,
    versions: tuple[ServableVersion, ...],
    *,
    applied: bool,
) -> InferenceModelStatus:
    """What is seen of the server, as the status says it; `applied`: it has been told the spec as it is now."""
    seen = seen or ServerStatus(name="")
    return msgspec.structs.replace(
        model.status,
        url=url_of(model, seen, current=applied and seen.up_to_date),
        serving_version=seen.serving_version,
        replicas=seen.replicas,
        ready_replicas=seen.ready_replicas,
        node_name=seen.node_name,
        selector=f"modelwright.dev/server={server_name(model)}",
        versions=versions,
    )


def url_of(model: InferenceModel, seen: ServerStatus, *, current: bool) -> str:
    """Where it answers. While what answers may not be what the spec says, its scheme and path are those of before."""
    if not urls.answers(seen):
        return ""
    if model.status.url and not current:
        return urls.moved(model.status.url, seen.host, seen.port)
    scheme = "https" if model.spec.tls is not None else "http"
    path = "" if model.spec.image else urls.model_path(model.spec.model_name)
    return f"{scheme}://{urls.authority(seen.host, seen.port)}{path}"


def finished(
    model: InferenceModel, status: InferenceModelStatus, wanted: tuple[Condition, ...], now: datetime
) -> InferenceModelStatus:
    """The status with its conditions, as what the present spec has led to."""
    generation = model.metadata.generation
    return msgspec.structs.replace(
        status,
        observed_generation=generation,
        last_handled_reconcile_at=requests.requested_at(model),
        conditions=conditions.settle(wanted, model.status.conditions, generation, now),
    )
