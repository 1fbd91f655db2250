"""Why a Pod that serves is not ready."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from modelwright.adapters.kubernetes.servers.quota_room import EXCEEDED
from modelwright.adapters.kubernetes.workloads import ended, status, waiting
from modelwright.adapters.kubernetes.workloads.kinds import Condition, Container, Pod, Terminated, condition
from modelwright.ports.workloads import Failure

FETCH = "fetch"
_REASON = re.compile(r"[A-Z][A-Za-z0-9]{0,99}")
_WHERE = re.compile(r' \(pod: "[^"]*", container: [^)]*\)$')
"""What the kubelet adds, which is another for each Pod."""
_ROOT = "image will run as root"
_NO_NAME = "non-numeric user"
QUOTA_ADVICE = (
    "For `server`, say it in resources of the InferenceModel; for the other containers an admin does, by the Helm"
    " values serving.agentResources and serving.gatewayResources"
)


def of_pod(pod: Pod, now: datetime) -> Failure | None:
    """By what the Pod's own status says: how a container has ended, or what it waits for."""
    for container in pod.status.containers:
        found = _of_ended(container, pod.metadata.annotations.version) or _of_waiting(container)
        if found is not None:
            return found
    if status.unreachable(pod):
        text = (
            f"the node {pod.spec.node_name} does not answer: once Kubernetes gives its Pods up, others take their place"
        )
        return Failure(reason="NodeLost", message=text, retryable=True)
    unscheduled = condition(pod.status.conditions, "PodScheduled", "False")
    if unscheduled is None or unscheduled.reason != "Unschedulable":
        return None
    if now - (pod.metadata.creation_timestamp or now) < waiting.SCHEDULED_AFTER:
        return None
    why = unscheduled.message.rstrip(". ")
    return Failure(
        reason="Unschedulable",
        message=f"no node can run it: {why}. It begins by itself when one can: see nodeName, nodeSelector and "
        "resources.requests, and `kubectl describe nodes`",
        retryable=True,
    )


def of_conditions(namespace: str, conditions: tuple[Condition, ...] | None) -> Failure | None:
    """By what the Deployment says: no Pod can be made, or none has come up for long."""
    refused = condition(conditions, "ReplicaFailure")
    if refused is not None:
        return not_made(namespace, refused.message)
    stuck = condition(conditions, "Progressing", "False")
    if stuck is not None and stuck.reason == "ProgressDeadlineExceeded":
        text = "no new Pod has become ready for long: `kubectl describe pods` and the log say more"
        return Failure(reason="ProgressDeadlineExceeded", message=text, retryable=True)
    return None


def not_made(namespace: str, message: str) -> Failure:
    """Why the API server does not take a Pod."""
    _, _, violated = message.partition("violates PodSecurity ")
    if violated:
        text = (
            f"the namespace {namespace} does not admit the Pod, which violates PodSecurity {violated}. What it admits"
            f" is changed by `kubectl label --overwrite ns {namespace} pod-security.kubernetes.io/enforce=LEVEL`"
        )
        return Failure(reason="PodSecurityForbids", message=text, retryable=True)
    if EXCEEDED in message:
        text = f"a ResourceQuota of the namespace {namespace} leaves no room for the Pod: {_cause(message)}"
        return Failure(reason="QuotaExceeded", message=text, retryable=True)
    if "failed quota" in message:
        text = (
            f"a ResourceQuota of the namespace {namespace} asks for more to be said: {_cause(message)}. {QUOTA_ADVICE}"
        )
        return Failure(reason="PodNotCreated", message=text, retryable=True)
    return Failure(reason="PodNotCreated", message=f"no Pod can be made: {_cause(message)}", retryable=True)


def _cause(message: str) -> str:
    """Without the Pod's name, which is another one at each try."""
    return re.sub(r'pods "[^"]*" is forbidden: ', "", message)


# Ended --------------------------------------------------------------------------------------------------------------


def _of_ended(container: Container, version: str) -> Failure | None:
    """One that ended badly and has not become ready since. Whoever tells it says which version it is about."""
    over = container.state.terminated or container.last_state.terminated
    if container.ready or over is None or (over.exit_code == 0 and container.name == FETCH):
        return None
    if container.state.terminated is None and container.state.running is not None and over.exit_code == 0:
        return None
    report = ended.read(over.message)
    if report is not None and report.failure is not None and _REASON.fullmatch(report.failure.reason):
        said = ended.plain(report.failure.message).removeprefix(f"version {version}: ")
        return msgspec.structs.replace(report.failure, message=said)
    return _of_exit(container.name, over)


def _of_exit(name: str, over: Terminated) -> Failure:
    if over.reason == "OOMKilled":
        what = "what fetches the model" if name == FETCH else "the server"
        ours = "an admin raises the Helm value serving.agentResources"
        advice = ours if name == FETCH else "raise resources.limits.memory, or serve a smaller model"
        text = f"{what} was ended for needing more memory than its limit: {advice}"
        return Failure(reason="OOMKilled", message=text, retryable=name == FETCH)
    if over.reason in ("StartError", "ContainerCannotRun"):
        text = f"the container {name} could not be started: {ended.plain(over.message)}"
        return Failure(reason="ContainerNotStarted", message=text, retryable=True)
    text = f"the container {name} ended with exit code {over.exit_code}"
    said = ended.shown(over.message)
    text += f": {said}" if said else " and has said nothing: its log may say more"
    return Failure(reason="ServerExited", message=text, retryable=True)


# Waiting ------------------------------------------------------------------------------------------------------------


def _of_waiting(container: Container) -> Failure | None:
    found = container.state.waiting
    if found is None:
        return None
    said = ended.plain(waiting.without_wrapping(found.message))
    if found.reason in waiting.IMAGE_FAULTS:
        text = f"an image of the container {container.name} cannot be pulled: {said or 'it was tried in vain'}"
        return Failure(reason="ImagePullFailed", message=text, retryable=True)
    if found.reason in waiting.CONFIG_FAULTS:
        said = _WHERE.sub("", said)
        if _ROOT in said or _NO_NAME in said:
            said += "; a server in the cloud never runs as root: give the image a USER by number"
        text = f"the container {container.name} cannot be made: {said}"
        return Failure(reason="ContainerNotStarted", message=text, retryable=True)
    return None
