"""The native kinds that a Server is made of, beside Pods (`workloads.kinds`), and the fields of them that are read."""

from __future__ import annotations

import msgspec

from modelwright.adapters.kubernetes.resource import Resource
from modelwright.adapters.kubernetes.workloads.kinds import Condition, Metadata

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
SERVICES = Resource("", "v1", "services", "Service")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


class PodContainer(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class _PodSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    init_containers: tuple[PodContainer, ...] = ()
    containers: tuple[PodContainer, ...] = ()


class Template(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata = Metadata()
    spec: _PodSpec = _PodSpec()


class DeploymentSpec(msgspec.Struct, frozen=True, gc=False):
    replicas: int = 1
    paused: bool = False
    template: Template = Template()


class DeploymentState(msgspec.Struct, frozen=True, rename="camel", gc=False):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] | None = None


class Deployment(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentState = DeploymentState()


class ServicePort(msgspec.Struct, frozen=True, rename="camel", gc=False):
    port: int = 0
    node_port: int = 0


class ServiceSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    type: str = "ClusterIP"
    ports: tuple[ServicePort, ...] = ()
    selector: dict[str, str] = {}
    load_balancer_class: str = ""
    load_balancer_source_ranges: tuple[str, ...] = ()


class Ingress(msgspec.Struct, frozen=True, gc=False):
    ip: str = ""
    hostname: str = ""


class _LoadBalancer(msgspec.Struct, frozen=True, gc=False):
    ingress: tuple[Ingress, ...] | None = None


class ServiceState(msgspec.Struct, frozen=True, rename="camel", gc=False):
    load_balancer: _LoadBalancer = _LoadBalancer()


class Service(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata
    spec: ServiceSpec = ServiceSpec()
    status: ServiceState = ServiceState()


class PodDisruptionBudget(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata
