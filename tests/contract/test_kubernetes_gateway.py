"""Gateways on a real kube-apiserver: scheduler and kubelet are the test's own hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.contract.edge_parts import Edge, node_of, until

from modelwright.adapters.kubernetes.servers.keeper_lines import digest
from modelwright.adapters.kubernetes.workloads import KubernetesWorkloads
from modelwright.gateway.config import GatewayConfig, parse
from modelwright.gateway.state import GatewayState, ModelState
from modelwright.ports.serving import GATEWAY_ANNOTATION
from modelwright.ports.workloads import (
    AskedModel,
    Failure,
    Gateway,
    Kept,
    Owner,
    Placement,
    Server,
    ServerStatus,
    Upstream,
)

pytestmark = [pytest.mark.anyio, pytest.mark.apiserver]
EDGE, CLOUD = "http://192.0.2.7:8501/v1/models/small", "https://large.example:8501/v1/models/large"


def a_gateway(owner: Owner, node: str, *, layer: str = "edge", **program: Any) -> Server:
    given = {"name": "digits", "edge_url": EDGE, "cloud_url": CLOUD, **program}
    return Server(name="joins", owner=owner, program=Gateway(**given), port=8500, placement=Placement(layer, node))


def told(reason: str) -> Callable[[ServerStatus], bool]:
    return lambda status: status.failure is not None and status.failure.reason == reason


async def config_of(edge: Edge) -> tuple[GatewayConfig, str]:
    """What its Pod is told, read as the gateway reads it; and the digest that it calls that by."""
    text = (await edge.has_pod("joins"))["metadata"]["annotations"][GATEWAY_ANNOTATION]
    return parse(text.encode(), "the annotation"), digest(text)


async def test_a_gateway_is_one_pod_that_takes_over_what_changes_while_it_runs(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    await workloads.apply(a_gateway(owner, node))
    pod = await edge.has_pod("joins")
    assert node_of(pod) == node
    assert pod["metadata"]["ownerReferences"][0]["uid"] == owner.uid
    config, name = await config_of(edge)
    assert (config.name, config.edge.url, config.cloud.url) == ("digits", EDGE, CLOUD)
    failing = ModelState(state="failing", reason="NotReady", message="503")
    state = GatewayState(pid=7, phase="ready", config_digest=name, edge=ModelState(state="ready"), cloud=failing)
    edge.logs.put("joins", "gateway", b"ready\n" + msgspec.json.encode(state) + b"\n")
    await edge.runs(pod)
    status = await until(workloads, owner, lambda seen: seen.up_to_date, "joins")
    assert (status.host, status.port, status.node_name, status.serving_version) == ("127.0.0.1", 8500, node, "")
    failure = Failure(reason="NotReady", message="503", retryable=True)
    assert status.asked == (AskedModel(side="edge"), AskedModel(side="cloud", failure=failure))

    await workloads.apply(a_gateway(owner, node, timeout_seconds=0.5))
    await until(workloads, owner, lambda seen: not seen.up_to_date, "joins")
    config, name = await config_of(edge)
    assert config.timeout_seconds == 0.5
    assert (await edge.has_pod("joins"))["metadata"]["uid"] == pod["metadata"]["uid"]
    edge.logs.put("joins", "gateway", msgspec.json.encode(msgspec.structs.replace(state, config_digest=name)) + b"\n")
    await until(workloads, owner, lambda seen: seen.up_to_date, "joins")


async def test_what_it_keeps_is_a_folder_of_the_node_that_outlives_it(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    await workloads.apply(a_gateway(owner, node, kept=Kept(f"{edge.namespace}/digits"), keep_max_bytes=1000))
    pod = await edge.has_pod("joins")
    config, name = await config_of(edge)
    (container,) = pod["spec"]["containers"]
    assert config.keep_folder in [each["mountPath"] for each in container["volumeMounts"]]
    state = GatewayState(pid=7, phase="ready", config_digest=name, kept_bytes=12)
    edge.logs.put("joins", "gateway", msgspec.json.encode(state) + b"\n")
    await edge.runs(pod)
    status = await until(workloads, owner, lambda seen: seen.up_to_date, "joins")
    assert (status.kept_path, status.kept_bytes) == (f"/var/lib/modelwright/kept/{edge.namespace}/digits", 12)
    await workloads.remove(owner.uid, "joins")
    assert await workloads.observe(owner.uid) == ()
    assert await edge.pods(owner, "sweep") == []


async def test_what_the_models_ask_for_is_mounted_and_named(edge: Edge, workloads: KubernetesWorkloads) -> None:
    owner, node = await edge.owner(), await edge.node()
    await workloads.apply(a_gateway(owner, node, cloud=Upstream(token_secret="who", tls_secret="cert")))
    pod = await edge.has_pod("joins")
    config, _ = await config_of(edge)
    (container,) = pod["spec"]["containers"]
    places = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert config.cloud.token_file == f"{places['cloud-token']}/token"
    assert config.cloud.ca_file == places["cloud-tls"]
    (trusted,) = [each for each in pod["spec"]["volumes"] if each["name"] == "cloud-tls"]
    keys = [item["key"] for each in trusted["projected"]["sources"] for item in each["secret"]["items"]]
    assert "tls.key" not in keys


async def test_in_the_cloud_it_is_the_same_pod_on_a_node_there(edge: Edge, workloads: KubernetesWorkloads) -> None:
    owner, node = await edge.owner(), await edge.node()
    await workloads.apply(a_gateway(owner, node, layer="cloud"))
    assert node_of(await edge.has_pod("joins")) == node
    status = await until(workloads, owner, lambda seen: seen.replicas == 1, "joins")
    assert status.port == 8500


async def test_a_gateway_and_a_model_cannot_have_one_port_of_a_node(edge: Edge, workloads: KubernetesWorkloads) -> None:
    first, second, node = await edge.owner("first"), await edge.owner("second"), await edge.node()
    await workloads.apply(a_gateway(first, node))
    await edge.has_pod("joins")
    await workloads.apply(msgspec.structs.replace(a_gateway(second, node), name="other"))
    await until(workloads, second, told("PortTaken"), "other")
    await workloads.remove(first.uid, "joins")
    await edge.has_pod("other")
