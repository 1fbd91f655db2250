"""Builders of JointInferenceServices and of what is seen of them."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.unit.reconcile.make import HERE, NOW, metadata

from modelwright.api.inference_model import InferenceModel, InferenceModelSpec, InferenceModelStatus
from modelwright.api.joint_inference_service import JointInferenceService, JointInferenceServiceSpec, JointModel
from modelwright.api.meta import Condition, OwnerReference
from modelwright.ports.workloads import ServerStatus
from modelwright.reconcile.joint_inference_service import Observed, gateway_name
from modelwright.reconcile.plan import Plan

JIS_UID = "1c072e5f-0000-4000-8000-00000000000a"
EDGE_SPEC = InferenceModelSpec(
    model_name="small", deploy_to_layer="edge", framework_type="onnx", node_name="laptop", model_version="mv-1"
)
CLOUD_SPEC = InferenceModelSpec(
    model_name="large", deploy_to_layer="cloud", framework_type="onnx", model_version="mv-2"
)
PORTS = {"small": 41001, "large": 41002}


def joint(**changes: Any) -> JointInferenceService:
    """A service that names its two models, small and large."""
    meta = metadata("digits", **{"uid": JIS_UID, **changes.pop("metadata", {})})
    spec = JointInferenceServiceSpec(edge_model=JointModel(name="small"), cloud_model=JointModel(name="large"))
    return JointInferenceService(metadata=meta, spec=msgspec.structs.replace(spec, **changes))


def settled(subject: JointInferenceService, plan: Plan) -> JointInferenceService:
    """The service with the status of the plan."""
    return msgspec.structs.replace(subject, status=plan.status)


def answering(
    name: str,
    *,
    spec: InferenceModelSpec | None = None,
    owners: tuple[OwnerReference, ...] = (),
    available: bool = True,
    stalled: str = "",
    deleted: bool = False,
    url: str | None = None,
    node_name: str = "laptop",
    **changes: Any,
) -> InferenceModel:
    """An InferenceModel that answers, unless told otherwise; `changes` are those of its spec."""
    spec = spec or (CLOUD_SPEC if name == "large" else EDGE_SPEC)
    known = f"http://127.0.0.1:{PORTS.get(name, 41003)}/v1/models/{spec.model_name}"
    status = InferenceModelStatus(
        url=known if url is None else url,
        node_name=node_name,
        observed_generation=metadata(name).generation,
        conditions=(
            Condition("Ready", "False" if stalled or not available else "True", "R", stalled),
            Condition("Stalled", "True" if stalled else "False", "S", stalled),
            Condition("Available", "True" if available else "False", "A"),
        ),
    )
    return InferenceModel(
        metadata=metadata(
            name, uid=f"uid-{name}", owner_references=owners, deletion_timestamp=NOW if deleted else None
        ),
        spec=msgspec.structs.replace(spec, **changes),
        status=status,
    )


def gateway(subject: JointInferenceService, **changes: Any) -> ServerStatus:
    """The gateway of this service as it is when all is well."""
    seen = ServerStatus(
        name=gateway_name(subject),
        host="127.0.0.1",
        port=40500,
        replicas=1,
        ready_replicas=1,
        up_to_date=True,
        node_name="laptop",
    )
    return msgspec.structs.replace(seen, **changes)


def observed(**changes: Any) -> Observed:
    """Everything is there and answers."""
    here = changes.pop("here", HERE)
    seen = Observed(
        edge=answering("small"), cloud=answering("large"), owned=(), gateway=gateway(joint()), capabilities=here
    )
    return msgspec.structs.replace(seen, **changes)
