"""The server of an InferenceModel: what it should be."""

from __future__ import annotations

from modelwright.api.inference_model import InferenceModel, ServableVersion
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.workloads import (
    Container,
    Exposure,
    ModelServer,
    Placement,
    Resources,
    ServedVersion,
    Server,
)
from modelwright.reconcile import names, owners
from modelwright.reconcile.sources import Wanted

CLUSTER_PORT = 8501


def server_name(model: InferenceModel) -> str:
    """One server for each model, whatever it serves: it is changed, not replaced."""
    return names.child_name(model.metadata.name, "serve", model.metadata.uid)


def wanted_server(
    model: InferenceModel, wanted: Wanted, versions: tuple[ServableVersion, ...], capabilities: Capabilities
) -> Server:
    """The server as the spec wants it. On one machine nothing is exposed, and nobody is asked for a token."""
    spec, here = model.spec, bool(capabilities.single_node)
    edge = spec.deploy_to_layer == "edge"
    return Server(
        name=server_name(model),
        owner=owners.owner_of_workloads(model),
        program=program_of(model, wanted, versions),
        replicas=min(spec.replicas, 1) if edge else spec.replicas,
        port=spec.serving_port or (0 if here else CLUSTER_PORT),
        placement=Placement(spec.deploy_to_layer, spec.node_name, spec.node_selector),
        resources=Resources(as_text(spec.resources.requests), as_text(spec.resources.limits)),
        exposure=None if here or edge else exposure_of(model),
        token_secret=spec.auth.token_secret if spec.auth is not None else "",
        tls_secret=spec.tls.secret if spec.tls is not None else "",
    )


def program_of(model: InferenceModel, wanted: Wanted, versions: tuple[ServableVersion, ...]) -> ModelServer | Container:
    """An image as it is, or a server that holds the wanted version."""
    if isinstance(wanted.source, Container):
        return wanted.source
    number = next(version.number for version in versions if version.version == wanted.version)
    return ModelServer(
        model_name=model.spec.model_name,
        framework=model.spec.framework_type,
        versions=(ServedVersion(wanted.version, number, wanted.source),),
        default=wanted.version,
        in_place=model.spec.deploy_to_layer == "edge",
    )


def exposure_of(model: InferenceModel) -> Exposure:
    """How it is reached from outside, as the spec has it."""
    service = model.spec.service
    return Exposure(
        type=service.type,
        annotations=service.annotations,
        load_balancer_class=service.load_balancer_class,
        load_balancer_source_ranges=service.load_balancer_source_ranges,
    )


def as_text(quantities: dict[str, str | int]) -> dict[str, str]:
    """Quantities as strings, whether the user wrote `2` or `"2"`."""
    return {name: str(quantity) for name, quantity in quantities.items()}
