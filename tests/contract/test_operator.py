"""Operators as processes on a real kube-apiserver: one leads, and who does not lead any more writes nothing more."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.contract.kube_apiserver import KubeApiserver, running_kube_apiserver
from tests.contract.operators import (
    LASTING,
    LEASE,
    QUICK,
    OperatorProcess,
    clear,
    kubeconfig_at,
    lease,
    operator,
    states,
    until,
)
from tests.contract.subjects import fresh_name, install_crds
from tests.contract.tunnel import tunnel

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.lease_record import LEASES
from modelwright.adapters.kubernetes.resource import EVENTS, NAMESPACES, of_kind
from modelwright.api.kinds import MODEL, MODEL_VERSION
from modelwright.ports.errors import NotFound

pytestmark = [pytest.mark.anyio, pytest.mark.apiserver]
VERSIONS, MODELS = of_kind(MODEL_VERSION), of_kind(MODEL)


@pytest.fixture(scope="module")
def server(kube_apiserver: KubeApiserver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiserver]:
    """One of our own: an operator looks after all namespaces."""
    programs = kube_apiserver.kubectl.parent
    with running_kube_apiserver(programs, tmp_path_factory.mktemp("operator")) as server:
        yield server


@pytest.fixture
async def client(server: KubeApiserver) -> AsyncIterator[KubernetesClient]:
    """An admin's, on a cluster with our CRDs, no object of ours and no lease."""
    async with KubernetesClient(load_kubeconfig([server.kubeconfig])) as client:
        await install_crds(client)
        await clear(client)
        yield client


@pytest.fixture
async def namespace(client: KubernetesClient) -> str:
    name = fresh_name("operator")
    await client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def version(name: str) -> JSON:
    """A ModelVersion that stalls, since there is no registry: all that happens to it is the operator's own writing."""
    spec = {
        "modelName": f"of-{name}",
        "imageRepo": "hub/x",
        "storage": {"nfs": {"server": "nfs.example", "path": "/m"}},
    }
    return {"apiVersion": VERSIONS.api_version, "kind": "ModelVersion", "metadata": {"name": name}, "spec": spec}


async def settled(client: KubernetesClient, namespace: str, name: str) -> bool:
    """Whether the operator has said what it had to, of the version and of the Model that it has made for it."""
    found = await client.get(VERSIONS, namespace, name)
    conditions = {each["type"]: each for each in found.get("status", {}).get("conditions", [])}
    try:
        model = await client.get(MODELS, namespace, f"of-{name}")
    except NotFound:
        return False
    return "Stalled" in conditions and "ownerReferences" in found["metadata"] and model.get("status") is not None


async def one_leads(*replicas: OperatorProcess) -> tuple[OperatorProcess, OperatorProcess]:
    """Two replicas, once one leads and the other stands by: the leader first."""
    await until(lambda: sorted((each.leads, each.stands_by) for each in replicas) == [(False, True), (True, False)])
    first, second = sorted(replicas, key=lambda each: each.stands_by)
    return first, second


async def test_one_of_two_replicas_leads_and_works_and_the_other_stands_by(
    server: KubeApiserver, client: KubernetesClient, namespace: str, tmp_path: Path
) -> None:
    with (
        operator(server.kubeconfig, tmp_path, *LASTING, name="a") as a,
        operator(server.kubeconfig, tmp_path, *LASTING, name="b") as b,
    ):
        leader, other = await one_leads(a, b)
        await client.create(VERSIONS, namespace, version("v1"))
        await until(lambda: settled(client, namespace, "v1"))
        gauge = f'leader_election_master_status{{name="{LEASE}"}}'
        assert f"{gauge} 1.0" in leader.page("/metrics").body
        assert f"{gauge} 0.0" in other.page("/metrics").body
        assert 'controller_runtime_reconcile_total{controller="ModelVersion"' in leader.page("/metrics").body
        assert 'controller_runtime_reconcile_total{controller="ModelVersion"' not in other.page("/metrics").body
        assert 'rest_client_requests_total{code="201",method="POST"}' in leader.page("/metrics").body
        holder = (await lease(client) or {})["holderIdentity"]
        assert other.page("/readyz").body == f"standing by: {holder} leads\n"
        assert leader.page("/healthz").status == other.page("/healthz").status == 200


