"""The operator's new images at the edge, on a real kube-apiserver: in turns, and never where they cannot be had."""

from __future__ import annotations

import msgspec
import pytest
from tests.contract.edge_models import a_model, said, serves, serving, told
from tests.contract.edge_parts import JOBS, SERVING, Edge, until

from modelwright.adapters.kubernetes.workloads import KubernetesWorkloads
from modelwright.ports.serving import TASK_ANNOTATION
from modelwright.ports.workloads import ServerStatus

pytestmark = [pytest.mark.anyio, pytest.mark.apiserver]
replace = msgspec.structs.replace
UPGRADED = replace(SERVING, agent_image="hub.example/modelwright:2")


def deferred(status: ServerStatus) -> bool:
    return status.up_to_date and [each.reason for each in status.notices] == ["UpgradeDeferred"]


async def test_the_operators_new_images_come_to_as_many_pods_at_once_as_have_them_and_the_others_serve_on(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owners = {name: await edge.owner(name) for name in ("one", "two", "three")}
    servers = {name: replace(a_model(owner, await edge.node()), name=name) for name, owner in owners.items()}
    before = {name: await serves(edge, workloads, server) for name, server in servers.items()}
    await workloads.aclose()

    async def upgrade(later: KubernetesWorkloads, *names: str) -> None:
        for server in servers.values():
            await later.apply(server)
        for name in names:
            await until(later, owners[name], deferred, name)
            pod = await edge.has_pod(name)
            assert pod["metadata"]["uid"] == before[name]["metadata"]["uid"]
            assert "deletionTimestamp" not in pod["metadata"]

    async def goes(name: str) -> None:
        await edge.goes(name)
        await edge.gone(before[name])

    async with KubernetesWorkloads(edge.client, JOBS, UPGRADED) as later:
        await upgrade(later, "two", "three")
        servers["two"] = replace(a_model(owners["two"], servers["two"].placement.node_name, version="v2"), name="two")
        await later.apply(servers["two"])  # the Pod that waits is told what its user wants
        pod = await edge.has_pod("two")
        assert '"default":"v2"' in pod["metadata"]["annotations"][TASK_ANNOTATION]
        edge.logs.put("two", "keeper", said(pod, "v2"))
        await until(later, owners["two"], serving("v2"), "two")
        await goes("one")
        first = await edge.has_pod("one", but=before["one"]["metadata"]["uid"])
        assert first["spec"]["containers"][0]["image"] == "hub.example/modelwright:2"
    async with KubernetesWorkloads(edge.client, JOBS, UPGRADED) as later:  # the Pod itself tells that it waits
        await upgrade(later, "two", "three")
        servers["three"] = replace(servers["three"], port=8600)
        await later.apply(servers["three"])
        await goes("three")  # what the user wants waits for nobody
        third = await edge.has_pod("three", but=before["three"]["metadata"]["uid"])
        await edge.runs(first)
        await until(later, owners["two"], deferred, "two")
        await edge.runs(third)
        await goes("two")
        await edge.has_pod("two", but=before["two"]["metadata"]["uid"])


async def test_what_is_on_a_node_that_does_not_answer_keeps_its_images_until_it_does(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    before = await serves(edge, workloads, a_model(owner, node))
    await workloads.aclose()
    await edge.node_is(node, "Unknown")
    async with KubernetesWorkloads(edge.client, JOBS, UPGRADED) as later:
        await later.apply(a_model(owner, node))
        status = await until(later, owner, told("NodeLost"))
        assert [each.reason for each in status.notices] == ["UpgradeDeferred"]
        assert "deletionTimestamp" not in (await edge.has_pod("serve"))["metadata"]
        await edge.node_is(node, "True")
        await edge.goes("serve")
        await edge.gone(before)
        await edge.has_pod("serve", but=before["metadata"]["uid"])
