"""A Server in the cloud as its objects: Deployment, Service, PodDisruptionBudget. And whether what is there differs."""

from __future__ import annotations

import re

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers import labels
from modelwright.adapters.kubernetes.servers.cloud_pod import mountable, pod_template
from modelwright.adapters.kubernetes.servers.cloud_probes import PORT_NAME
from modelwright.adapters.kubernetes.servers.kinds import (
    Deployment,
    PodContainer,
    PodDisruptionBudget,
    Service,
)
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads.kinds import controller
from modelwright.ports.workloads import Exposure, Server

REVISIONS = 2
"""Former ReplicaSets that are kept: what `rollback` goes back to stands in the InferenceModel."""
INSIDE = Exposure(type="ClusterIP")
_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def deployment(server: Server, settings: ServerSettings, *, mounted: bool) -> JSON:
    """A new Pod is there and ready before an old one goes. Raises what `pod_template` raises."""
    spec = {
        "replicas": server.replicas,
        "paused": False,
        "revisionHistoryLimit": REVISIONS,
        "progressDeadlineSeconds": settings.progress_deadline_seconds,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "selector": {"matchLabels": labels.selector(server)},
        "template": pod_template(server, settings, mounted=mounted),
    }
    decided = {labels.IMAGE_VOLUMES: "true" if mounted else "false"} if mountable(server) else {}
    metadata = labels.metadata(server, server.name, **decided, **{labels.RENDERED: labels.digest(spec)})
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def service(server: Server, name: str) -> JSON:
    """Its port is the Server's; Pods are found by the port's name, so that those of before and after a change of the
    port are both reached."""
    exposure = server.exposure or INSIDE
    spec: JSON = {
        "type": exposure.type,
        "selector": labels.selector(server),
        "ports": [{"name": PORT_NAME, "protocol": "TCP", "port": server.port, "targetPort": PORT_NAME}],
    }
    if exposure.type == "LoadBalancer":
        if exposure.load_balancer_class:
            spec["loadBalancerClass"] = exposure.load_balancer_class
        if exposure.load_balancer_source_ranges:
            spec["loadBalancerSourceRanges"] = list(exposure.load_balancer_source_ranges)
    asked = {labels.BALANCER_CLASS: spec.get("loadBalancerClass", "")}
    rendered = labels.digest([spec, exposure.annotations])
    metadata = labels.metadata(server, name, **{**exposure.annotations, **asked, labels.RENDERED: rendered})
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def budget(server: Server) -> JSON:
    """Whoever drains nodes leaves all but one; one that does not answer anyway never holds a drain up."""
    spec = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": labels.selector(server)},
    }
    metadata = labels.metadata(server, server.name, **{labels.RENDERED: labels.digest(spec)})
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def may_name_service(name: str) -> bool:
    """Whether a Service can be called so (RFC 1035)."""
    return _SERVICE_NAME.fullmatch(name) is not None


def own_service_name(server: Server) -> str:
    """The Server's own name, with a letter first: it may begin with a digit, as a Deployment's may."""
    return server.name if may_name_service(server.name) else f"s-{server.name[-61:]}"


def same_template(there: Deployment, wanted: JSON) -> bool:
    """Whether no Pod becomes another by it."""
    rendered: str = wanted["spec"]["template"]["metadata"]["annotations"][labels.RENDERED]
    return there.spec.template.metadata.annotations.rendered == rendered


# What differs -------------------------------------------------------------------------------------------------------


def deployment_differs(there: Deployment, wanted: JSON) -> bool:
    """Whether it was made from something else, or somebody has changed what matters since."""
    spec, template = wanted["spec"], wanted["spec"]["template"]["spec"]
    run = there.spec.template.spec
    return (
        _made_from_other(there, wanted)
        or there.spec.replicas != spec["replicas"]
        or there.spec.paused
        or not _same(run.containers, template["containers"])
        or not _same(run.init_containers, template.get("initContainers", []))
    )


def _same(there: tuple[PodContainer, ...], wanted: list[JSON]) -> bool:
    """Containers that somebody has added are theirs."""
    found = {each.name: (each.image, each.command, each.args) for each in there}
    return all(
        found.get(each["name"]) == (each["image"], tuple(each.get("command", ())), tuple(each.get("args", ())))
        for each in wanted
    )


def service_differs(there: Service, wanted: JSON) -> bool:
    spec = wanted["spec"]
    return (
        _made_from_other(there, wanted)
        or there.spec.type != spec["type"]
        or there.spec.selector != spec["selector"]
        or [port.port for port in there.spec.ports] != [port["port"] for port in spec["ports"]]
        or list(there.spec.load_balancer_source_ranges) != spec.get("loadBalancerSourceRanges", [])
    )


def must_be_made_anew(there: Service, wanted: JSON) -> bool:
    """The class of a load balancer cannot be changed: the Service goes, and its address with it.

    Where no class is wanted, one that somebody else has named, such as the load balancer's own controller, is theirs.
    """
    if not there.spec.type == wanted["spec"]["type"] == "LoadBalancer":
        return False
    class_ = wanted["spec"].get("loadBalancerClass", "")
    return there.spec.load_balancer_class != class_ if class_ else bool(there.metadata.annotations.balancer_class)


def budget_differs(there: PodDisruptionBudget, wanted: JSON) -> bool:
    return _made_from_other(there, wanted)


def _made_from_other(there: Deployment | Service | PodDisruptionBudget, wanted: JSON) -> bool:
    """Also where somebody has taken its owner away: it would outlive that, and its status would not be believed."""
    rendered: str = wanted["metadata"]["annotations"][labels.RENDERED]
    (owner,) = wanted["metadata"]["ownerReferences"]
    return there.metadata.annotations.rendered != rendered or controller(there) != owner["uid"]
