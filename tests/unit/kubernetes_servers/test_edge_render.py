"""The Pods of the edge, as objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes_servers.edge_support import JSON, OWNER, SETTINGS, V1, a_model

from modelwright.adapters.kubernetes.servers import edge_model, gateway_pod, sweep_pods
from modelwright.gateway.config import GatewayConfig
from modelwright.ports.errors import Invalid, NotFound
from modelwright.ports.serving import GATEWAY_ANNOTATION, TASK_ANNOTATION, ServeTask
from modelwright.ports.workloads import Container, Download, Gateway, Kept, ModelImage, Resources, Upstream

replace = msgspec.structs.replace
HERE = ModelImage(image="hub.example/m@sha256:" + "2" * 64, pull_secret="login")
THERE = Download(url="https://files.example/m.tar", sha256sum="3" * 64, secret="files")


def spec_of(server: Any, **settings: Any) -> JSON:
    rendered = edge_model.render(server, "edge-0", replace(SETTINGS, **settings))
    spec: JSON = rendered.body["spec"]
    return spec


def volumes(spec: JSON) -> dict[str, JSON]:
    return {each["name"]: each for each in spec["volumes"]}


def mounts(container: JSON) -> dict[str, JSON]:
    return {each["name"]: each for each in container["volumeMounts"]}


def test_the_agent_keeps_models_in_a_folder_of_the_node_that_the_server_only_reads() -> None:
    spec = spec_of(a_model())
    keeper, server = spec["containers"]
    path = "/var/lib/modelwright/models/vision/uid-1"
    assert volumes(spec)["models"]["hostPath"] == {"path": path, "type": "DirectoryOrCreate"}
    assert "readOnly" not in mounts(keeper)["models"]
    assert mounts(server)["models"]["readOnly"] is True
    assert keeper["command"] == ["modelwright", "agent", "keep"]
    assert (keeper["securityContext"]["runAsUser"], keeper["securityContext"]["capabilities"]) == (0, {"drop": ["ALL"]})
    assert server["securityContext"]["runAsUser"] == 65532
    assert {each["securityContext"]["readOnlyRootFilesystem"] for each in (keeper, server)} == {True}


def test_what_the_agent_is_told_is_an_annotation_and_a_change_of_it_is_no_other_pod() -> None:
    rendered = edge_model.render(a_model(), "edge-0", SETTINGS)
    task = msgspec.json.decode(rendered.body["metadata"]["annotations"][TASK_ANNOTATION], type=ServeTask)
    assert (task.model_name, task.framework, task.default, task.port) == ("resnet", "onnx", "v1", 8501)
    assert (task.layout, task.versions) == ("modelwright", (V1,))
    other = edge_model.render(a_model("onnx", replace(V1, version="v2")), "edge-0", SETTINGS)
    assert other.digest == rendered.digest
    assert other.told != rendered.told
    for changed in (a_model(port=9000), a_model(resources=Resources(limits={"memory": "1Gi"})), a_model("sklearn")):
        assert edge_model.render(changed, "edge-0", SETTINGS).digest != rendered.digest
    assert edge_model.render(a_model(), "edge-1", SETTINGS).digest != rendered.digest
    assert edge_model.render(a_model(), "edge-0", SETTINGS) == rendered


def test_what_keeps_models_has_no_owner_reference_and_what_keeps_none_has() -> None:
    keeps = edge_model.render(a_model(), "edge-0", SETTINGS)
    image = edge_model.render(a_model(program=Container(image="a:1")), "edge-0", SETTINGS)
    assert (keeps.keeps, "ownerReferences" in keeps.body["metadata"]) == (True, False)
    assert (image.keeps, "ownerReferences" in image.body["metadata"]) == (False, True)


def test_secrets_are_mounted_where_the_agent_looks_and_one_that_is_missing_holds_nothing_up() -> None:
    spec = spec_of(a_model("onnx", replace(V1, source=HERE), replace(V1, version="v2", source=THERE)))
    found = volumes(spec)
    assert found["pull-secret"]["secret"] == {"secretName": "login", "optional": True}
    assert found["download-secret"]["secret"] == {"secretName": "files", "optional": True}
    keeper, server = spec["containers"]
    assert mounts(keeper)["pull-secret"]["mountPath"] == "/var/run/modelwright/pull-secret"
    assert not {"pull-secret", "download-secret"} & mounts(server).keys()


def test_tokens_and_certificates_are_the_servers_alone() -> None:
    spec = spec_of(a_model(token_secret="who", tls_secret="cert"))
    keeper, server = spec["containers"]
    arguments = " ".join(server["args"])
    assert "--token-file /var/run/modelwright/token/token --tls-folder /var/run/modelwright/tls" in arguments
    assert server["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert server["livenessProbe"]["tcpSocket"] == {"port": 8501}
    assert {"token", "tls"} <= mounts(server).keys()
    assert not {"token", "tls"} & mounts(keeper).keys()


def test_our_server_listens_at_the_port_and_waits_for_what_it_is_to_serve() -> None:
    _, server = spec_of(a_model(port=9000))["containers"]
    assert server["command"] == ["modelwright", "server"]
    assert "--host :: --port 9000" in " ".join(server["args"])
    assert "--stay" in server["args"]
    assert server["readinessProbe"]["httpGet"]["path"] == "/v2/health/ready"
    assert server["livenessProbe"]["httpGet"] == {"path": "/v2/health/live", "port": 9000, "scheme": "HTTP"}


@pytest.mark.parametrize("wanted", [{"token_secret": "token"}, {"tls_secret": "cert"}])
def test_a_server_that_cannot_ask_for_a_token_or_speak_tls_never_stands_in_for_one_that_can(
    wanted: dict[str, str],
) -> None:
    with pytest.raises(Invalid) as raised:
        edge_model.render(a_model("tensorflow", **wanted), "edge-0", SETTINGS)
    assert raised.value.reason == "SecurityNotSupported"


def test_tensorflow_serving_is_asked_for_whatever_version_it_has() -> None:
    rendered = edge_model.render(a_model("tensorflow"), "edge-0", SETTINGS)
    _, server = rendered.body["spec"]["containers"]
    assert server["readinessProbe"]["httpGet"]["path"] == "/v1/models/resnet/metadata"
    assert "livenessProbe" not in server
    assert "--stay" not in server["args"]
    task = msgspec.json.decode(rendered.told[TASK_ANNOTATION], type=ServeTask)
    assert (task.layout, task.ready_path) == ("tensorflow", "/v1/models/resnet/versions/$(VERSION)/metadata")


def test_an_image_is_taken_as_it_is() -> None:
    spec = spec_of(
        a_model(program=Container(image="mine:1", pull_secret="login"), resources=Resources(limits={"cpu": "1"})),
        image_pull_secrets=("ours",),
    )
    (server,) = spec["containers"]
    assert spec["imagePullSecrets"] == [{"name": "ours"}, {"name": "login"}]
    assert (spec["volumes"], server["image"], server["resources"]) == ([], "mine:1", {"limits": {"cpu": "1"}})
    assert server["readinessProbe"]["tcpSocket"] == {"port": 8501}
    assert "command" not in server


def test_a_framework_that_nobody_serves_is_refused() -> None:
    with pytest.raises(NotFound) as error:
        edge_model.render(a_model("mxnet"), "edge-0", SETTINGS)
    assert error.value.reason == "FrameworkUnavailable"


def test_more_than_an_annotation_holds_is_refused() -> None:
    long = tuple(
        replace(V1, version=f"v{number}", source=replace(THERE, url="https://files.example/" + "a" * 2000))
        for number in range(120)
    )
    with pytest.raises(Invalid) as error:
        edge_model.render(a_model("onnx", *long), "edge-0", SETTINGS)
    assert error.value.reason == "TaskTooLarge"


# Gateways -----------------------------------------------------------------------------------------------------------

GATEWAY = Gateway(
    name="digits",
    edge_url="https://192.0.2.7:8501/v1/models/small",
    cloud_url="http://large.example/v1/models/large",
    parameters={"threshold": 0.8},
    kept=Kept("vision/digits"),
    keep_max_bytes=1000,
    edge=Upstream(token_secret="who", tls_secret="cert"),
)


def gateway(program: Gateway) -> tuple[JSON, GatewayConfig]:
    rendered = gateway_pod.render(a_model(program=program, port=8500), "edge-0", SETTINGS)
    text = rendered.body["metadata"]["annotations"][GATEWAY_ANNOTATION]
    return rendered.body["spec"], msgspec.json.decode(text, type=GatewayConfig)


def test_a_gateway_is_told_all_that_may_change_by_an_annotation() -> None:
    _, config = gateway(GATEWAY)
    assert (config.name, config.edge.url, config.cloud.url) == ("digits", GATEWAY.edge_url, GATEWAY.cloud_url)
    assert (config.policy, config.parameters, config.timeout_seconds) == ("confidence", {"threshold": 0.8}, 2.0)
    assert (config.keep_folder, config.keep_max_bytes) == ("/var/lib/modelwright/kept", 1000)
    assert config.edge.token_file == "/var/run/modelwright/edge-token/token"
    assert config.edge.ca_file == "/var/run/modelwright/edge-tls"
    assert (config.cloud.token_file, config.cloud.ca_file) == ("", "")
    server = a_model(program=GATEWAY, port=8500)
    moved = a_model(program=replace(GATEWAY, cloud_url="http://elsewhere.example/v1/models/large"), port=8500)
    before = gateway_pod.render(server, "edge-0", SETTINGS)
    assert gateway_pod.render(moved, "edge-0", SETTINGS).digest == before.digest


def test_a_gateway_gets_tokens_and_what_to_trust_and_no_key() -> None:
    spec, _ = gateway(GATEWAY)
    found = volumes(spec)
    assert [each["secret"]["items"][0]["key"] for each in found["edge-tls"]["projected"]["sources"]] == [
        "ca.crt",
        "tls.crt",
    ]
    assert [each["secret"]["items"][0]["key"] for each in found["edge-token"]["projected"]["sources"]] == ["token"]
    assert all(each["secret"]["optional"] for each in found["edge-tls"]["projected"]["sources"])
    assert not {"cloud-token", "cloud-tls"} & found.keys()


def test_a_gateway_is_root_only_where_it_keeps_something_on_the_node() -> None:
    spec, _ = gateway(GATEWAY)
    (container,) = spec["containers"]
    assert volumes(spec)["kept"]["hostPath"]["path"] == "/var/lib/modelwright/kept/vision/digits"
    assert (container["securityContext"]["runAsUser"], container["securityContext"]["capabilities"]["drop"]) == (
        0,
        ["ALL"],
    )
    spec, config = gateway(replace(GATEWAY, kept=None, keep_max_bytes=0))
    (container,) = spec["containers"]
    assert "kept" not in volumes(spec)
    assert container["securityContext"]["runAsNonRoot"] is True
    assert config.keep_folder == ""


# Sweeps -------------------------------------------------------------------------------------------------------------


def test_a_sweep_waits_behind_its_gate_and_outlives_the_owner() -> None:
    body = sweep_pods.render(OWNER, "resnet-serve", "edge-0", SETTINGS, kept=False)
    assert body["spec"]["schedulingGates"] == [{"name": sweep_pods.GATE}]
    assert "ownerReferences" not in body["metadata"]
    assert "modelwright.dev/server" not in body["metadata"]["labels"]
    assert volumes(body["spec"])["models"]["hostPath"]["path"] == "/var/lib/modelwright/models/vision"
    (container,) = body["spec"]["containers"]
    assert {"name": "MODELWRIGHT_SWEEP", "value": "uid-1"} in container["env"]
    kept = sweep_pods.render(OWNER, "resnet-serve", "edge-0", SETTINGS, kept=True)
    assert kept["metadata"]["labels"][sweep_pods.KEPT_OF] == "resnet-serve"
    assert body["metadata"]["name"] == kept["metadata"]["name"]
    assert sweep_pods.sweep_name("resnet-serve", "edge-1") != body["metadata"]["name"]
