"""The client does on a real kube-apiserver what its docstrings say."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from tests.contract.kube_apiserver import KubeApiserver
from tests.contract.subjects import fresh_name, install_crds

from modelwright.adapters.kubernetes.access import Access, ExecPlugin, Login
from modelwright.adapters.kubernetes.client import JSON, KubernetesClient, Selection
from modelwright.adapters.kubernetes.events import EventRecorder
from modelwright.adapters.kubernetes.faults import InvalidResource
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import EVENTS, NAMESPACES, Resource, of_kind
from modelwright.adapters.kubernetes.watch import watch_once
from modelwright.api.kinds import MODEL_VERSION
from modelwright.ports.errors import AlreadyExists, Conflict, Forbidden, NotFound
from modelwright.ports.store import Event

pytestmark = [pytest.mark.anyio, pytest.mark.apiserver]
MAPS = Resource("", "v1", "configmaps", "ConfigMap")


@pytest.fixture
async def client(kube_apiserver: KubeApiserver) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient(load_kubeconfig([kube_apiserver.kubeconfig])) as client:
        yield client


@pytest.fixture
async def namespace(client: KubernetesClient) -> str:
    name = fresh_name("client")
    await client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def config_map(name: str, **data: str) -> JSON:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"n": name}}, "data": data}


@asynccontextmanager
async def logged_in(server: KubeApiserver, login: Login) -> AsyncIterator[KubernetesClient]:
    access = Access(server=server.url, source="a test", ca=server.ca_file.read_bytes(), login=login)
    async with KubernetesClient(access) as client:
        yield client


async def test_a_client_certificate_logs_in(kube_apiserver: KubeApiserver) -> None:
    login = Login(
        certificate=kube_apiserver.client_certificate.read_bytes(), key=kube_apiserver.client_key.read_bytes()
    )
    async with logged_in(kube_apiserver, login) as client:
        assert (await client.get(NAMESPACES, "", "default"))["metadata"]["name"] == "default"


async def test_a_login_program_logs_in(kube_apiserver: KubeApiserver) -> None:
    version = "client.authentication.k8s.io/v1"
    printed = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": {"token": kube_apiserver.token}})
    plugin = ExecPlugin(version, sys.executable, ("-c", f"print({printed!r})"))
    async with logged_in(kube_apiserver, Login(plugin=plugin)) as client:
        assert await client.list(NAMESPACES)


async def test_a_token_that_was_replaced_is_read_again(kube_apiserver: KubeApiserver, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("outdated")
    async with logged_in(kube_apiserver, Login(token_file=token)) as client:
        with pytest.raises(Forbidden):
            await client.list(NAMESPACES)
        token.write_text(kube_apiserver.token)
        assert await client.list(NAMESPACES)


async def test_a_stranger_and_a_user_without_rights_are_told_apart(kube_apiserver: KubeApiserver) -> None:
    async with logged_in(kube_apiserver, Login(token="made-up")) as client:
        with pytest.raises(Forbidden) as stranger:
            await client.list(NAMESPACES)
    async with logged_in(kube_apiserver, Login(token=kube_apiserver.nobody_token)) as client:
        with pytest.raises(Forbidden) as nobody:
            await client.list(NAMESPACES)
    assert (stranger.value.reason, nobody.value.reason) == ("Unauthorized", "Forbidden")


async def test_acting_as_another_has_that_users_rights(kube_apiserver: KubeApiserver) -> None:
    login = Login(token=kube_apiserver.token, impersonate_user="jane", impersonate_groups=("vision",))
    async with logged_in(kube_apiserver, login) as client:
        with pytest.raises(Forbidden, match="jane"):
            await client.list(NAMESPACES)


async def test_a_list_comes_in_pages_at_one_version(client: KubernetesClient, namespace: str) -> None:
    for number in range(7):
        await client.create(MAPS, namespace, config_map(f"m-{number}"))
    pages = [page async for page in client.pages(MAPS, Selection(namespace), limit=3)]
    assert [len(page.items) for page in pages] == [3, 3, 1]
    assert len({page.version for page in pages}) == 1
    items, version = await client.list_bytes(MAPS, Selection(namespace), limit=2)
    assert [json.loads(bytes(item))["metadata"]["name"] for item in items] == [f"m-{n}" for n in range(7)]
    assert version


async def test_labels_and_fields_select(client: KubernetesClient, namespace: str) -> None:
    for name in ("a", "b", "c"):
        await client.create(MAPS, namespace, config_map(name))
    by_label = await client.list(MAPS, Selection(namespace, labels="n in (a,b)"))
    by_field = await client.list(MAPS, Selection(namespace, fields="metadata.name=c"))
    assert [item["metadata"]["name"] for item in by_label + by_field] == ["a", "b", "c"]


async def test_a_table_is_what_the_server_prints(client: KubernetesClient, namespace: str) -> None:
    for name in ("a", "b"):
        await client.create(MAPS, namespace, config_map(name, x="1"))
    table = await client.table(MAPS, Selection(namespace))
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [row["cells"][:2] for row in table["rows"]] == [["a", 1], ["b", 1]]
    assert (await client.table(MAPS, Selection(namespace), "b"))["rows"][0]["cells"][0] == "b"
    with pytest.raises(NotFound):
        await client.table(MAPS, Selection(namespace), "c")


async def test_a_dry_run_writes_nothing(client: KubernetesClient, namespace: str) -> None:
    assert (await client.create(MAPS, namespace, config_map("a"), dry_run=True))["metadata"]["uid"]
    with pytest.raises(NotFound):
        await client.get(MAPS, namespace, "a")
    await client.create(MAPS, namespace, config_map("a", x="1"))
    await client.merge_patch(MAPS, namespace, "a", {"data": {"x": "2"}}, dry_run=True)
    await client.delete(MAPS, namespace, "a", dry_run=True)
    assert (await client.get(MAPS, namespace, "a"))["data"] == {"x": "1"}


async def test_patches_are_merged_or_done_step_by_step(client: KubernetesClient, namespace: str) -> None:
    created = await client.create(MAPS, namespace, config_map("a", x="1", y="2"))
    version = created["metadata"]["resourceVersion"]
    patched = await client.merge_patch(MAPS, namespace, "a", {"data": {"x": None, "z": "3"}})
    assert patched["data"] == {"y": "2", "z": "3"}
    with pytest.raises(Conflict):
        await client.merge_patch(MAPS, namespace, "a", {"metadata": {"resourceVersion": version}, "data": {"x": "9"}})
    await client.json_patch(MAPS, namespace, "a", [{"op": "remove", "path": "/data/y"}])
    assert (await client.get(MAPS, namespace, "a"))["data"] == {"z": "3"}


async def test_what_was_applied_is_owned_and_taken_away_when_left_out(client: KubernetesClient, namespace: str) -> None:
    await client.apply(MAPS, namespace, "a", config_map("a", x="1", y="2"))
    applied = await client.apply(MAPS, namespace, "a", config_map("a", x="1"))
    assert applied["data"] == {"x": "1"}
    await client.merge_patch(MAPS, namespace, "a", {"data": {"x": "9"}}, params={"fieldManager": "another"})
    with pytest.raises(Conflict):
        await client.apply(MAPS, namespace, "a", config_map("a", x="1"))
    assert (await client.apply(MAPS, namespace, "a", config_map("a", x="1"), force=True))["data"] == {"x": "1"}


async def test_only_the_very_object_is_deleted(client: KubernetesClient, namespace: str) -> None:
    metadata = (await client.create(MAPS, namespace, config_map("a")))["metadata"]
    with pytest.raises(Conflict):
        await client.delete(MAPS, namespace, "a", uid="another")
    with pytest.raises(Conflict):
        await client.delete(MAPS, namespace, "a", uid=metadata["uid"], version="1")
    await client.delete(MAPS, namespace, "a", uid=metadata["uid"], version=metadata["resourceVersion"])
    with pytest.raises(NotFound):
        await client.delete(MAPS, namespace, "a")


async def test_faults_are_all_given_with_their_fields(client: KubernetesClient, namespace: str) -> None:
    await install_crds(client)
    body = {"apiVersion": "model.kubedl.io/v1alpha1", "kind": "ModelVersion", "metadata": {"name": "a"}, "spec": {}}
    with pytest.raises(InvalidResource) as refused:
        await client.create(of_kind(MODEL_VERSION), namespace, body)
    assert {"spec.modelName", "spec.imageRepo", "spec.storage"} <= {cause.field for cause in refused.value.causes}


async def test_a_watch_can_be_of_one_object(client: KubernetesClient, namespace: str) -> None:
    _, version = await client.list_bytes(MAPS)
    for name in ("a", "b"):
        await client.create(MAPS, namespace, config_map(name))
    where = Selection(namespace, fields="metadata.name=b")
    async with aclosing(watch_once(client, MAPS, version, where, seconds=60)) as changes:
        line = await anext(changes)
    assert (line.type, json.loads(bytes(line.object))["metadata"]["name"]) == ("ADDED", "b")


async def test_events_are_counted_across_recorders_and_written_anew_when_expired(
    client: KubernetesClient, namespace: str
) -> None:
    event = Event("v1", "ConfigMap", namespace, "a", "uid-1", "Normal", "Built", "done")
    first, second = EventRecorder(client, "test"), EventRecorder(client, "test")
    for recorder in (first, second, first):
        await recorder.record(event)
    (written,) = await client.list(EVENTS, Selection(namespace))
    assert written["count"] >= 2
    await client.delete(EVENTS, namespace, written["metadata"]["name"])
    await second.record(event)
    (written,) = await client.list(EVENTS, Selection(namespace))
    assert written["count"] == 1


async def test_a_name_in_use_is_said_to_be(client: KubernetesClient, namespace: str) -> None:
    await client.create(MAPS, namespace, config_map("a"))
    with pytest.raises(AlreadyExists):
        await client.create(MAPS, namespace, config_map("a"))
