"""What all Pods at the edge have in common, as an object: one bare Pod on one node, on that node's own network.

It needs no container network, no scheduler's choice, no API and no DNS of a cluster, and nothing moves it away.
"""

from __future__ import annotations

import msgspec

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers.edge_wish import ASKED, IMAGES, wish_of
from modelwright.adapters.kubernetes.servers.labels import RENDERED, SERVE, digest, metadata
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.ports.workloads import Resources, Server

NODE = "modelwright.dev/node"
PORT = "modelwright.dev/port"
SCRATCH_FOLDER = "/tmp"  # noqa: S108 - a volume of the Pod's own
TERMINATION_FILE = "/dev/termination-log"
GRACE_SECONDS = 30
"""A server of ours accepts connections for 5 seconds more, and keeps idle ones for 10."""


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """A Pod as it should be. `told` is the annotation that may change while it runs, by its name; `digest` is of all
    the rest: a Pod of another digest has to be replaced. `asked` and `images` are parts of that (`edge_wish`).
    `keeps`: it keeps models on its node."""

    body: JSON
    digest: str
    node: str
    asked: str = ""
    images: str = ""
    told: dict[str, str] = {}
    keeps: bool = False


def edge_pod(
    server: Server,
    node: str,
    settings: ServerSettings,
    containers: list[JSON],
    volumes: list[JSON],
    *,
    told: dict[str, str] | None = None,
    component: str = SERVE,
    keeps: bool = False,
) -> Rendered:
    """The Pod of a server on a node. One that keeps models has no owner reference: the garbage collector would take
    it, and with it the only word of what lies on its node."""
    pull_secrets = dict.fromkeys((*settings.image_pull_secrets, getattr(server.program, "pull_secret", "")))
    spec: JSON = {
        "hostNetwork": True,
        "dnsPolicy": "Default",
        "restartPolicy": "Always",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "affinity": on_node(node),
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "imagePullSecrets": [{"name": name} for name in pull_secrets if name],
        "containers": containers,
        "volumes": volumes,
    }
    made = metadata(server, server.name, component, **{NODE: node, PORT: str(server.port)})
    if keeps:
        del made["ownerReferences"]
    made["annotations"][RENDERED] = rendered = digest([made, spec])
    wish = wish_of(server, node, containers)
    made["annotations"] |= wish | (told or {})
    return Rendered(
        body={"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec},
        digest=rendered,
        node=node,
        asked=wish[ASKED],
        images=wish[IMAGES],
        told=told or {},
        keeps=keeps,
    )


def on_node(node: str) -> JSON:
    """The node is named to the scheduler, which sees ports and resources, never around it."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def port_of(server: Server) -> list[JSON]:
    """The port, so that the scheduler knows who has it."""
    return [{"name": "http", "containerPort": server.port, "hostPort": server.port, "protocol": "TCP"}]


def http_probe(path: str, server: Server, *, period: int, failures: int, timeout: int = 5) -> JSON:
    """The kubelet asks at the node's address."""
    scheme = "HTTPS" if server.tls_secret else "HTTP"
    get = {"path": path, "port": server.port, "scheme": scheme}
    return {"httpGet": get, "periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": timeout}


def tcp_probe(server: Server, *, period: int, failures: int) -> JSON:
    """Whether somebody listens."""
    return {"tcpSocket": {"port": server.port}, "periodSeconds": period, "failureThreshold": failures}


def resources(wanted: Resources) -> JSON:
    """Quantities as a container has them."""
    given = {"requests": wanted.requests, "limits": wanted.limits}
    return {name: quantities for name, quantities in given.items() if quantities}


def not_root(settings: ServerSettings) -> JSON:
    """What our own servers are content with."""
    return {**_bare(), "runAsNonRoot": True, "runAsUser": settings.run_as_user, "runAsGroup": settings.run_as_group}


def root_without_rights() -> JSON:
    """For who writes to a folder of the node, which is root's: root, but of nothing else."""
    return {**_bare(), "runAsUser": 0, "runAsGroup": 0}


def _bare() -> JSON:
    return {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def mount(name: str, path: str, *, read_only: bool = True) -> JSON:
    """A volume of the Pod in a container."""
    return {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}


def scratch(name: str) -> JSON:
    """An empty folder that goes with the Pod."""
    return {"name": name, "emptyDir": {}}


def node_folder(name: str, path: str) -> JSON:
    """A folder of the node that outlives the Pod, made where it is missing."""
    return {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}


def annotation_file(name: str, annotation: str, file: str) -> JSON:
    """An annotation of the Pod as a file, which follows its changes."""
    field = {"fieldPath": f"metadata.annotations['{annotation}']"}
    return {"name": name, "downwardAPI": {"items": [{"path": file, "fieldRef": field}]}}


def secret(name: str, secret_name: str, keys: tuple[str, ...] = ()) -> JSON:
    """The keys of a Secret as files. One that is missing is for the program to tell: the Pod begins all the same.

    With `keys`, these alone, each if it is there.
    """
    if not keys:
        return {"name": name, "secret": {"secretName": secret_name, "optional": True}}
    items = [{"key": key, "path": key} for key in keys]
    return {"name": name, "projected": {"sources": [{"secret": _one(secret_name, item)} for item in items]}}


def _one(secret_name: str, item: JSON) -> JSON:
    return {"name": secret_name, "optional": True, "items": [item]}


def environment(values: dict[str, str]) -> list[JSON]:
    """Variables, and where to write what nobody keeps."""
    given = {"HOME": SCRATCH_FOLDER, "TMPDIR": SCRATCH_FOLDER, **values}
    return [{"name": name, "value": value} for name, value in given.items()]
