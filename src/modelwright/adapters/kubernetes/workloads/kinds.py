"""The native kinds that a Task is made of, and the fields of them that are read.

Each object is decoded into these few fields alone: a thousand builds are a few megabytes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

import msgspec

from modelwright.adapters.kubernetes.resource import Resource

JOBS = Resource("batch", "v1", "jobs", "Job")
PODS = Resource("", "v1", "pods", "Pod")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)


class Labels(msgspec.Struct, frozen=True, gc=False):
    """The labels that say whose a thing is; a Pod's Job is named by the Job controller's own."""

    managed_by: str = msgspec.field(default="", name="app.kubernetes.io/managed-by")
    owner_uid: str = msgspec.field(default="", name="modelwright.dev/owner-uid")
    job_name: str = msgspec.field(default="", name="batch.kubernetes.io/job-name")
    server: str = msgspec.field(default="", name="modelwright.dev/server")
    layer: str = msgspec.field(default="", name="modelwright.dev/layer")
    component: str = msgspec.field(default="", name="app.kubernetes.io/component")
    kept_of: str = msgspec.field(default="", name="modelwright.dev/kept-of")
    """Of what stands for the models that a server has kept on a node, while it has no Pod."""


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """The owner, where it does not fit into labels; of what serves, what it was made from and what it is told.

    `rendered` is the digest of what was rendered, `version` the version that a Pod of the cloud answers with; `serve`
    and `gateway` are those of `ports.serving`; `balancer_class` is the class of load balancer that was asked for;
    `asked` and `images` are those of `edge_wish`.
    """

    api_version: str = msgspec.field(default="", name="modelwright.dev/owner-api-version")
    kind: str = msgspec.field(default="", name="modelwright.dev/owner-kind")
    namespace: str = msgspec.field(default="", name="modelwright.dev/owner-namespace")
    name: str = msgspec.field(default="", name="modelwright.dev/owner-name")
    rendered: str = msgspec.field(default="", name="modelwright.dev/rendered")
    version: str = msgspec.field(default="", name="modelwright.dev/version")
    serve: str = msgspec.field(default="", name="modelwright.dev/serve")
    gateway: str = msgspec.field(default="", name="modelwright.dev/gateway")
    image_volumes: str = msgspec.field(default="", name="modelwright.dev/image-volumes")
    balancer_class: str = msgspec.field(default="", name="modelwright.dev/load-balancer-class")
    node: str = msgspec.field(default="", name="modelwright.dev/node")
    port: str = msgspec.field(default="", name="modelwright.dev/port")
    asked: str = msgspec.field(default="", name="modelwright.dev/asked")
    images: str = msgspec.field(default="", name="modelwright.dev/images")


class Reference(msgspec.Struct, frozen=True, gc=False):
    """One of the owners that the API server knows of."""

    uid: str = ""
    controller: bool = False


class Metadata(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    namespace: str = ""
    labels: Labels = Labels()
    annotations: Annotations = Annotations()
    owner_references: tuple[Reference, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class Condition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


# Job ----------------------------------------------------------------------------------------------------------------


class JobState(msgspec.Struct, frozen=True, rename="camel", gc=False):
    active: int = 0
    conditions: tuple[Condition, ...] | None = None
    start_time: datetime | None = None
    completion_time: datetime | None = None


class Job(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata
    status: JobState = JobState()


# Pod ----------------------------------------------------------------------------------------------------------------


class Waiting(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""
    message: str = ""


class Running(msgspec.Struct, frozen=True, rename="camel", gc=False):
    started_at: datetime | None = None


class Terminated(msgspec.Struct, frozen=True, rename="camel", gc=False):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class Container(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: int = 0
    image_id: str = msgspec.field(default="", name="imageID")


class PodState(msgspec.Struct, frozen=True, rename="camel", gc=False):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    conditions: tuple[Condition, ...] | None = None
    init_container_statuses: tuple[Container, ...] | None = None
    container_statuses: tuple[Container, ...] | None = None

    @property
    def containers(self) -> tuple[Container, ...]:
        """In the order in which they run."""
        return (self.init_container_statuses or ()) + (self.container_statuses or ())


class SchedulingGate(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    node_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] | None = None


class Write(msgspec.Struct, frozen=True, gc=False):
    """Of a manager's last write to what it has to say in (`managedFields`), when it was."""

    subresource: str = ""
    time: datetime | None = None


class PodMetadata(Metadata, frozen=True, rename="camel", gc=False):
    managed_fields: tuple[Write, ...] = ()


class Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodState = PodState()


# Storage ------------------------------------------------------------------------------------------------------------


class Bound(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""


class PersistentVolumeClaim(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata
    status: Bound = Bound()


class ClaimRef(msgspec.Struct, frozen=True, gc=False):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class LocalSource(msgspec.Struct, frozen=True, gc=False):
    path: str = ""


class NfsSource(msgspec.Struct, frozen=True, gc=False):
    server: str = ""
    path: str = ""


class CsiSource(msgspec.Struct, frozen=True, rename="camel", gc=False):
    volume_handle: str = ""


class VolumeSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    claim_ref: ClaimRef = ClaimRef()
    local: LocalSource | None = None
    nfs: NfsSource | None = None
    csi: CsiSource | None = None


class PersistentVolume(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata
    spec: VolumeSpec = VolumeSpec()
    status: Bound = Bound()


Changed = Callable[[str], None]
Child = Job | Pod | PersistentVolumeClaim | PersistentVolume


class Object(Protocol):
    """What all have in common."""

    @property
    def metadata(self) -> Metadata: ...


def controller(child: Object) -> str:
    """The UID of what made it and looks after it, empty if nothing does."""
    return next((each.uid for each in child.metadata.owner_references if each.controller), "")


def going(child: Object | None) -> bool:
    """Whether it is not there, or is being deleted."""
    return child is None or child.metadata.deletion_timestamp is not None


def condition(conditions: tuple[Condition, ...] | None, type_: str, status: str = "True") -> Condition | None:
    """The condition of this type, if it has this status."""
    return next((each for each in conditions or () if each.type == type_ and each.status == status), None)
