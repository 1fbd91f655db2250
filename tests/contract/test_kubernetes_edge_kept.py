"""What models keep on their nodes, on a real kube-apiserver: it is removed when nobody wants it any more."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from tests.contract.edge_models import a_model, serves, told
from tests.contract.edge_parts import JOBS, SERVING, Edge, eventually, node_of, until
from tests.contract.kube_apiserver import KubeApiserver
from tests.contract.operators import kubeconfig_at
from tests.contract.tunnel import tunnel

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.servers.sweep_pods import KEPT_OF
from modelwright.adapters.kubernetes.workloads import KubernetesWorkloads
from modelwright.adapters.kubernetes.workloads.kinds import NODES, PODS
from modelwright.ports.errors import Unavailable
from modelwright.ports.workloads import Resources

pytestmark = [pytest.mark.anyio, pytest.mark.apiserver]
replace = msgspec.structs.replace


async def test_what_a_model_has_kept_is_removed_once_its_pod_is_gone(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await workloads.remove(owner.uid, "serve")
    assert await workloads.observe(owner.uid) == ()
    (sweep,) = await edge.pods(owner, "sweep")
    assert sweep["spec"]["schedulingGates"]  # it waits until the model's own Pod has ended
    assert node_of(sweep) == node
    assert "ownerReferences" not in sweep["metadata"]
    async with KubernetesWorkloads(edge.client, JOBS, SERVING):  # another operator takes it from there
        await workloads.aclose()
        await edge.gone(pod)
        name = sweep["metadata"]["name"]

        async def begun() -> bool:
            found = await edge.pod(name)
            return found is not None and not found["spec"].get("schedulingGates")

        await eventually(begun)
        sweep = await edge.has_pod(name)
        (volume,) = [each for each in sweep["spec"]["volumes"] if "hostPath" in each]
        assert volume["hostPath"]["path"] == f"/var/lib/modelwright/models/{edge.namespace}"
        (container,) = sweep["spec"]["containers"]
        assert {"name": "MODELWRIGHT_SWEEP", "value": owner.uid} in container["env"]
        await edge.client.merge_patch(
            PODS, edge.namespace, name, {"status": {"phase": "Succeeded"}}, subresource="status"
        )

        async def cleared() -> bool:
            return await edge.pod(name) is None

        await eventually(cleared)


async def test_scaled_to_zero_the_pod_goes_and_what_is_kept_stays_known(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await workloads.apply(a_model(owner, node, replicas=0))
    await edge.gone(pod)
    await until(workloads, owner, lambda seen: seen.up_to_date and seen.replicas == 0)
    (sweep,) = await edge.pods(owner, "sweep")
    assert sweep["spec"]["schedulingGates"]
    await workloads.apply(a_model(owner, node))
    await edge.has_pod("serve")
    assert await edge.pods(owner, "sweep") == []  # what is kept is wanted again


async def test_an_owner_that_went_while_nobody_looked_is_found_by_what_it_has_kept(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await workloads.apply(a_model(owner, node, replicas=0))
    await edge.gone(pod)
    await workloads.aclose()
    async with KubernetesWorkloads(edge.client, JOBS, SERVING) as later:
        assert owner in await later.owners()
        (status,) = await later.observe(owner.uid)
        assert status.name == "serve"
        await later.remove(owner.uid, "serve")
        assert await later.observe(owner.uid) == ()
        assert owner not in await later.owners()
        await edge.sweeps(owner)


async def test_an_owner_that_goes_while_its_pod_is_replaced_leaves_nothing(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await workloads.apply(a_model(owner, node, port=8600))
    assert owner in await workloads.owners()
    await workloads.remove(owner.uid, "serve")
    assert owner not in await workloads.owners()
    (sweep,) = await edge.pods(owner, "sweep")
    await edge.gone(pod)
    await edge.sweeps(owner)
    assert await edge.pods(owner) == []
    assert node_of(sweep) == node


async def test_a_removal_that_the_api_server_did_not_take_is_made_good_by_the_next(
    edge: Edge, kube_apiserver: KubeApiserver, tmp_path: Path
) -> None:
    owner, node = await edge.owner(), await edge.node()
    address = load_kubeconfig([kube_apiserver.kubeconfig]).server.rpartition("/")[2]
    async with AsyncExitStack() as stack:
        async with tunnel(address) as port:
            there = kubeconfig_at(kube_apiserver.kubeconfig, f"https://127.0.0.1:{port}", tmp_path / "kubeconfig")
            client = await stack.enter_async_context(KubernetesClient(load_kubeconfig([there])))
            workloads = await stack.enter_async_context(KubernetesWorkloads(client, JOBS, SERVING))
            pod = await serves(edge, workloads, a_model(owner, node))
            await workloads.apply(a_model(owner, node, resources=Resources(limits={"cpu": "2"})))
            await edge.allows("1")
            await edge.gone(pod)
            await until(workloads, owner, told("PodNotCreated"))  # so no Pod tells any more what lies there
        with pytest.raises(Unavailable):
            await workloads.remove(owner.uid, "serve")
        assert [each.name for each in await workloads.observe(owner.uid)] == ["serve"]
        assert owner in await workloads.owners()
        await stack.enter_async_context(tunnel(address, sock=socket.create_server(("127.0.0.1", port))))
        await workloads.remove(owner.uid, "serve")
        assert await workloads.observe(owner.uid) == ()
        (sweep,) = await edge.pods(owner, "sweep")
        assert node_of(sweep) == node


async def test_where_a_quota_has_no_room_for_the_sweeping_pod_it_is_made_once_there_is(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await edge.has_room(1)
    await workloads.apply(a_model(owner, node, replicas=0))
    await edge.gone(pod)
    await until(workloads, owner, lambda seen: seen.up_to_date and seen.replicas == 0)
    assert await edge.pods(owner, "sweep") == []
    await edge.has_room(0)

    async def noted() -> bool:
        return [each["metadata"]["labels"].get(KEPT_OF) for each in await edge.pods(owner, "sweep")] == ["serve"]

    await eventually(noted)
    await workloads.apply(a_model(owner, node))  # the Pod that stood for what is kept makes room
    await edge.has_room(0)
    again = await serves(edge, workloads, a_model(owner, node))
    await edge.has_room(1)
    await workloads.remove(owner.uid, "serve")
    assert await workloads.observe(owner.uid) == ()
    assert await edge.pods(owner, "sweep") == []
    await edge.gone(again)
    await edge.has_room(0)

    async def begun() -> bool:
        return ["schedulingGates" in each["spec"] for each in await edge.pods(owner, "sweep")] == [False]

    await eventually(begun)


async def test_a_pod_that_was_going_when_the_operator_began_leaves_nothing_either(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await workloads.aclose()
    await edge.client.delete(PODS, edge.namespace, "serve", uid=pod["metadata"]["uid"])
    async with KubernetesWorkloads(edge.client, JOBS, SERVING) as later:
        assert owner in await later.owners()
        await later.remove(owner.uid, "serve")
        assert owner not in await later.owners()
        assert len(await edge.pods(owner, "sweep")) == 1


async def test_of_a_node_that_is_gone_for_good_nothing_is_swept(edge: Edge, workloads: KubernetesWorkloads) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await edge.client.delete(NODES, "", node)
    await until(workloads, owner, told("NodeNotFound"))
    await workloads.remove(owner.uid, "serve")

    async def gone() -> bool:
        return await edge.pod("serve") is None

    await eventually(gone)  # no kubelet ends it
    assert await edge.pods(owner, "sweep") == []
    assert pod["metadata"]["name"] == "serve"


async def test_a_model_that_moves_to_another_node_leaves_nothing_on_the_former(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, here, there = await edge.owner(), await edge.node(), await edge.node()
    before = await serves(edge, workloads, a_model(owner, here))
    await workloads.apply(a_model(owner, there))
    (sweep,) = await edge.pods(owner, "sweep")
    assert node_of(sweep) == here
    await edge.gone(before)
    assert node_of(await edge.has_pod("serve", but=before["metadata"]["uid"])) == there
    await edge.sweeps(owner)


# Images as they are -------------------------------------------------------------------------------------------------
