"""What is said once of a spec, and changes nothing: fields that mean nothing here, or that another one overrules."""

from __future__ import annotations

from modelwright.api.inference_model import InferenceModel, Service
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.workloads import SeenNotice
from modelwright.reconcile import requests
from modelwright.reconcile.plan import Notice


def once(model: InferenceModel, capabilities: Capabilities) -> tuple[Notice, ...]:
    """Notices for a generation that is seen for the first time."""
    if not requests.first_sight(model) or not capabilities.single_node:
        return ()
    found = (node_is_this_machine(model, capabilities), service_not_used(model))
    return tuple(notice for notice in found if notice is not None)


def node_is_this_machine(model: InferenceModel, capabilities: Capabilities) -> Notice | None:
    here = capabilities.single_node
    if model.spec.node_name in ("", here) and not model.spec.node_selector:
        return None
    node = model.spec.node_name or "that nodeSelector chooses"
    text = f"node {node} is taken to be this machine ({here}): there is no other"
    return Notice("Normal", "NodeIsThisMachine", text)


def service_not_used(model: InferenceModel) -> Notice | None:
    if model.spec.service == Service():
        return None
    return Notice(
        "Normal", "ServiceNotUsed", "service means nothing here: models are served on loopback, see status.url"
    )


def ignored(model: InferenceModel, capabilities: Capabilities) -> tuple[SeenNotice, ...]:
    """Sources that stand in the spec and are not served, since one before them is given.

    On one machine an image is no source, and a manifest beside a modelVersion has always been passed over there.
    """
    spec = model.spec
    if capabilities.single_node:
        return ()
    given = {"modelVersion": spec.model_version, "manifest": spec.manifest, "targetVersion": spec.target_version}
    if not spec.image:
        del given["modelVersion"]
    others = [field for field, value in given.items() if value]
    if not others or not (spec.image or spec.model_version):
        return ()
    served = f"image {spec.image}" if spec.image else f"ModelVersion {spec.model_version}"
    verb = "is" if len(others) == 1 else "are"
    text = f"{served} is what is served: {' and '.join(others)} {verb} ignored beside it"
    return (SeenNotice(reason="SourceIgnored", message=text),)
