"""Workloads: what runs on behalf of a resource.

Two shapes only: a Task runs to its end, a Server keeps running. Both are frozen values:
applying the same value twice is harmless, applying a changed Server rolls it without a failed request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from modelwright.ports.capabilities import Capabilities


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """The resource that a workload runs for."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


# Where things are ---------------------------------------------------------------------------------------------------


class HostPath(msgspec.Struct, frozen=True, tag="hostPath", rename="camel"):
    """A folder or file on one node; with `create`, a folder that is made where it is missing."""

    path: str
    node_name: str = ""
    create: bool = False


class Nfs(msgspec.Struct, frozen=True, tag="nfs", rename="camel"):
    """An export of an NFS server."""

    server: str
    path: str


class Efs(msgspec.Struct, frozen=True, tag="efs", rename="camel"):
    """A volume of the CSI driver efs.csi.aws.com."""

    volume_handle: str
    attributes: dict[str, str] = {}


class Claim(msgspec.Struct, frozen=True, tag="claim", rename="camel"):
    """A PersistentVolumeClaim in the owner's namespace."""

    claim_name: str
    sub_path: str = ""


class Scratch(msgspec.Struct, frozen=True, tag="scratch", rename="camel"):
    """An empty folder that lives as long as the workload."""


class Kept(msgspec.Struct, frozen=True, tag="kept", rename="camel"):
    """A folder on the node that outlives the workload; `name` is its path below where such folders are kept."""

    name: str


class ModelImage(msgspec.Struct, frozen=True, tag="modelImage", rename="camel"):
    """The model in an image, by digest: `image` is host/repository@digest."""

    image: str
    pull_secret: str = ""


class Download(msgspec.Struct, frozen=True, tag="download", rename="camel"):
    """A model archive or file to download; verified before it is unpacked where `sha256sum` is given.

    Without that, what the address has may be other today than yesterday: only uses of one `scope` share what was
    downloaded.
    """

    url: str
    sha256sum: str = ""
    secret: str = ""
    scope: str = ""


Storage = HostPath | Nfs | Efs | Claim
Volume = HostPath | Nfs | Efs | Claim | Scratch | Kept | ModelImage | Download
ModelSource = ModelImage | Download


class Mount(msgspec.Struct, frozen=True, rename="camel"):
    """A volume at a path inside the workload."""

    volume: Volume
    path: str
    read_only: bool = True


class Placement(msgspec.Struct, frozen=True, rename="camel"):
    """Which node: `layer` is cloud or edge."""

    layer: str = "cloud"
    node_name: str = ""
    node_selector: dict[str, str] = {}


class Resources(msgspec.Struct, frozen=True, rename="camel"):
    """Quantities as Kubernetes spells them (`500m`, `256Mi`), by resource name."""

    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


# What runs ----------------------------------------------------------------------------------------------------------