async def test_a_leader_that_is_asked_to_end_gives_the_lease_to_the_other(
    server: KubeApiserver, client: KubernetesClient, namespace: str, tmp_path: Path
) -> None:
    with (
        operator(server.kubeconfig, tmp_path, *LASTING, name="a") as a,
        operator(server.kubeconfig, tmp_path, *LASTING, name="b") as b,
    ):
        leader, other = await one_leads(a, b)
        leader.send(signal.SIGTERM)
        leader.send(signal.SIGTERM)  # as who sends it to the process and to its group
        assert await leader.ended() == 0
        assert f"released the lease default/{LEASE}" in leader.log
        await until(lambda: other.leads)
        await client.create(VERSIONS, namespace, version("v1"))
        await until(lambda: settled(client, namespace, "v1"))
        other.send(signal.SIGINT)
        assert await other.ended() == 0
    assert (await lease(client) or {})["holderIdentity"] == ""


async def test_a_leader_that_was_killed_is_replaced_when_its_lease_has_run_out(
    server: KubeApiserver, client: KubernetesClient, namespace: str, tmp_path: Path
) -> None:
    with (
        operator(server.kubeconfig, tmp_path, *QUICK, name="a") as a,
        operator(server.kubeconfig, tmp_path, *QUICK, name="b") as b,
    ):
        leader, other = await one_leads(a, b)
        await client.create(VERSIONS, namespace, version("v1"))
        leader.send(signal.SIGKILL)
        await until(lambda: other.leads)
        await until(lambda: settled(client, namespace, "v1"))
    assert (await lease(client) or {})["leaseTransitions"] == 1


@pytest.mark.parametrize("taken", [True, False], ids=["taken-over", "only-run-out"])
async def test_a_leader_that_was_frozen_past_its_lease_writes_nothing_more_and_ends(
    server: KubeApiserver, client: KubernetesClient, namespace: str, tmp_path: Path, taken: bool
) -> None:
    """Nobody else writes here: whatever changes after it was woken would be its own doing."""
    with operator(server.kubeconfig, tmp_path, *QUICK) as leader:
        await until(lambda: leader.leads)
        await client.create(VERSIONS, namespace, version("before"))
        await until(lambda: settled(client, namespace, "before"))
        leader.send(signal.SIGSTOP)
        for number in range(20):  # all of this waits in its watches when it wakes
            await client.create(VERSIONS, namespace, version(f"v{number}"))
        if taken:
            await client.merge_patch(LEASES, "default", LEASE, {"spec": {"holderIdentity": "another"}})
        await asyncio.sleep(5)  # its renew deadline, and more
        before = await states(client, VERSIONS, MODELS, EVENTS)
        leader.send(signal.SIGCONT)
        assert await leader.ended() == 1
        assert "LeadershipLost" in leader.log
        assert await states(client, VERSIONS, MODELS, EVENTS) == before
        holder = (await lease(client) or {})["holderIdentity"]
        assert holder == ("another" if taken else ""), "what nobody has taken over is given back"


async def test_a_frozen_leader_is_replaced_and_the_new_one_goes_on_when_it_wakes(
    server: KubeApiserver, client: KubernetesClient, namespace: str, tmp_path: Path
) -> None:
    with (
        operator(server.kubeconfig, tmp_path, *QUICK, name="a") as a,
        operator(server.kubeconfig, tmp_path, *QUICK, name="b") as b,
    ):
        leader, other = await one_leads(a, b)
        leader.send(signal.SIGSTOP)
        await client.create(VERSIONS, namespace, version("v1"))
        await until(lambda: other.leads)
        await until(lambda: settled(client, namespace, "v1"))
        leader.send(signal.SIGCONT)
        assert await leader.ended() == 1
        assert other.leads
        events = [each for each in await client.list(EVENTS) if each["involvedObject"]["name"] == "v1"]
        assert all(each["count"] == 1 for each in events), "no event was told twice"


