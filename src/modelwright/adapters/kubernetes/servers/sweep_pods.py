"""The Pod that removes from a node what was kept there for a model.

It is made before the Pod that keeps the models goes, and waits behind a scheduling gate until that has gone: so what
lies on a node is known to the cluster at every moment, whatever happens to the operator. While the model is scaled to 0
it waits as well, as the word of what is kept; then a label says whose it is, and it goes when that comes back.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers import edge_pod as pod
from modelwright.adapters.kubernetes.servers.edge_model import models_folder
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads.kinds import Pod
from modelwright.adapters.kubernetes.workloads.labels import (
    COMPONENT,
    MANAGED_BY,
    MANAGER,
    OWNER_UID,
    owner_annotations,
    owner_of,
)
from modelwright.ports.serving import MODELS_FOLDER, SWEEP_VARIABLE
from modelwright.ports.workloads import Owner

SWEEP = "sweep"
GATE = "modelwright.dev/kept"
KEPT_OF = "modelwright.dev/kept-of"
_BETWEEN = "-sweep-"
_AGAIN = "-again"
_AGAIN_AFTER = timedelta(seconds=15)


def sweep_name(server: str, node: str) -> str:
    """One for each server and node."""
    return f"{server}{_BETWEEN}{hashlib.sha256(node.encode()).hexdigest()[:8]}"


def server_of(sweep: Pod) -> str:
    """The server that it sweeps up after."""
    return sweep.metadata.name.rpartition(_BETWEEN)[0]


def is_sweep(found: Pod) -> bool:
    """Whether a Pod is one of these."""
    return found.metadata.labels.component == SWEEP


def is_gated(sweep: Pod) -> bool:
    """Whether it still waits for its time."""
    return any(gate.name == GATE for gate in sweep.spec.scheduling_gates or ())


def render(owner: Owner, server: str, node: str, settings: ServerSettings, *, kept: bool) -> JSON:
    """The Pod; `kept` says that it stands for something that may be wanted again.

    It has no owner reference: it outlives the owner. It needs no network, and none is on some nodes: it takes theirs.
    """
    labels = {MANAGED_BY: MANAGER, COMPONENT: SWEEP, OWNER_UID: owner.uid, **({KEPT_OF: server} if kept else {})}
    metadata = {
        "name": sweep_name(server, node),
        "namespace": owner.namespace,
        "labels": labels,
        "annotations": {**owner_annotations(owner), pod.NODE: node},
    }
    spec: JSON = {
        "schedulingGates": [{"name": GATE}],
        "hostNetwork": True,
        "dnsPolicy": "Default",
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "affinity": pod.on_node(node),
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets],
        "containers": [_container(owner, settings)],
        "volumes": [pod.node_folder("models", models_folder(settings, owner.namespace)), pod.scratch("scratch")],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def successor(sweep: Pod, settings: ServerSettings) -> JSON:
    """The Pod that goes on where this one was ended: another name, since both are there for a moment."""
    body = render(owner_of(sweep), server_of(sweep), sweep.metadata.annotations.node, settings, kept=False)
    if sweep.metadata.name == body["metadata"]["name"]:
        body["metadata"]["name"] += _AGAIN
    return body


def is_over_for_long(sweep: Pod, now: datetime) -> bool:
    """Whether there has been a pause since it was made."""
    made = sweep.metadata.creation_timestamp
    return made is None or now - made >= _AGAIN_AFTER


def _container(owner: Owner, settings: ServerSettings) -> JSON:
    return {
        "name": SWEEP,
        "image": settings.agent_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["modelwright", "agent", "sweep"],
        "env": pod.environment({SWEEP_VARIABLE: owner.uid}),
        "resources": pod.resources(settings.agent_resources),
        "volumeMounts": [
            pod.mount("models", MODELS_FOLDER, read_only=False),
            pod.mount("scratch", pod.SCRATCH_FOLDER, read_only=False),
        ],
        "securityContext": pod.root_without_rights(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def unwanted() -> JSON:
    """A merge patch that says that what it stands for is not wanted any more."""
    return {"metadata": {"labels": {KEPT_OF: None}}}


def ungated() -> JSON:
    """A merge patch that lets it begin."""
    return {"spec": {"schedulingGates": None}}
