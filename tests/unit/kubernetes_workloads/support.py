"""Tasks and native objects, as short as a table wants them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from modelwright.adapters.kubernetes.workloads.kinds import Job, Pod
from modelwright.adapters.kubernetes.workloads.settings import JobSettings
from modelwright.ports.job import Report
from modelwright.ports.workloads import BuildImage, BuildResult, Failure, Owner, Placement, Storage, Task

JSON = dict[str, Any]
OWNER = Owner("model.kubedl.io/v1alpha1", "ModelVersion", "vision", "resnet-3", "uid-1")
SETTINGS = JobSettings(agent_image="hub.example.com/modelwright:1", plain_http=("lab.example.com:5000",))
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RESULT = BuildResult(digest="sha256:1", tag="v1", resolved="hub.example.com/m@sha256:1", size_bytes=7, files=1)


def a_task(source: Storage, *, deadline_seconds: int = 0, **action: Any) -> Task:
    """A build of what lies there, placed as the reconciler places it."""
    wanted = BuildImage(source=source, repository="hub.example.com/vision/resnet", tags=("v1", "v12"), **action)
    placement = Placement(node_name=getattr(source, "node_name", ""))
    return Task(
        name="resnet-3-build-1", owner=OWNER, action=wanted, placement=placement, deadline_seconds=deadline_seconds
    )


def at(seconds: float) -> str:
    """A time so many seconds before now."""
    return (NOW - timedelta(seconds=seconds)).isoformat()


def stored(body: JSON, uid: str, version: int, created: datetime = NOW, **status: object) -> JSON:
    """What we have sent, as the API server has it."""
    said = {"uid": uid, "resourceVersion": str(version), "creationTimestamp": created.isoformat()}
    return {**body, "metadata": {**body["metadata"], **said}, "status": status}


def a_job(*conditions: JSON, **status: Any) -> Job:
    metadata = {"name": "b", "namespace": "vision", "uid": "j", "resourceVersion": "1", "creationTimestamp": at(60)}
    return msgspec.convert({"metadata": metadata, "status": {**status, "conditions": list(conditions)}}, Job)


def condition(type_: str, reason: str = "", message: str = "", status: str = "True") -> JSON:
    said = {"type": type_, "status": status, "reason": reason, "message": message}
    return {**said, "lastTransitionTime": at(1)}


def a_pod(
    phase: str,
    *,
    age: float = 60,
    node: str = "cloud-0",
    name: str = "b-x",
    going: bool = False,
    writes: Sequence[JSON] = (),
    **status: Any,
) -> Pod:
    metadata: JSON = {"name": name, "namespace": "vision", "uid": name, "creationTimestamp": at(age)}
    metadata |= {"managedFields": list(writes)}
    metadata |= {"deletionTimestamp": at(1)} if going else {}
    body = {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase, **status}}
    return msgspec.convert(body, Pod)


def container(name: str = "build", **state: JSON) -> JSON:
    return {"name": name, "state": state}


def terminated(code: int = 0, message: str | Report = "", reason: str = "", name: str = "build") -> JSON:
    """A container that has ended with this message."""
    text = message if isinstance(message, str) else msgspec.json.encode(message).decode()
    return container(name, terminated={"exitCode": code, "message": text, "reason": reason, "finishedAt": at(2)})


def failing(reason: str = "StorageEmpty", *, retryable: bool = False) -> Report:
    return Report(failure=Failure(reason, "nothing there", retryable))