async def test_a_restart_writes_nothing_where_nothing_has_changed(
    server: KubeApiserver, client: KubernetesClient, namespace: str, tmp_path: Path
) -> None:
    with operator(server.kubeconfig, tmp_path, *LASTING, name="first") as first:
        await until(lambda: first.leads)
        for number in range(10):
            await client.create(VERSIONS, namespace, version(f"v{number}"))
        for number in range(10):
            await until(lambda number=number: settled(client, namespace, f"v{number}"))
        first.send(signal.SIGTERM)
        assert await first.ended() == 0
    before = await states(client, VERSIONS, MODELS, EVENTS)
    with operator(server.kubeconfig, tmp_path, *LASTING, name="second") as second:
        await until(lambda: second.said("caught up"))
        reconciled = 'controller_runtime_reconcile_total{controller="ModelVersion",result="success"}'
        await until(lambda: value(second.page("/metrics").body, reconciled) > 30)  # it has resynced more than once
        assert await states(client, VERSIONS, MODELS, EVENTS) == before


def value(metrics: str, name: str) -> float:
    """The value of one metric; 0 where it is not there yet."""
    found = [line for line in metrics.splitlines() if line.startswith(f"{name} ")]
    return float(found[0].rpartition(" ")[2]) if found else 0.0


async def test_an_operator_without_an_election_needs_no_lease(
    server: KubeApiserver, client: KubernetesClient, namespace: str, tmp_path: Path
) -> None:
    with operator(server.kubeconfig, tmp_path, "--no-leader-elect", "--log-format=json") as alone:
        await until(lambda: alone.leads)
        await client.create(VERSIONS, namespace, version("v1"))
        await until(lambda: settled(client, namespace, "v1"))
        alone.send(signal.SIGTERM)
        assert await alone.ended() == 0
        lines = [json.loads(line) for line in alone.log.splitlines()]
    assert await lease(client) is None
    assert lines[-1]["message"] == "stopping"
    assert {"time", "level", "logger", "message"} <= set(lines[0])


async def test_an_operator_waits_for_an_api_server_that_is_not_there_yet(
    server: KubeApiserver, client: KubernetesClient, tmp_path: Path
) -> None:
    address = load_kubeconfig([server.kubeconfig]).server.rpartition("/")[2]
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen: connections are refused
        port = taken.getsockname()[1]
        there = kubeconfig_at(server.kubeconfig, f"https://127.0.0.1:{port}", tmp_path / "kubeconfig")
        with operator(there, tmp_path, *LASTING) as waiting:
            await until(lambda: waiting.said("the CRDs cannot be read"))
            page = waiting.page("/readyz")
            assert (page.status, f"https://127.0.0.1:{port}" in page.body) == (503, True)
            assert waiting.page("/healthz").status == 200, "a restart would not help"
            async with tunnel(address, sock=taken):
                await until(lambda: waiting.leads)
                waiting.send(signal.SIGTERM)
                assert await waiting.ended() == 0


async def test_an_operator_whose_api_server_never_answers_still_ends_when_it_is_asked_to(
    server: KubeApiserver, tmp_path: Path
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        there = kubeconfig_at(server.kubeconfig, url, tmp_path / "kubeconfig")
        with operator(there, tmp_path) as waiting:
            await until(lambda: waiting.said("cluster https://"))
            waiting.send(signal.SIGTERM)
            assert await waiting.ended() == 0


async def test_a_leader_that_loses_its_api_server_stops_and_says_so(
    server: KubeApiserver, client: KubernetesClient, tmp_path: Path
) -> None:
    address = load_kubeconfig([server.kubeconfig]).server.rpartition("/")[2]
    with ExitStack() as stack:
        async with tunnel(address) as port:
            there = kubeconfig_at(server.kubeconfig, f"https://127.0.0.1:{port}", tmp_path / "kubeconfig")
            leader = stack.enter_context(operator(there, tmp_path, *QUICK))
            await until(lambda: leader.leads)
        assert await leader.ended() == 1
        assert "could not be renewed" in leader.log
