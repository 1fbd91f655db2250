"""What keeps a Pod at the edge from being made or from serving, in words for who wants it to."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import msgspec

from modelwright.adapters.kubernetes.servers.node_mirror import Node
from modelwright.adapters.kubernetes.servers.quota_room import EXCEEDED
from modelwright.adapters.kubernetes.servers.server_failures import QUOTA_ADVICE
from modelwright.adapters.kubernetes.workloads import ended, status
from modelwright.adapters.kubernetes.workloads.kinds import Container, Pod, Terminated, condition, going
from modelwright.adapters.kubernetes.workloads.waiting import CONFIG_FAULTS, IMAGE_FAULTS
from modelwright.ports.errors import Forbidden, ModelwrightError
from modelwright.ports.workloads import Failure, Owner, Server

SCHEDULED_AFTER = timedelta(seconds=5)
"""How long it is in order that a Pod whose node is known is not on it."""
_REASON = re.compile(r"[A-Z][A-Za-z0-9]{0,99}")
_RPC = re.compile(r"rpc error: code = \w+ desc = ")
_AGAIN = re.compile(r'^Back-off pulling image "[^"]*"(: ErrImagePull)?:? ?')
_MISSING = "No such file"
AGENTS = frozenset({"keeper", "gateway", "sweep"})
"""Containers whose image is an admin's business."""


def refused(error: ModelwrightError, server: Server) -> Failure:
    """Why the API server does not take the Pod."""
    namespace = server.owner.namespace
    _, _, violated = error.message.partition("violates PodSecurity ")
    if isinstance(error, Forbidden) and violated:
        text = (
            f"the namespace {namespace} does not admit Pods at the edge, which use the node's own network and folders "
            f"(it violates PodSecurity {violated}). Allow them there: kubectl label --overwrite ns {namespace} "
            "pod-security.kubernetes.io/enforce=privileged"
        )
        return Failure(reason="PodSecurityForbids", message=text, retryable=True)
    if isinstance(error, Forbidden) and EXCEEDED in error.message:
        text = f"a ResourceQuota of the namespace {namespace} leaves no room for the Pod: {error.message}"
        return Failure(reason="QuotaExceeded", message=text, retryable=True)
    if isinstance(error, Forbidden):
        text = f"the Pod of {server.name} cannot be made: {error.message}"
        if "failed quota" in error.message:
            text += f". {QUOTA_ADVICE}"
        return Failure(reason="PodNotCreated", message=text, retryable=True)
    return Failure(reason=error.reason, message=error.message, retryable=error.retryable)


def port_taken(server: Server, node: str, rival: Owner) -> Failure:
    """Another server of ours has the port on that node; who came first keeps it."""
    text = (
        f"port {server.port} on the node {node} is taken by the {rival.kind} {rival.namespace}/{rival.name}, which "
        "came first: choose another port, or another node"
    )
    return Failure(reason="PortTaken", message=text, retryable=True)


def node_lost(node: str, *, going_: bool = False) -> Failure:
    """Nobody knows how it is doing there."""
    text = (
        f"the node {node} does not answer, and the former Pod there has to end before the new one begins: it goes on "
        "by itself when the node is back"
        if going_
        else f"the node {node} does not answer: what serves there goes on serving whoever reaches it"
    )
    return Failure(reason="NodeLost", message=text, retryable=True)


def with_secret(failure: Failure, server: Server | None) -> Failure:
    """What is wrong with a file that was mounted from a Secret, by the name of that."""
    mounted = {
        "TokenNotUsable": ("token_secret", "token"),
        "CertificateNotUsable": ("tls_secret", "tls.crt and tls.key"),
    }
    if server is None or failure.reason not in mounted:
        return failure
    field, keys = mounted[failure.reason]
    name = getattr(server, field)
    if not name:
        return failure
    if _MISSING in failure.message:
        text = f"there is no Secret {name} in this namespace, or it lacks {keys}: make it, and it is taken up by itself"
        return Failure(reason="SecretNotFound", message=text, retryable=True)
    return msgspec.structs.replace(failure, message=f"the Secret {name}: {failure.message}")


def pod_failure(pod: Pod, node: Node | None, now: datetime) -> Failure | None:
    """What a Pod's own status, and its node's, say against it."""
    where = pod.metadata.annotations.node or pod.spec.node_name
    away = (node is not None and node.ready == "Unknown" and bool(pod.spec.node_name)) or status.unreachable(pod)
    if away:
        return node_lost(where, going_=going(pod))
    if going(pod):
        return None  # it ends as it was told to
    if pod.status.phase in ("Failed", "Succeeded"):
        text = f"the Pod was ended by its node ({pod.status.reason or pod.status.phase}): {pod.status.message}"
        return Failure(reason="Evicted", message=f"{text.rstrip(': ')}; it is made again", retryable=True)
    for container in pod.status.containers:
        fault = _of_container(container)
        if fault is not None:
            return fault
    unscheduled = condition(pod.status.conditions, "PodScheduled", "False")
    if unscheduled is None or now - (pod.metadata.creation_timestamp or now) < SCHEDULED_AFTER:
        return None
    return _unscheduled(unscheduled.message, where, pod)


def _of_container(container: Container) -> Failure | None:
    waiting = container.state.waiting
    if waiting is not None and waiting.reason in IMAGE_FAULTS:
        text = _RPC.sub("", _AGAIN.sub("", waiting.message)) or "it was tried in vain"
        whose = (
            "an admin says by the Helm values which one it is, and with which secrets it is pulled"
            if container.name in AGENTS
            else "correct its name, or give the pullSecret that it needs"
        )
        message = f"the image of the container {container.name} cannot be pulled: {text}; {whose}"
        return Failure(reason="ImagePullFailed", message=message, retryable=True)
    if waiting is not None and waiting.reason in CONFIG_FAULTS:
        message = f"the container {container.name} cannot be made: {_RPC.sub('', waiting.message)}"
        return Failure(reason="ContainerNotStarted", message=message, retryable=True)
    if container.ready:
        return None
    # While it is tried again, what ended it is still the best that is known: it is not taken back and told by turns.
    over = container.state.terminated or container.last_state.terminated
    return _of_end(container.name, over) if over is not None else None


def _of_end(name: str, over: Terminated) -> Failure:
    """Why a container ended; it is started again after growing pauses."""
    if over.reason == "OOMKilled":
        field = {"gateway": "serving.gatewayResources"}.get(name, "serving.agentResources")
        whose = f"an admin raises the Helm value {field}" if name in AGENTS else "raise resources.limits.memory"
        text = f"the container {name} was ended for needing more memory than its limit: {whose}"
        return Failure(reason="OOMKilled", message=text, retryable=True)
    report = ended.read(over.message)
    if report is not None and report.failure is not None and _REASON.fullmatch(report.failure.reason):
        return Failure(reason=report.failure.reason, message=ended.plain(report.failure.message), retryable=True)
    last = ended.plain(over.message.strip())[-500:]
    text = f"the container {name} ended with exit code {over.exit_code}{f': {last}' if last else ''}"
    return Failure(reason="ServerExited", message=f"{text}; it is started again", retryable=True)


def _unscheduled(message: str, node: str, pod: Pod) -> Failure:
    if "free ports" in message:
        port = pod.metadata.annotations.port
        text = (
            f"port {port} on the node {node} is used by another Pod there: choose another servingPort, or another node"
        )
        return Failure(reason="PortInUse", message=text, retryable=True)
    text = f"the node {node} cannot run it: {message}"
    return Failure(reason="Unschedulable", message=text, retryable=True)