class Material(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Something that a model was made from; `digest` is `ALGORITHM:HEX`, empty if it is not known."""

    name: str
    uri: str = ""
    digest: str = ""


class Provenance(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What is known of how a model came to be, for the statement that is attached to its image."""

    namespace: str
    name: str
    uid: str
    """Of the ModelVersion."""
    model_name: str
    created_by: str = ""
    training_model: str = ""
    parents: tuple[Material, ...] = ()
    datasets: tuple[Material, ...] = ()
    source: Material | None = None
    parameters: dict[str, str] = {}
    metrics: dict[str, float] = {}


class BuildImage(msgspec.Struct, frozen=True, tag="buildImage", rename="camel", kw_only=True):
    """Pack a folder into an image and push it.

    `tags` are candidates in order of preference: the first that is free, or names this very content, is taken.
    `provenance` is attached to the image as a referrer; it never changes the image.
    """

    source: Storage
    repository: str
    tags: tuple[str, ...]
    base_image: str = ""
    push_secret: str = ""
    builder: Literal["native", "kaniko"] = "native"
    provenance: Provenance | None = None


class Command(msgspec.Struct, frozen=True, tag="command", rename="camel", kw_only=True):
    """A command, in an image where there are containers.

    As a Task, `workers` of it run at once, and the first that fails ends them all. Each is told its place: RANK,
    WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and what `framework` wants beside (`reconcile.distributed`); these
    variables can be named in `command`, `args` and `env`, as any other. Worker 0 is the chief.
    `progress_file` is a path inside the workload (JSON: completed, total, message) that shows as `TaskStatus.steps`.
    """

    command: tuple[str, ...]
    args: tuple[str, ...] = ()
    image: str = ""
    env: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    working_dir: str = ""
    workers: int = 1
    framework: str = ""
    progress_file: str = ""


class ServedVersion(msgspec.Struct, frozen=True, rename="camel"):
    """One version that a model server holds; `number` is how TensorFlow Serving's REST spells it."""

    version: str
    number: int
    source: ModelSource


class ModelServer(msgspec.Struct, frozen=True, tag="modelServer", rename="camel", kw_only=True):
    """A model server with these versions, answering with `default` where a request names none.

    `in_place`: the running server loads a changed set of versions itself (edge);
    otherwise new replicas replace the old ones as they become ready (cloud). Either way no request fails,
    and what serves goes on serving if the new version cannot be fetched or loaded.
    """

    model_name: str
    framework: str
    versions: tuple[ServedVersion, ...]
    default: str
    in_place: bool = False


class Container(msgspec.Struct, frozen=True, tag="container", rename="camel", kw_only=True):
    """A complete serving image."""

    image: str
    pull_secret: str = ""
    env: dict[str, str] = {}


class Upstream(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How a gateway may ask a model: the Secret with its bearer token, and the one with the certificate that its
    server shows; empty where it asks for none."""

    token_secret: str = ""
    tls_secret: str = ""


class Gateway(msgspec.Struct, frozen=True, tag="gateway", rename="camel", kw_only=True):
    """What asks the edge model first, and the cloud model for the rows that `policy` finds hard.

    A URL is an InferenceModel's (`http://HOST:PORT/v1/models/NAME`), empty while it is not known. A changed value is
    taken over by the running gateway. Hard rows are kept in `kept`, `keep_max_bytes` of them, where that is given.
    """

    name: str
    edge_url: str = ""
    cloud_url: str = ""
    policy: str = "confidence"
    parameters: dict[str, float] = {}
    timeout_seconds: float = 2.0
    kept: Kept | None = None
    keep_max_bytes: int = 0
    edge: Upstream = Upstream()
    cloud: Upstream = Upstream()


class Exposure(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How a server in the cloud can be reached from outside: the type of its Service, as Kubernetes spells it."""

    type: Literal["LoadBalancer", "NodePort", "ClusterIP"] = "LoadBalancer"
    annotations: dict[str, str] = {}
    load_balancer_class: str = ""
    load_balancer_source_ranges: tuple[str, ...] = ()


class Task(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Runs to its end, once: a name that has run is not run again while it is kept."""

    name: str
    owner: Owner
    action: BuildImage | Command
    placement: Placement = Placement()
    resources: Resources = Resources()
    deadline_seconds: int = 0


class Server(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Keeps running; `port` 0 means any free one, kept for the life of the server.

    `exposure` is for servers in the cloud; None: it is reached from inside alone. `token_secret` names the Secret whose
    key `token` a request must carry, `tls_secret` the one with the certificate (kubernetes.io/tls) that it shows.
    """

    name: str
    owner: Owner
    program: ModelServer | Container | Command | Gateway
    replicas: int = 1
    port: int = 0
    placement: Placement = Placement()
    resources: Resources = Resources()
    exposure: Exposure | None = None
    token_secret: str = ""
    tls_secret: str = ""


# What is seen -------------------------------------------------------------------------------------------------------


class Failure(msgspec.Struct, frozen=True, rename="camel"):
    """Why something failed; `retryable` says whether trying again may help."""

    reason: str
    message: str
    retryable: bool = False


class Progress(msgspec.Struct, frozen=True, rename="camel"):
    """Bytes moved, of how many (0: not known)."""

    bytes_done: int
    bytes_total: int


class BuildResult(msgspec.Struct, frozen=True, rename="camel"):
    """`tag` is the candidate that was taken; `resolved` is host/repository@digest; `files` are those of the model.

    `metrics_ignored` says why the numbers beside the model could not be used, if there were any;
    `provenance_refused` why the registry takes the image and not what says where it comes from.
    """

    digest: str
    tag: str
    resolved: str
    size_bytes: int
    files: int = 0
    metrics: dict[str, float] = {}
    metrics_ignored: str = ""
    provenance_refused: str = ""


class WorkerCounts(msgspec.Struct, frozen=True, rename="camel"):
    """How many workers of a command are in which state."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Steps(msgspec.Struct, frozen=True, rename="camel"):
    """What a command says of its progress: steps done, of how many (0: not known), and a line of text."""

    completed: int = 0
    total: int = 0
    message: str = ""


class TaskStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How a Task is doing; `result` is there when a build succeeded.

    `failure` is why it failed; while it is Pending, what it waits for and is tried again.
    For a command, `started_at` is when its workers started, `workers` and `steps` how they are doing, and `downloads`
    the digest (`sha256:HEX`) of each file that was downloaded for it, by the path of its mount.
    """

    name: str
    phase: Literal["Pending", "Running", "Succeeded", "Failed"]
    progress: Progress | None = None
    result: BuildResult | None = None
    failure: Failure | None = None
    exit_code: int | None = None
    workers: WorkerCounts | None = None
    steps: Steps | None = None
    downloads: dict[str, str] = {}
    node_name: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class VersionStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How far one version of a model server has come."""

    version: str
    phase: Literal["Pending", "Fetching", "Loading", "Ready", "Failed"]
    progress: Progress | None = None
    failure: Failure | None = None


class AskedModel(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How a gateway finds one of the models that it asks; `failure` says why it cannot use it, None if it can."""

    side: Literal["edge", "cloud"]
    failure: Failure | None = None


class SeenNotice(msgspec.Struct, frozen=True, rename="camel"):
    """Something about a server that nobody has to act on: reason (CamelCase) and one sentence."""

    reason: str
    message: str


class ServerStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How a Server is doing.

    `serving_version` is what every ready replica answers with by default, empty while they differ or none is ready.
    `up_to_date` says that all wanted replicas run the applied value, are ready, and nothing else runs any more.
    `kept_path` and `kept_bytes` speak of its `Kept` volume, if it has one: where it is on the node, and its content.
    `asked` speaks of the models that a gateway has asked.
    `exposed` is False where only who is inside (the cluster) reaches `host`, although an exposure was asked for.
    `notices` is what is worth an Event once, such as which of several nodes was chosen.
    """

    name: str
    host: str = ""
    port: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    serving_version: str = ""
    up_to_date: bool = False
    versions: tuple[VersionStatus, ...] = ()
    failure: Failure | None = None
    restarts: int = 0
    node_name: str = ""
    kept_path: str = ""
    kept_bytes: int = 0
    asked: tuple[AskedModel, ...] = ()
    exposed: bool = True
    notices: tuple[SeenNotice, ...] = ()


WorkloadStatus = TaskStatus | ServerStatus


class Workloads(Protocol):
    """Runs Tasks and Servers for owners."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def apply(self, workload: Task | Server) -> None:
        """Make it run as described. The same value again does nothing. Raises Forbidden, Unavailable, Invalid."""
        ...

    async def observe(self, owner_uid: str) -> tuple[WorkloadStatus, ...]:
        """How this owner's workloads are doing, sorted by name."""
        ...

    async def remove(self, owner_uid: str, name: str) -> None:
        """Stop it and forget it; nothing of it is left. One that is not there is no error."""
        ...

    def changes(self) -> AsyncIterator[Owner]:
        """The owner of each workload whose status has changed; bursts are merged."""
        ...

    async def owners(self) -> frozenset[Owner]:
        """Everybody for whom something runs: who is gone has orphans."""
        ...

    def logs(self, owner_uid: str, name: str, *, follow: bool = False) -> AsyncIterator[bytes]:
        """What it has printed, and with `follow` what it goes on to print until it ends. Raises NotFound."""
        ...
