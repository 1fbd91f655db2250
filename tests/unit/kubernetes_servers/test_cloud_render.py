"""What a Server in the cloud is as objects, and what of it counts as another."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes_servers.cloud_support import (
    IMAGE,
    JSON,
    SETTINGS,
    a_server,
    model_server,
    rendered,
    stored,
    stored_service,
)

from modelwright.adapters.kubernetes.servers import cloud_objects as render
from modelwright.adapters.kubernetes.servers.cloud_sources import candidates
from modelwright.adapters.kubernetes.servers.node_mirror import Node
from modelwright.ports.errors import Invalid, NotFound
from modelwright.ports.serving import IMAGES_FOLDER, MODELS_FOLDER, RUN_FOLDER, TASK_VARIABLE, ServeTask
from modelwright.ports.workloads import (
    Container,
    Download,
    Exposure,
    ModelImage,
    Placement,
    Resources,
    ServedVersion,
    Server,
)

replace = msgspec.structs.replace
LABELS = {"disk": "ssd"}
NODES = (
    Node(name="cloud-0", ready="True", labels=LABELS),
    Node(name="cloud-1", ready="Unknown", labels=LABELS),
    Node(name="cloud-2", ready="True", repels=True, labels=LABELS),
    Node(name="edge-1", ready="True", labels={**LABELS, "node-role.kubernetes.io/edge": ""}),
)


def pod(server: Server, **more: Any) -> JSON:
    spec: JSON = rendered(server, **more)["spec"]["template"]["spec"]
    return spec


def server_of(spec: JSON) -> JSON:
    (container,) = spec["containers"]
    assert container["name"] == "server"
    return dict(container)


def task_of(spec: JSON) -> ServeTask:
    (fetch,) = spec["initContainers"]
    (value,) = [each["value"] for each in fetch["env"] if each["name"] == TASK_VARIABLE]
    return msgspec.json.decode(value.replace("$$", "$"), type=ServeTask)


def mounts(container: JSON) -> dict[str, JSON]:
    return {each["mountPath"]: each for each in container["volumeMounts"]}


# Deployment ---------------------------------------------------------------------------------------------------------


def test_a_new_pod_is_ready_before_an_old_one_goes() -> None:
    spec = rendered(a_server(replicas=3))["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert (spec["replicas"], spec["progressDeadlineSeconds"], spec["paused"]) == (3, 600, False)
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_a_pod_closes_before_it_drains_and_has_time_for_both() -> None:
    spec = pod(a_server())
    container = server_of(spec)
    closing = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = int(container["args"][container["args"].index("--drain-seconds") + 1])
    assert closing > 0
    assert spec["terminationGracePeriodSeconds"] > closing + drain


def test_a_pod_of_ours_passes_restricted() -> None:
    spec = pod(a_server(model_server(IMAGE), token_secret="t", tls_secret="c"), mounted=True)
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not spec["automountServiceAccountToken"]
    assert not spec["enableServiceLinks"]
    for container in (*spec["initContainers"], *spec["containers"]):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
    assert {*spec} & {"hostNetwork", "nodeName"} == set()


def test_the_models_are_written_by_one_container_and_read_by_the_other() -> None:
    spec = pod(a_server())
    assert "readOnly" not in mounts(spec["initContainers"][0])[MODELS_FOLDER]
    assert mounts(server_of(spec))[MODELS_FOLDER]["readOnly"]
    assert RUN_FOLDER in mounts(server_of(spec))


def test_what_is_to_be_served_reaches_the_agent_whatever_characters_it_has() -> None:
    program = model_server(Download("https://files.example.com/$(HOME)/$$m?a=$1", "5" * 64, "secret"))
    server = a_server(program)
    task = task_of(pod(server))
    assert task.versions == program.versions
    assert (task.default, task.port, task.framework, task.mounted) == ("v1", 8501, "onnx", {})
    assert task.plain_http == ("lab.example.com:5000",)


def test_a_model_in_an_image_is_mounted_where_that_works() -> None:
    program = model_server(ModelImage(IMAGE.image, "pull"))
    spec = pod(a_server(program), mounted=True)
    volume = {"name": "model-7", "image": {"reference": IMAGE.image, "pullPolicy": "IfNotPresent"}}
    assert volume in spec["volumes"]
    for container in (*spec["initContainers"], *spec["containers"]):
        mount = mounts(container)[f"{IMAGES_FOLDER}/7"]
        assert (mount["subPath"], mount["readOnly"]) == ("kubedl-model", True)
    assert task_of(spec).mounted == {"v1": f"{IMAGES_FOLDER}/7"}
    assert spec["imagePullSecrets"] == [{"name": "pull"}]


def test_a_model_in_an_image_is_fetched_elsewhere() -> None:
    spec = pod(a_server(model_server(ModelImage(IMAGE.image, "pull"))))
    assert [volume["name"] for volume in spec["volumes"]] == ["models", "run", "tmp", "pull-secret"]
    assert task_of(spec).mounted == {}
    assert "imagePullSecrets" not in spec


def test_a_download_beside_a_mounted_image_is_fetched() -> None:
    program = replace(
        model_server(IMAGE), versions=(ServedVersion("v1", 7, IMAGE), ServedVersion("v2", 8, Download("https://a/b")))
    )
    assert task_of(pod(a_server(program), mounted=True)).mounted == {"v1": f"{IMAGES_FOLDER}/7"}


def test_secrets_are_mounted_where_they_are_used() -> None:
    program = model_server(Download("https://files.example.com/m.tar", "5" * 64, "login"))
    spec = pod(a_server(program, token_secret="token", tls_secret="cert"))
    secrets = {volume["name"]: volume["secret"] for volume in spec["volumes"] if "secret" in volume}
    assert {name: each["secretName"] for name, each in secrets.items()} == {
        "download-secret": "login",
        "token": "token",
        "tls": "cert",
    }
    # The agent says what it lacks. A server without its token or certificate has nothing to begin with.
    assert [name for name, each in secrets.items() if each.get("optional")] == ["download-secret"]
    assert [each["key"] for name in ("token", "tls") for each in secrets[name]["items"]] == [
        "token",
        "tls.crt",
        "tls.key",
    ]
    agent, server = mounts(spec["initContainers"][0]), mounts(server_of(spec))
    assert "/var/run/modelwright/download-secret" in agent
    assert "/var/run/modelwright/download-secret" not in server
    assert {"/var/run/modelwright/token", "/var/run/modelwright/tls"} <= server.keys()


def test_tokens_and_tls_are_asked_for_by_the_server_and_heeded_by_its_probes() -> None:
    container = server_of(pod(a_server(token_secret="token", tls_secret="cert")))
    assert "--token-file" in container["args"]
    assert "--tls-folder" in container["args"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    assert server_of(pod(a_server()))["readinessProbe"]["httpGet"] == {
        "path": "/v2/health/ready",
        "port": "serving",
        "scheme": "HTTP",
    }


@pytest.mark.parametrize("wanted", [{"token_secret": "token"}, {"tls_secret": "cert"}])
def test_a_server_that_cannot_ask_for_a_token_or_speak_tls_is_none_of_who_wants_that(wanted: dict[str, str]) -> None:
    with pytest.raises(Invalid) as raised:
        pod(a_server(model_server(framework="tensorflow"), **wanted))
    assert raised.value.reason == "SecurityNotSupported"


def test_tensorflow_serving_is_ready_once_the_version_is_there() -> None:
    container = server_of(pod(a_server(model_server(framework="tensorflow"))))
    assert container["readinessProbe"]["httpGet"]["path"] == "/v1/models/resnet/versions/7/metadata"
    assert container["livenessProbe"]["tcpSocket"] == {"port": "serving"}
    assert "--rest_api_port=8501" in container["args"]
    assert "--drain-seconds" not in container["args"]


def test_an_unknown_framework_is_refused_with_what_there_is() -> None:
    with pytest.raises(NotFound, match="onnx") as refused:
        rendered(a_server(model_server(framework="caffe")))
    assert refused.value.reason == "FrameworkUnavailable"


def test_an_image_runs_as_it_is_without_an_agent() -> None:
    spec = pod(a_server(Container(image="hub.example.com/mine:1", pull_secret="pull")))
    container = server_of(spec)
    assert "initContainers" not in spec
    assert container["image"] == "hub.example.com/mine:1"
    assert {"command", "args"} & container.keys() == set()
    assert container["ports"] == [{"name": "serving", "containerPort": 8501}]
    assert container["readinessProbe"]["tcpSocket"] == {"port": "serving"}
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert spec["securityContext"]["runAsNonRoot"]
    assert "runAsUser" not in spec["securityContext"]


def test_a_node_is_named_to_the_scheduler() -> None:
    spec = pod(a_server(placement=Placement(node_name="gpu-1", node_selector={"disk": "ssd"})))
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert "nodeName" not in spec


EDGE = "node-role.kubernetes.io/edge"


@pytest.mark.parametrize(
    ("placement", "kept_away"),
    [
        (Placement(), True),
        (Placement(node_selector={"disk": "ssd"}), True),
        (Placement(node_selector={EDGE: ""}), False),
        (Placement(node_name="edge-1"), False),
    ],
)
def test_it_stays_away_from_nodes_of_the_edge_unless_it_is_asked_there(placement: Placement, kept_away: bool) -> None:
    spec = pod(a_server(placement=placement))
    away = {"matchExpressions": [{"key": EDGE, "operator": "DoesNotExist"}]}
    node = spec.get("affinity", {}).get("nodeAffinity", {})
    terms = node.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    assert (away in terms) == kept_away
    names = {each.name for each in candidates(placement, NODES)}
    assert ("edge-1" in names) == (not kept_away)


def test_a_node_that_repels_or_does_not_answer_is_not_in_question() -> None:
    assert [each.name for each in candidates(Placement(), NODES)] == ["cloud-0"]


def test_resources_are_those_of_the_server_alone() -> None:
    spec = pod(a_server(resources=Resources({"cpu": "2"}, {"memory": "8Gi"})))
    assert server_of(spec)["resources"] == {"requests": {"cpu": "2"}, "limits": {"memory": "8Gi"}}
    assert spec["initContainers"][0]["resources"]["limits"]["memory"] != "8Gi"


# Service ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exposure", "spec", "annotations"),
    [
        (Exposure(), {"type": "LoadBalancer"}, {}),
        (None, {"type": "ClusterIP"}, {}),
        (Exposure(type="NodePort", load_balancer_source_ranges=("10.0.0.0/8",)), {"type": "NodePort"}, {}),
        (
            Exposure(
                annotations={"a.example.com/internal": "true"},
                load_balancer_class="example.com/lb",
                load_balancer_source_ranges=("10.0.0.0/8",),
            ),
            {
                "type": "LoadBalancer",
                "loadBalancerClass": "example.com/lb",
                "loadBalancerSourceRanges": ["10.0.0.0/8"],
            },
            {"a.example.com/internal": "true"},
        ),
    ],
)
def test_a_service_is_what_the_exposure_says(
    exposure: Exposure | None, spec: JSON, annotations: dict[str, str]
) -> None:
    body = render.service(a_server(exposure=exposure), "resnet")
    shown = {key: value for key, value in body["spec"].items() if key not in ("selector", "ports")}
    assert shown == spec
    assert annotations.items() <= body["metadata"]["annotations"].items()
    assert body["spec"]["ports"] == [{"name": "serving", "protocol": "TCP", "port": 8501, "targetPort": "serving"}]


@pytest.mark.parametrize(
    ("name", "may"), [("resnet", True), ("r" * 63, True), ("r" * 64, False), ("a.b", False), ("1a", False)]
)
def test_a_service_is_named_like_its_owner_where_dns_allows_it(name: str, may: bool) -> None:
    assert render.may_name_service(name) == may


def test_a_budget_leaves_all_but_one() -> None:
    spec = render.budget(a_server(replicas=2))["spec"]
    assert spec["maxUnavailable"] == 1
    assert spec["selector"]["matchLabels"]["modelwright.dev/server"] == "resnet-serve-1"


# What differs -------------------------------------------------------------------------------------------------------


def test_the_same_server_is_the_same_deployment() -> None:
    there = stored(rendered(a_server()))
    assert not render.deployment_differs(there, rendered(a_server()))


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": 2},
        {"port": 9000},
        {"program": model_server(version="v2")},
        {"resources": Resources({"cpu": "2"})},
        {"token_secret": "t"},
        {"placement": Placement(node_selector={"a": "b"})},
    ],
)
def test_another_server_is_another_deployment(change: dict[str, Any]) -> None:
    there = stored(rendered(a_server()))
    assert render.deployment_differs(there, rendered(replace(a_server(), **change)))


def test_replicas_alone_make_no_other_pod() -> None:
    there = stored(rendered(a_server()))
    assert render.same_template(there, rendered(a_server(replicas=5)))
    assert not render.same_template(there, rendered(a_server(port=9000)))


def edited(change: dict[str, Any]) -> JSON:
    body = rendered(a_server())
    spec = {**body["spec"], **change.get("spec", {})}
    container = {**spec["template"]["spec"]["containers"][0], **change.get("container", {})}
    pod_spec = {**spec["template"]["spec"], "containers": [container, *change.get("more", [])]}
    return {**body, "spec": {**spec, "template": {**spec["template"], "spec": pod_spec}}}


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"spec": {"replicas": 9}}, True),
        ({"spec": {"paused": True}}, True),
        ({"container": {"image": "busybox"}}, True),
        ({"container": {"args": []}}, True),
        ({"more": [{"name": "sidecar", "image": "busybox"}]}, False),
    ],
)
def test_what_others_have_edited_counts_where_it_is_ours(change: dict[str, Any], differs: bool) -> None:
    assert render.deployment_differs(stored(edited(change)), rendered(a_server())) == differs


def test_a_service_is_made_anew_only_for_another_class_of_load_balancer() -> None:
    one = render.service(a_server(exposure=Exposure(load_balancer_class="a/b")), "resnet")
    two = render.service(a_server(exposure=Exposure(load_balancer_class="a/c")), "resnet")
    plain = render.service(a_server(exposure=Exposure(type="NodePort")), "resnet")
    assert render.must_be_made_anew(stored_service(one), two)
    assert not render.must_be_made_anew(stored_service(one), one)
    assert not render.must_be_made_anew(stored_service(one), plain)
    named_by_others = {**render.service(a_server(), "resnet")}
    named_by_others["spec"] = {**named_by_others["spec"], "loadBalancerClass": "cloud/own"}
    assert not render.must_be_made_anew(stored_service(named_by_others), render.service(a_server(), "resnet"))
    narrower = a_server(exposure=Exposure(load_balancer_source_ranges=("10.0.0.0/8",)))
    assert not render.must_be_made_anew(stored_service(named_by_others), render.service(narrower, "resnet"))
    assert render.must_be_made_anew(stored_service(one), render.service(a_server(), "resnet"))
    assert not render.service_differs(stored_service(plain, node_port=30001), plain)
    assert render.service_differs(stored_service(plain), render.service(a_server(), "resnet"))


def test_an_annotation_of_a_service_may_have_any_name_and_takes_none_of_ours() -> None:
    given = {"name": "a", "server": "b", "component": "c", "modelwright.dev/owner-name": "other"}
    metadata = render.service(a_server(exposure=Exposure(annotations=given)), "resnet")["metadata"]
    assert (metadata["name"], metadata["labels"]["app.kubernetes.io/component"]) == ("resnet", "serve")
    assert {**given, "modelwright.dev/owner-name": "resnet"}.items() <= metadata["annotations"].items()


@pytest.mark.parametrize(
    ("name", "service"),
    [
        ("resnet-serve-1", "resnet-serve-1"),
        ("7b-serve-1", "s-7b-serve-1"),
        ("7" * 46 + "-serve-0123456789", "s-" + "7" * 44 + "-serve-0123456789"),
    ],
)
def test_a_service_has_a_name_that_begins_with_a_letter(name: str, service: str) -> None:
    server = msgspec.structs.replace(a_server(), name=name)
    assert render.own_service_name(server) == service
    assert render.may_name_service(service)


def test_settings_without_image_volumes_are_told_apart_by_the_template() -> None:
    server = a_server(model_server(IMAGE))
    there = stored(rendered(server, mounted=True))
    assert render.same_template(there, rendered(server, mounted=True))
    assert not render.same_template(there, rendered(server))
    assert there.metadata.annotations.image_volumes == "true"
    assert SETTINGS.image_volumes
