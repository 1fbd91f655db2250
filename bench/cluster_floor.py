"""What Kubernetes itself takes for the builds of a storm: their claims, volumes and Jobs, made by a bare client.

It keeps no ModelVersion, Model, status or Event, and clears nothing away: no operator can be quicker. What it takes
also says how fast the machine is at this moment, which on shared cores may differ by a quarter from hour to hour.
"""

from __future__ import annotations

import time
from functools import partial

import msgspec
from bench.cluster_plane import AGENT_IMAGE, NAMESPACE, REGISTRY, REPOSITORY, TAG, connected, spread
from bench.cluster_watch import Seen, watched
from tests.contract.kube_apiserver import KubeApiserver

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient
from modelwright.adapters.kubernetes.workloads.kinds import CLAIMS, JOBS, PODS, VOLUMES, PersistentVolumeClaim, Pod
from modelwright.adapters.kubernetes.workloads.labels import OURS
from modelwright.adapters.kubernetes.workloads.render_job import job
from modelwright.adapters.kubernetes.workloads.render_volume import claim, volume
from modelwright.adapters.kubernetes.workloads.settings import JobSettings
from modelwright.adapters.kubernetes.workloads.waiting import BOUND
from modelwright.ports.workloads import BuildImage, Nfs, Owner, Task

CONNECTIONS = 64
SETTINGS = JobSettings(agent_image=AGENT_IMAGE, default_registry=REGISTRY)
_CLAIM = msgspec.json.Decoder(PersistentVolumeClaim)
_POD = msgspec.json.Decoder(Pod)


async def floor(server: KubeApiserver, count: int) -> float:
    """Seconds until the Pods of so many Jobs have succeeded."""
    tasks = [task(number) for number in range(count)]
    async with (
        connected(server) as client,
        watched(client, CLAIMS, OURS, bound) as claims,
        watched(client, PODS, OURS, succeeded) as pods,
    ):
        began = time.perf_counter()
        await spread(server, tasks, partial(make, claims=claims), CONNECTIONS)
        await pods.so_many(count)
        return time.perf_counter() - began


def task(number: int) -> Task:
    """As that of the storm's version with this number."""
    name = f"floor-{number}"
    owner = Owner("model.kubedl.io/v1alpha1", "ModelVersion", NAMESPACE, name, uid=f"{number:032x}")
    source = Nfs("nas.example.com", f"/models/{name}")
    return Task(name=name, owner=owner, action=BuildImage(source=source, repository=REPOSITORY, tags=(TAG,)))


async def make(client: KubernetesClient, task: Task, *, claims: Seen) -> None:
    """Claim and volume, and the Job when they are bound."""
    assert isinstance(task.action, BuildImage)
    made = await client.create(CLAIMS, NAMESPACE, unowned(claim(task, task.action.source)))
    await client.create(VOLUMES, "", unowned(volume(task, task.action.source, made["metadata"]["uid"])))
    await claims.named(task.name)
    await client.create(JOBS, NAMESPACE, unowned(job(task, task.action, SETTINGS)))


def unowned(body: JSON) -> JSON:
    """Its owner is not there: the garbage collector would take it away."""
    body["metadata"].pop("ownerReferences", None)
    return body


def bound(body: bytes) -> str:
    seen = _CLAIM.decode(body)
    return seen.metadata.name if seen.status.phase == BOUND else ""


def succeeded(body: bytes) -> str:
    seen = _POD.decode(body)
    return seen.metadata.name if seen.status.phase == "Succeeded" else ""
