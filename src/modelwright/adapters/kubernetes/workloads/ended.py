"""How a Pod's containers have ended: a result, or why there is none."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from modelwright.adapters.kubernetes.workloads.kinds import Pod, Terminated
from modelwright.adapters.kubernetes.workloads.render_kaniko import KANIKO
from modelwright.ports.job import Report
from modelwright.ports.workloads import BuildResult, Failure

SHOWN = 1500
"""Characters of a log that are shown: its end says what happened."""

_REASON = re.compile(r"[A-Z][A-Za-z0-9]{0,99}")
_REPORT = msgspec.json.Decoder(Report)
_REFUSED = (
    (re.compile(r"UNAUTHORIZED|unexpected status code 401|401 Unauthorized"), "RegistryUnauthorized"),
    (re.compile(r"DENIED|unexpected status code 403|403 Forbidden"), "RegistryDenied"),
    (re.compile(r"x509: |tls: failed to verify certificate"), "RegistryCertificateInvalid"),
)
"""What Kaniko prints where no further attempt helps."""


def result(pod: Pod) -> BuildResult | None:
    """What the last container reports, if it does."""
    containers = pod.status.container_statuses or ()
    ended = containers[-1].state.terminated if containers else None
    report = read(ended.message) if ended is not None else None
    told = report.result if report is not None else None
    if told is None:
        return None
    return msgspec.structs.replace(
        told, metrics_ignored=plain(told.metrics_ignored), provenance_refused=plain(told.provenance_refused)
    )


def failure(pod: Pod) -> Failure:
    """Why a Pod has failed, by the first of its containers that did."""
    for container in pod.status.containers:
        ended = container.state.terminated
        if ended is not None and ended.exit_code != 0:
            return _of_container(container.name, ended, pod)
    unsaid = "the Pod of the build has failed and does not say why"
    return _of_pod(pod) or Failure(reason="BuildFailed", message=unsaid, retryable=True)


def finished_at(pod: Pod) -> datetime | None:
    """When the last of its containers ended."""
    ends = [each.state.terminated.finished_at for each in pod.status.containers if each.state.terminated]
    return max((end for end in ends if end is not None), default=None)


def read(message: str) -> Report | None:
    """The report in a termination message, None if it is something else, whoever has written it."""
    try:
        return _REPORT.decode(message)
    except (msgspec.DecodeError, RecursionError):
        return None


def plain(text: str) -> str:
    """Without what would move the cursor of the terminal that it is read on."""
    return "".join(each if each.isprintable() or each == "\n" else "\N{REPLACEMENT CHARACTER}" for each in text)


def _of_container(name: str, ended: Terminated, pod: Pod) -> Failure:
    report = read(ended.message)
    if report is not None and report.failure is not None and _REASON.fullmatch(report.failure.reason):
        return msgspec.structs.replace(report.failure, message=plain(report.failure.message))
    if ended.reason == "OOMKilled":
        return Failure(
            reason="OOMKilled",
            message=f"the container {name} was ended for needing more memory than its limit: raise the operator's "
            "limit for builds",
            retryable=True,
        )
    if ended.reason in ("StartError", "ContainerCannotRun"):
        text = f"the container {name} could not be started: {shown(ended.message)}"
        return Failure(reason="ContainerNotStarted", message=text, retryable=True)
    return _of_pod(pod) or _of_words(name, ended)


def _of_pod(pod: Pod) -> Failure | None:
    """Where Kubernetes itself has ended it, such as Evicted."""
    if not pod.status.reason:
        return None
    text = f"the Pod of the build was ended by Kubernetes ({pod.status.reason}): {shown(pod.status.message)}"
    return Failure(reason="Evicted", message=text, retryable=True)


def _of_words(name: str, ended: Terminated) -> Failure:
    text = f"the container {name} ended with exit code {ended.exit_code}"
    text += f": {shown(ended.message)}" if ended.message else " and has printed nothing"
    if name == KANIKO:
        for pattern, reason in _REFUSED:
            if pattern.search(ended.message):
                return Failure(reason=reason, message=text)
    return Failure(reason="BuildFailed", message=text, retryable=True)


def shown(text: str) -> str:
    """The end of what was printed, without what would move a terminal's cursor."""
    text = plain(text.strip())
    return text if len(text) <= SHOWN else f"...{text[-SHOWN:]}"
