"""Builds on a real kube-apiserver with real controllers for Jobs, volumes and garbage; Pods live by the test's hand."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.contract.cluster_parts import OURS, bind, ended, running, running_controllers, say
from tests.contract.kube_apiserver import KubeApiserver
from tests.contract.subjects import fresh_name

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient, Selection
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import EVENTS, NAMESPACES, Resource
from modelwright.adapters.kubernetes.watch import watch_once
from modelwright.adapters.kubernetes.workloads import JobSettings, KubernetesWorkloads, render_job, render_volume
from modelwright.adapters.kubernetes.workloads.kinds import CLAIMS, JOBS, NODES, PODS, VOLUMES
from modelwright.adapters.kubernetes.workloads.labels import volume_name
from modelwright.ports.capabilities import StoragePolicy
from modelwright.ports.errors import AlreadyExists, Forbidden, NotFound, Terminal, Unavailable
from modelwright.ports.job import Report
from modelwright.ports.workloads import (
    BuildImage,
    BuildResult,
    Claim,
    Command,
    Efs,
    Failure,
    HostPath,
    Nfs,
    Owner,
    Placement,
    Server,
    Storage,
    Task,
    TaskStatus,
)

pytestmark = [pytest.mark.anyio, pytest.mark.apiserver]
DEADLINE = 60.0
MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SETTINGS = JobSettings(agent_image="hub.example.com/modelwright:1", default_registry="hub.example.com")
NFS = Nfs("nas.example.com", "/models/resnet")
RESULT = BuildResult(
    digest="sha256:" + "5" * 64, tag="v1", resolved="hub.example.com/m@sha256:" + "5" * 64, size_bytes=7, files=1
)
replace = msgspec.structs.replace


@pytest.fixture(scope="module")
def controlled(kube_apiserver: KubeApiserver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiserver]:
    """The API server of the session, with controllers."""
    programs = kube_apiserver.kubectl.parent
    with running_controllers(programs, tmp_path_factory.mktemp("controllers"), kube_apiserver):
        yield kube_apiserver


@pytest.fixture
async def client(controlled: KubeApiserver) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient(load_kubeconfig([controlled.kubeconfig])) as client:
        yield client


class Place:
    """A namespace that lets in what is *restricted*, and owners in it."""

    def __init__(self, client: KubernetesClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def owner(self, name: str = "owner") -> Owner:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        made = await self.client.create(MAPS, self.namespace, body)
        return Owner("v1", "ConfigMap", self.namespace, name, made["metadata"]["uid"])

    async def only(self, resource: Resource, uid: str) -> list[JSON]:
        namespace = self.namespace if resource.namespaced else ""
        return await self.client.list(resource, Selection(namespace, f"{OURS},modelwright.dev/owner-uid={uid}"))

    async def pod(self, uid: str, but: str = "") -> JSON:
        """The Pod that the Job controller makes, as soon as it has."""
        async with asyncio.timeout(DEADLINE):
            while True:
                found = [pod for pod in await self.only(PODS, uid) if pod["metadata"]["uid"] != but]
                if found:
                    return found[0]
                await asyncio.sleep(0.05)

    async def left(self, uid: str) -> int:
        return sum([len(await self.only(resource, uid)) for resource in (JOBS, PODS, CLAIMS, VOLUMES)])


@pytest.fixture
async def place(client: KubernetesClient) -> Place:
    name = fresh_name("builds")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    await client.create(NAMESPACES, "", body)
    return Place(client, name)


@pytest.fixture
async def workloads(client: KubernetesClient) -> AsyncIterator[KubernetesWorkloads]:
    async with KubernetesWorkloads(client, SETTINGS) as workloads:
        yield workloads


def a_task(owner: Owner, source: Storage = NFS, *, deadline_seconds: int = 0, **action: Any) -> Task:
    wanted = BuildImage(source=source, repository="hub.example.com/vision/resnet", tags=("v1",), **action)
    placement = Placement(node_name=getattr(source, "node_name", ""))
    return Task(name="build-1", owner=owner, action=wanted, placement=placement, deadline_seconds=deadline_seconds)


async def until(workloads: KubernetesWorkloads, owner: Owner, done: Callable[[TaskStatus], bool]) -> TaskStatus:
    async with asyncio.timeout(DEADLINE):
        while True:
            seen = await workloads.observe(owner.uid)
            for status in seen:
                if isinstance(status, TaskStatus) and done(status):
                    return status
            await asyncio.sleep(0.02)


def over(status: TaskStatus) -> bool:
    return status.phase in ("Succeeded", "Failed")


def told(reason: str) -> Callable[[TaskStatus], bool]:
    return lambda status: status.failure is not None and status.failure.reason == reason


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not await holds():
            await asyncio.sleep(0.05)


async def a_node(client: KubernetesClient, hostname: str = "") -> str:
    name = fresh_name("node")
    labels = {"kubernetes.io/hostname": hostname or name}
    await client.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    return name


def report(**fields: Any) -> str:
    return msgspec.json.encode(Report(**fields)).decode()


async def succeed(place: Place, owner: Owner) -> None:
    pod = await place.pod(owner.uid)
    await say(place.client, PODS, pod, phase="Succeeded", containerStatuses=[ended(0, report(result=RESULT))])


# What is made -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [NFS, Efs("fs-1::fsap-2", {"encryptInTransit": "true"}), Claim("theirs", "a/b")])
async def test_a_native_build_is_let_in_where_only_restricted_pods_are(
    place: Place, workloads: KubernetesWorkloads, source: Storage
) -> None:
    owner = await place.owner()
    await workloads.apply(a_task(owner, source, push_secret="login"))
    pod = await place.pod(owner.uid)
    assert pod["spec"]["containers"][0]["image"] == SETTINGS.agent_image
    assert (await until(workloads, owner, lambda status: status.phase == "Pending")).failure is None


async def test_a_kaniko_build_is_let_in_where_baseline_pods_are_and_says_so_elsewhere(
    place: Place, workloads: KubernetesWorkloads
) -> None:
    owner = await place.owner()
    await workloads.apply(a_task(owner, builder="kaniko", push_secret="login"))
    status = await until(workloads, owner, told("PodSecurityForbids"))
    assert status.phase == "Pending"
    assert status.failure is not None
    assert f"kubectl label --overwrite ns {place.namespace}" in status.failure.message
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    await place.client.merge_patch(NAMESPACES, "", place.namespace, labels)
    pod = await place.pod(owner.uid)  # the Job controller tries again
    assert [each["name"] for each in pod["spec"]["initContainers"]] == ["prepare", "kaniko"]
    assert (await until(workloads, owner, lambda status: status.failure is None)).phase == "Pending"


@pytest.mark.parametrize("kind", ["local", "nfs", "efs"])
async def test_volume_and_claim_find_each_other_and_are_read_only(
    place: Place, workloads: KubernetesWorkloads, kind: str
) -> None:
    owner = await place.owner()
    node = await a_node(place.client, "other.name") if kind == "local" else ""
    sources: dict[str, Storage] = {"local": HostPath("/foo", node), "nfs": NFS, "efs": Efs("fs-1:/a:fsap-2")}
    await workloads.apply(a_task(owner, sources[kind]))
    await eventually(lambda: is_bound(place, owner))
    (volume,) = await place.only(VOLUMES, owner.uid)
    spec = volume["spec"]
    assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["metadata"]["name"] == volume_name(place.namespace, "build-1")
    if kind == "local":
        (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == ["other.name"]
    else:
        assert spec["nfs" if kind == "nfs" else "csi"]["readOnly"] is True


async def is_bound(place: Place, owner: Owner) -> bool:
    found = await place.only(CLAIMS, owner.uid) + await place.only(VOLUMES, owner.uid)
    return [each["status"]["phase"] for each in found] == ["Bound", "Bound"]


async def test_the_same_task_again_writes_nothing(place: Place, workloads: KubernetesWorkloads) -> None:
    owner = await place.owner()
    task = a_task(owner)
    await asyncio.gather(workloads.apply(task), workloads.apply(task))
    await place.pod(owner.uid)
    await workloads.apply(task)
    assert [len(await place.only(resource, owner.uid)) for resource in (VOLUMES, CLAIMS, JOBS)] == [1, 1, 1]


async def test_a_job_is_made_only_when_its_claim_is_bound(place: Place, workloads: KubernetesWorkloads) -> None:
    owner = await place.owner()
    following = [
        asyncio.create_task(first(place, resource, done)) for resource, done in ((CLAIMS, bound), (JOBS, bool))
    ]
    await workloads.apply(a_task(owner))
    async with asyncio.timeout(DEADLINE):
        claim, job = await asyncio.gather(*following)
    assert version_of(claim) < version_of(job)


async def first(place: Place, resource: Resource, done: Callable[[JSON], bool]) -> JSON:
    """The first state of any object of this kind here that is so."""
    async with aclosing(watch_once(place.client, resource, "0", Selection(place.namespace), seconds=60)) as lines:
        async for line in lines:
            item: JSON = msgspec.json.decode(line.object)
            if line.type in ("ADDED", "MODIFIED") and done(item):
                return item
    raise AssertionError(resource)


def bound(claim: JSON) -> bool:
    return bool(claim.get("status", {}).get("phase") == "Bound")


def version_of(item: JSON) -> int:
    return int(item["metadata"]["resourceVersion"])


async def test_a_build_from_a_users_claim_waits_for_nothing(place: Place, workloads: KubernetesWorkloads) -> None:
    owner = await place.owner()
    await workloads.apply(a_task(owner, Claim("theirs")))
    assert len(await place.only(JOBS, owner.uid)) == 1


async def test_a_volume_that_does_not_fit_its_claim_keeps_the_build_from_a_job(
    place: Place, workloads: KubernetesWorkloads
) -> None:
    owner = await place.owner()
    task = a_task(owner)
    body = render_volume.claim(task, NFS)
    body["spec"]["resources"]["requests"]["storage"] = "1Ti"
    made = await place.client.create(CLAIMS, place.namespace, body)
    await workloads.apply(task)
    await eventually(lambda: has_volume(place, owner))
    await workloads.apply(task)
    assert await place.only(JOBS, owner.uid) == []
    await place.client.delete(CLAIMS, place.namespace, made["metadata"]["name"])
    await place.pod(owner.uid)  # another claim is made in its place, and a volume for that one


async def has_volume(place: Place, owner: Owner) -> bool:
    return await place.only(VOLUMES, owner.uid) != []


async def test_what_others_label_as_ours_says_nothing_of_our_builds(
    place: Place, client: KubernetesClient, workloads: KubernetesWorkloads
) -> None:
    owner, elsewhere = await place.owner(), await a_namespace(client)
    task = a_task(owner, Claim("theirs"))
    await workloads.apply(task)
    forged = render_job.job(task, task.action, SETTINGS)  # type: ignore[arg-type]
    forged["metadata"] |= {"namespace": elsewhere, "ownerReferences": []}
    await client.create(JOBS, elsewhere, forged)
    pod = await Place(client, elsewhere).pod(owner.uid, but=(await place.pod(owner.uid))["metadata"]["uid"])
    lie = report(result=replace(RESULT, digest="sha256:" + "e" * 64))
    await say(client, PODS, pod, phase="Succeeded", containerStatuses=[ended(0, lie)])
    await eventually(lambda: is_complete(Place(client, elsewhere), owner))
    async with opened(client) as second:  # which has seen all of it at once
        for each in (workloads, second):
            await each.apply(task)
            (status,) = await each.observe(owner.uid)
            assert isinstance(status, TaskStatus)
            assert status.phase == "Pending"
    await succeed(place, owner)
    assert (await until(workloads, owner, over)).result == RESULT


async def a_namespace(client: KubernetesClient) -> str:
    name = fresh_name("others")
    await client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.mark.parametrize("missing", [JOBS, CLAIMS])
async def test_what_a_crash_has_left_out_is_made(client: KubernetesClient, place: Place, missing: Resource) -> None:
    owner = await place.owner()
    task = a_task(owner)
    async with KubernetesWorkloads(client, SETTINGS) as first:
        await first.apply(task)
        await place.pod(owner.uid)
        await client.delete(JOBS, place.namespace, "build-1")
        if missing is CLAIMS:
            await client.delete(CLAIMS, place.namespace, "build-1")
            await eventually(lambda: is_gone(place, CLAIMS, owner))
    async with KubernetesWorkloads(client, SETTINGS) as second:
        (status,) = await second.observe(owner.uid)
        assert isinstance(status, TaskStatus)
        assert status.phase == "Pending"
        await second.apply(task)
        await place.pod(owner.uid)
        await eventually(lambda: is_bound(place, owner))


async def is_gone(place: Place, resource: Resource, owner: Owner) -> bool:
    return not await place.only(resource, owner.uid)


async def test_a_name_that_is_somebody_elses_is_left_alone(place: Place, workloads: KubernetesWorkloads) -> None:
    first, second = await place.owner("first"), await place.owner("second")
    await workloads.apply(a_task(first))
    await place.pod(first.uid)
    with pytest.raises(AlreadyExists) as error:
        await workloads.apply(a_task(second))
    assert error.value.reason == "NameTaken"
    assert await workloads.observe(second.uid) == ()
    assert len(await workloads.observe(first.uid)) == 1


async def test_a_job_that_a_user_takes_our_label_from_is_told_and_never_made_twice(
    place: Place, workloads: KubernetesWorkloads
) -> None:
    owner = await place.owner()
    task = a_task(owner, Claim("theirs"))
    await workloads.apply(task)
    unlabelled: JSON = {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}
    await place.client.merge_patch(JOBS, place.namespace, "build-1", unlabelled)
    await eventually(lambda: unseen(workloads, owner))
    with pytest.raises(AlreadyExists) as error:
        await workloads.apply(task)
    assert error.value.reason == "NameTaken"
    await place.client.delete(JOBS, place.namespace, "build-1")
    await eventually(lambda: made_again(place, workloads, task))


async def unseen(workloads: KubernetesWorkloads, owner: Owner) -> bool:
    return await workloads.observe(owner.uid) == ()


async def made_again(place: Place, workloads: KubernetesWorkloads, task: Task) -> bool:
    try:
        await workloads.apply(task)
    except AlreadyExists:
        return False  # it is still going
    return len(await place.only(JOBS, task.owner.uid)) == 1


@pytest.mark.parametrize("resource", [JOBS, CLAIMS, VOLUMES])
async def test_what_a_user_deletes_in_the_middle_keeps_no_build_from_its_end(
    place: Place, workloads: KubernetesWorkloads, resource: Resource
) -> None:
    owner = await place.owner()
    task = a_task(owner)
    await workloads.apply(task)
    before = await place.pod(owner.uid)
    namespace = place.namespace if resource.namespaced else ""
    name = "build-1" if resource.namespaced else volume_name(place.namespace, "build-1")
    await place.client.delete(resource, namespace, name)
    if resource is JOBS:
        await eventually(lambda: made_again(place, workloads, task))
        await eventually(lambda: is_other_pod(place, owner, before))
    await succeed(place, owner)
    await until(workloads, owner, over)
    await workloads.remove(owner.uid, "build-1")
    await eventually(lambda: nothing_left(place, owner))


async def is_other_pod(place: Place, owner: Owner, before: JSON) -> bool:
    """Whether the Pod is that of the new Job alone."""
    found = [pod["metadata"]["uid"] for pod in await place.only(PODS, owner.uid)]
    return len(found) == 1 and before["metadata"]["uid"] not in found


async def test_what_this_place_cannot_do_is_refused(place: Place, client: KubernetesClient) -> None:
    owner = await place.owner()
    settings = replace(SETTINGS, storage_policy=StoragePolicy(create_volumes=False))
    async with KubernetesWorkloads(client, settings) as workloads:
        with pytest.raises(Terminal) as error:
            await workloads.apply(a_task(owner))
        assert error.value.reason == "StorageNotSupported"
        assert workloads.capabilities.storage == {"claim"}
        train = Task(name="train", owner=owner, action=Command(command=("train",), image="a"))
        for workload in (train, Server(name="serve", owner=owner, program=Command(command=("serve",)))):
            with pytest.raises(Terminal) as error:
                await workloads.apply(workload)
            assert error.value.reason == "NotImplemented"
        await workloads.apply(a_task(owner, Claim("theirs")))
        assert not await place.only(VOLUMES, owner.uid)


# How it ends --------------------------------------------------------------------------------------------------------


async def test_a_build_comes_to_its_result_and_nothing_of_it_is_left(
    place: Place, workloads: KubernetesWorkloads
) -> None:
    owner = await place.owner()
    await workloads.apply(a_task(owner))
    pod = await place.pod(owner.uid)
    await bind(place.client, pod, "cloud-0")
    await say(place.client, PODS, pod, phase="Running", containerStatuses=[running()])
    assert (await until(workloads, owner, lambda status: status.phase == "Running")).node_name == "cloud-0"
    await succeed(place, owner)
    status = await until(workloads, owner, over)
    assert (status.phase, status.result) == ("Succeeded", RESULT)
    assert await workloads.owners() >= {owner}
    await workloads.remove(owner.uid, "build-1")
    assert await workloads.observe(owner.uid) == ()
    assert owner not in await workloads.owners()
    await eventually(lambda: nothing_left(place, owner))


async def test_what_a_build_has_left_waits_for_builds_that_wait_to_begin(
    place: Place, workloads: KubernetesWorkloads
) -> None:
    """It counts as removed meanwhile, and the same name may be applied again."""
    done, waits = await place.owner("done"), await place.owner("waits")
    await workloads.apply(a_task(done))
    await succeed(place, done)
    await until(workloads, done, over)
    await workloads.apply(replace(a_task(waits), name="build-2"))  # its claim takes a while to be bound
    await workloads.remove(done.uid, "build-1")
    assert await workloads.observe(done.uid) == ()
    await workloads.remove(waits.uid, "build-2")
    await eventually(lambda: nothing_left(place, done))
    await workloads.apply(a_task(done))
    assert (await until(workloads, done, lambda status: True)).phase == "Pending"


async def nothing_left(place: Place, owner: Owner) -> bool:
    return await place.left(owner.uid) == 0


async def test_a_task_that_was_removed_while_it_ran_goes_too(place: Place, workloads: KubernetesWorkloads) -> None:
    owner = await place.owner()
    await workloads.apply(a_task(owner))
    await place.pod(owner.uid)
    await workloads.remove(owner.uid, "build-1")
    assert await workloads.observe(owner.uid) == ()
    await eventually(lambda: nothing_left(place, owner))
    await workloads.remove(owner.uid, "build-1")


async def test_a_users_claim_outlives_the_build(place: Place, workloads: KubernetesWorkloads) -> None:
    owner = await place.owner()
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "theirs"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await place.client.create(CLAIMS, place.namespace, claim)
    await workloads.apply(a_task(owner, Claim("theirs")))
    await succeed(place, owner)
    await until(workloads, owner, over)
    await workloads.remove(owner.uid, "build-1")
    await eventually(lambda: nothing_left(place, owner))
    assert "deletionTimestamp" not in (await place.client.get(CLAIMS, place.namespace, "theirs"))["metadata"]


async def test_a_failed_build_says_why(place: Place, workloads: KubernetesWorkloads) -> None:
    owner = await place.owner()
    await workloads.apply(a_task(owner))
    pod = await place.pod(owner.uid)
    failure = Failure("StorageEmpty", "there is nothing to pack")
    await say(place.client, PODS, pod, phase="Failed", containerStatuses=[ended(1, report(failure=failure))])
    status = await until(workloads, owner, over)
    assert (status.phase, status.failure) == ("Failed", failure)
    assert status.finished_at is not None


async def test_a_pod_that_was_pushed_out_gives_way_to_another(place: Place, workloads: KubernetesWorkloads) -> None:
    owner = await place.owner()
    await workloads.apply(a_task(owner))
    pod = await place.pod(owner.uid)
    pushed = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    await say(place.client, PODS, pod, phase="Failed", conditions=[pushed], containerStatuses=[ended(137, "")])
    second = await place.pod(owner.uid, but=pod["metadata"]["uid"])
    (status,) = await workloads.observe(owner.uid)
    assert isinstance(status, TaskStatus)
    assert status.phase == "Pending"
    await say(place.client, PODS, second, phase="Succeeded", containerStatuses=[ended(0, report(result=RESULT))])
    assert (await until(workloads, owner, over)).result == RESULT


async def test_a_deadline_ends_a_build(place: Place, workloads: KubernetesWorkloads) -> None:
    owner = await place.owner()
    await workloads.apply(a_task(owner, deadline_seconds=1))
    status = await until(workloads, owner, over)
    assert status.failure is not None
    assert (status.failure.reason, status.failure.retryable) == ("DeadlineExceeded", False)


async def test_a_result_that_went_with_its_pod_is_lost_and_may_be_tried_for_again(
    place: Place, client: KubernetesClient
) -> None:
    owner = await place.owner()
    async with KubernetesWorkloads(client, SETTINGS) as first:
        await first.apply(a_task(owner))
        await succeed(place, owner)
        await until(first, owner, over)
    await eventually(lambda: is_complete(place, owner))
    for pod in await place.only(PODS, owner.uid):
        await client.delete(PODS, place.namespace, pod["metadata"]["name"])
    await eventually(lambda: is_gone(place, PODS, owner))
    async with KubernetesWorkloads(client, SETTINGS) as second:
        await second.apply(a_task(owner))
        status = await until(second, owner, over)
    assert status.failure is not None
    assert (status.phase, status.failure.reason, status.failure.retryable) == ("Failed", "ResultLost", True)


async def is_complete(place: Place, owner: Owner) -> bool:
    (job,) = await place.only(JOBS, owner.uid)
    return any(each["type"] == "Complete" for each in job["status"].get("conditions", []))


# What it waits for --------------------------------------------------------------------------------------------------


async def test_a_node_that_is_missing_is_waited_for(place: Place, workloads: KubernetesWorkloads) -> None:
    owner, node = await place.owner(), fresh_name("node")
    task, changes = a_task(owner, HostPath("/foo", node)), workloads.changes()
    await workloads.apply(task)
    status = await until(workloads, owner, told("NodeNotFound"))
    assert status.phase == "Pending"
    assert owner in await workloads.owners()
    assert await place.left(owner.uid) == 0
    labels = {"kubernetes.io/hostname": node}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}}
    await place.client.create(NODES, "", body)
    async with asyncio.timeout(DEADLINE):
        async for changed in changes:  # whoever wants it is asked to apply it again
            await workloads.apply(task)
            if changed == owner and await place.only(CLAIMS, owner.uid):
                break
    await place.pod(owner.uid)
    assert (await until(workloads, owner, lambda status: status.failure is None)).phase == "Pending"


async def test_what_only_events_tell_is_told(place: Place, workloads: KubernetesWorkloads) -> None:
    owner = await place.owner()
    await workloads.apply(a_task(owner))
    pod = await place.pod(owner.uid)
    await bind(place.client, pod, "cloud-0")
    creating = {**running(), "ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
    await say(place.client, PODS, pod, phase="Pending", containerStatuses=[creating])
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": place.namespace},
        "involvedObject": {"kind": "Pod", "namespace": place.namespace, "uid": pod["metadata"]["uid"]},
        "type": "Warning",
        "reason": "FailedMount",
        "message": "mount.nfs: access denied by server",
    }
    await place.client.create(EVENTS, place.namespace, event)
    status = await until(workloads, owner, told("MountFailed"))
    assert status.phase == "Pending"
    assert status.failure is not None
    assert "access denied by server" in status.failure.message
    await say(place.client, PODS, pod, phase="Running", containerStatuses=[running()])
    assert (await until(workloads, owner, lambda status: status.phase == "Running")).failure is None


async def test_a_name_whose_former_bearer_is_going_is_free_when_it_has_gone(
    place: Place, workloads: KubernetesWorkloads
) -> None:
    owner = await place.owner()
    await workloads.apply(a_task(owner))
    await place.pod(owner.uid)
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    await place.client.merge_patch(JOBS, place.namespace, "build-1", held)
    await workloads.remove(owner.uid, "build-1")
    assert await workloads.observe(owner.uid) == ()
    (before,) = await place.only(JOBS, owner.uid)
    await workloads.apply(a_task(owner))
    await place.client.merge_patch(JOBS, place.namespace, "build-1", {"metadata": {"finalizers": None}})
    await eventually(lambda: another(place, owner, before))


async def another(place: Place, owner: Owner, before: JSON) -> bool:
    found = [job["metadata"]["uid"] for job in await place.only(JOBS, owner.uid)]
    return found != [] and found != [before["metadata"]["uid"]]


# Owners -------------------------------------------------------------------------------------------------------------


async def test_changes_come_with_each_new_status_and_no_more(place: Place, workloads: KubernetesWorkloads) -> None:
    owner, changes = await place.owner(), workloads.changes()
    await workloads.apply(a_task(owner))
    await succeed(place, owner)
    seen = []
    async with asyncio.timeout(DEADLINE):
        async for changed in changes:
            if changed != owner:
                continue
            seen.append(await workloads.observe(owner.uid))
            if over(seen[-1][0]):  # type: ignore[arg-type]
                break
    assert all(before != after for before, after in itertools.pairwise(seen))


async def test_the_volume_of_a_namespace_that_has_gone_still_names_its_owner(
    place: Place, workloads: KubernetesWorkloads
) -> None:
    owner = await place.owner()
    await workloads.apply(a_task(owner))
    await succeed(place, owner)  # else its Pod waits for a kubelet to end it
    await eventually(lambda: is_complete(place, owner))
    await place.client.delete(NAMESPACES, "", place.namespace)
    await eventually(lambda: namespace_gone(place))
    assert len(await place.client.list(VOLUMES, Selection(labels=f"modelwright.dev/owner-uid={owner.uid}"))) == 1
    await eventually(lambda: only_volume(workloads, owner))
    assert owner in await workloads.owners()
    await workloads.remove(owner.uid, "build-1")
    assert owner not in await workloads.owners()
    await eventually(lambda: is_gone(place, VOLUMES, owner))


async def namespace_gone(place: Place) -> bool:
    try:
        await place.client.get(NAMESPACES, "", place.namespace)
    except NotFound:
        return True
    return False


async def only_volume(workloads: KubernetesWorkloads, owner: Owner) -> bool:
    seen = await workloads.observe(owner.uid)
    return [status.name for status in seen] == ["build-1"]


async def test_a_namespace_that_is_going_takes_nothing_in_and_that_is_no_refusal_for_good(
    place: Place, workloads: KubernetesWorkloads
) -> None:
    owner = await place.owner()
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await place.client.create(MAPS, place.namespace, {"apiVersion": "v1", "kind": "ConfigMap", **held})
    await place.client.delete(NAMESPACES, "", place.namespace)
    with pytest.raises(Unavailable) as error:
        await workloads.apply(a_task(owner, Claim("theirs")))
    assert error.value.reason == "NamespaceTerminating"
    await place.client.merge_patch(MAPS, place.namespace, "held", {"metadata": {"finalizers": None}})


async def test_who_may_not_write_is_told(controlled: KubeApiserver, place: Place) -> None:
    owner = await place.owner()
    access = load_kubeconfig([controlled.kubeconfig])
    nobody = replace(access, login=replace(access.login, token=controlled.nobody_token))
    async with KubernetesClient(nobody) as refused:
        workloads = KubernetesWorkloads(refused, SETTINGS)
        for mirror in workloads._mirrors.all:
            mirror.synced.set()
        with pytest.raises(Forbidden):
            await workloads.apply(a_task(owner))


@asynccontextmanager
async def opened(client: KubernetesClient) -> AsyncIterator[KubernetesWorkloads]:
    async with KubernetesWorkloads(client, SETTINGS) as workloads:
        yield workloads


async def test_another_operator_finds_what_the_first_has_left(client: KubernetesClient, place: Place) -> None:
    owner = await place.owner()
    async with opened(client) as first:
        await first.apply(a_task(owner))
        await place.pod(owner.uid)
    await succeed(place, owner)
    async with opened(client) as second:
        (seen,) = await second.observe(owner.uid)
        assert isinstance(seen, TaskStatus)
        assert seen.phase == "Pending"  # what a Job tells counts once its owner has been seen, and its namespace
        await second.apply(a_task(owner))
        status = await until(second, owner, over)
        assert status.result == RESULT
        assert len(await place.only(JOBS, owner.uid)) == 1
        assert owner in await second.owners()


async def test_logs_of_nothing_are_not_found(workloads: KubernetesWorkloads) -> None:
    with pytest.raises(NotFound):
        async for _ in workloads.logs("nobody", "nothing"):
            pass
