"""The Helm chart and deploy/install.yaml, as helm renders them and a real API server takes them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.contract.kube_apiserver import KubeApiserver
from typer.main import get_command

from modelwright import __version__
from modelwright.adapters.kubernetes.lease_record import LeaseTimes
from modelwright.adapters.kubernetes.servers.catalogue_builtin import builtin
from modelwright.adapters.kubernetes.servers.catalogue_files import FolderCatalogue
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads.settings import JobSettings
from modelwright.api.kinds import KINDS
from modelwright.main import make_app
from modelwright.operator.serving import GATEWAY_IMAGE, RUNTIMES
from modelwright.operator.spelling import seconds
from modelwright.ports.errors import Invalid

CHECKOUT = Path(__file__).parents[2]
CHART = CHECKOUT / "deploy/chart/modelwright"
EVERYTHING: dict[str, Any] = {
    "affinity": {"nodeAffinity": {}},
    "build": {"imagePullSecrets": ["a", "b"], "kanikoImage": "example/kaniko:1", "resources": {"limits": {"cpu": 2}}},
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "image": {"repository": "registry.example:5000/modelwright/operator", "digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": ["pull"],
    "networkPolicy": {
        "apiServerCIDRs": ["10.0.0.1/32"],
        "buildNamespaces": ["default"],
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
    },
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "podAnnotations": {"a": "b"},
    "podLabels": {"c": "d"},
    "priorityClassName": "system-cluster-critical",
    "rbac": {"ownerReferencesPermissionEnforcement": True},
    "registry": {"default": "registry.example:5000/models", "plainHTTP": ["registry.example:5000", "other"]},
    "clusterDomain": "cluster.example",
    "serving": {
        "agentResources": {"requests": {"memory": "96Mi"}, "limits": {"cpu": 2, "memory": "1Gi"}},
        "gatewayResources": {"requests": None, "limits": {"memory": None, "cpu": "500m"}},
        "edgeFolder": "/data/modelwright",
        "imagePullSecrets": ["a"],
        "imageVolumes": False,
        "images": {"onnx": "registry.example:5000/mine/onnx:1", "tensorflow": f"tf@sha256:{'1' * 64}"},
        "progressDeadlineSeconds": 90,
        "runtimes": {
            "XGBoost-2": {
                "image": "registry.example:5000/xgboost:2",
                "args": ["--port=$(PORT)", "--model=$(MODEL_DIR)"],
                "env": {"THREADS": "1"},
                "readyPath": "/v1/models/$(MODEL_NAME)",
                "resources": {"limits": {"memory": "1Gi", "cpu": 2}},
            },
            "torch": {"image": "mine:1", "layout": "modelwright"},
        },
        "tensorflow": "modelwright",
    },
    "serviceAccount": {"annotations": {"e": "f"}},
    "storage": {"allowHostPaths": ["/data", "/models"], "allowNFSServers": ["nfs.example"]},
    "tolerations": [{"operator": "Exists"}],
}
NO_SERVING: dict[str, Any] = {"serving": {"enabled": False}}
FOR_SERVERS = {"deployments", "services", "poddisruptionbudgets"}
WRONG: list[dict[str, Any]] = [
    {"imagee": {}},
    {"image": {"tag": "a b"}},
    {"image": {"digest": "sha256:1"}},
    {"replicas": "two"},
    {"replicas": -1},
    {"registry": {"plainHttp": []}},
    {"registry": {"default": "https://registry.example"}},
    {"registry": {"plainHTTP": "registry.example"}},
    {"build": {"runAsUser": 0}},
    {"build": {"resources": {"limits": {"memory": "much"}}}},
    {"storage": {"allowHostPaths": ["data"]}},
    {"storage": {"createVolumes": "no"}},
    {"log": {"format": "xml"}},
    {"lease": {"duration": 15}},
    {"resync": "0s"},
    {"podLabels": {"app.kubernetes.io/name": "another"}},
    {"networkPolicy": {"apiServerPorts": [0]}},
    {"clusterDomain": "cluster_local"},
    {"serving": {"edgeFolder": "models"}},
    {"serving": {"edgeFolder": "/models"}},
    {"serving": {"agentResources": {"limits": {"memory": "much"}}}},
    {"serving": {"gatewayResources": {"limit": {"memory": "1Gi"}}}},
    {"serving": {"images": {"torch": "a:1"}}},
    {"serving": {"images": {"onnx": "http://registry/a:1"}}},
    {"serving": {"tensorflow": "torchserve"}},
    {"serving": {"progressDeadlineSeconds": "10m"}},
    {"serving": {"runtimes": {"mine": {"args": []}}}},
    {"serving": {"runtimes": {"mine": {"image": "a:1", "readypath": "/"}}}},
    {"serving": {"runtimes": {"mine": {"image": "a:1", "env": {"A": 1}}}}},
    {"serving": {"runtimes": {"of mine": {"image": "a:1"}}}},
    {"extraEnv": [{"name": "A"}]},
]


@pytest.fixture(scope="module")
def helm() -> str:
    """The program that is built for tests."""
    printed = subprocess.run(
        [sys.executable, str(CHECKOUT / "tests/tools/install.py"), "--print"],
        check=True,
        capture_output=True,
        text=True,
    )
    found = shutil.which("helm", path=printed.stdout.strip())
    if found is None:
        message = "helm is not built: `make tools` builds it"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


def rendered(helm: str, values: dict[str, Any]) -> str:
    """The chart as YAML. Raises CalledProcessError where the values are refused."""
    options = ["--namespace", "modelwright-system", "--kube-version", "1.31.0", "--values", "-"]
    command = [helm, "template", "modelwright", str(CHART), *options]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    return done.stdout


def notes(helm: str, server: KubeApiserver, values: dict[str, Any]) -> str:
    """What helm tells after an installation. Other tests may have made our CRDs on this server."""
    options = [f"--kubeconfig={server.kubeconfig}", "--dry-run=client", "--namespace=notes", "--values", "-"]
    options.append("--take-ownership")
    command = [helm, "install", "modelwright", str(CHART), *options]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=True)
    return done.stdout.partition("\nNOTES:\n")[2]


def documents(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


def only(objects: list[dict[str, Any]], kind: str, name: str = "modelwright-operator") -> dict[str, Any]:
    (found,) = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def rights(objects: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Resource and verb of all that the operator may do."""
    roles = [only(objects, "ClusterRole"), only(objects, "Role")]
    rules = [rule for role in roles for rule in role["rules"]]
    return {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def test_the_chart_has_no_faults_that_helm_knows(helm: str) -> None:
    done = subprocess.run([helm, "lint", "--strict", str(CHART)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_manifest_is_what_the_chart_gives(helm: str) -> None:
    command = [sys.executable, str(CHECKOUT / "deploy/generate_install.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_command_in_the_docs_takes_every_image_from_ones_own_registry() -> None:
    (script,) = re.findall(
        r"^sed '(.*)' deploy/install\.yaml", (CHECKOUT / "docs/install.md").read_text(), re.MULTILINE
    )
    command = ["sed", script, str(CHECKOUT / "deploy/install.yaml")]
    objects = documents(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    (container,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    images = [container["image"], *(each for name, each in variables(objects).items() if name.endswith("_IMAGE"))]
    assert len(images) == 5
    assert [image for image in images if not image.startswith("registry.example/modelwright/")] == []


@pytest.mark.parametrize("values", [{}, EVERYTHING, {"storage": {"createVolumes": False}, "replicas": 1}, NO_SERVING])
def test_an_api_server_takes_all_of_it(
    helm: str, kube_apiserver: KubeApiserver, values: dict[str, Any], tmp_path: Path
) -> None:
    kubectl = [str(kube_apiserver.kubectl), f"--kubeconfig={kube_apiserver.kubeconfig}", f"--cache-dir={tmp_path}"]
    run = partial(subprocess.run, capture_output=True, text=True)
    run([*kubectl, "create", "namespace", "modelwright-system"])
    apply = [*kubectl, "apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-"]
    done = run(apply, input=rendered(helm, values))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_operators_pod_is_admitted_where_only_restricted_ones_are(
    helm: str, kube_apiserver: KubeApiserver, tmp_path: Path
) -> None:
    kubectl = [str(kube_apiserver.kubectl), f"--kubeconfig={kube_apiserver.kubeconfig}", f"--cache-dir={tmp_path}"]
    run = partial(subprocess.run, capture_output=True, text=True)
    run([*kubectl, "create", "namespace", "strict"])
    run([*kubectl, "label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted"], check=True)
    template = only(documents(rendered(helm, {})), "Deployment")["spec"]["template"]
    metadata = {**template["metadata"], "name": "operator", "namespace": "strict"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    done = run([*kubectl, "create", "--dry-run=server", "-f", "-"], input=json.dumps(pod))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("values", WRONG, ids=json.dumps)
def test_a_value_that_makes_no_sense_is_refused_by_its_name(helm: str, values: dict[str, Any]) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        rendered(helm, values)
    assert "values don't meet the specifications of the schema" in refused.value.stderr
    # Of a name that is refused helm tells the name itself, and a place that is anything.
    names = re.findall(r"'([^']+)' does not match pattern", refused.value.stderr)
    assert next(iter(values)) in refused.value.stderr or any(f'"{name}": {{' in json.dumps(values) for name in names)


def test_a_monitor_without_the_service_that_it_scrapes_is_refused(helm: str) -> None:
    metrics = {"service": {"enabled": False}, "serviceMonitor": {"enabled": True}}
    with pytest.raises(subprocess.CalledProcessError) as refused:
        rendered(helm, {"metrics": metrics})
    assert "metrics.serviceMonitor.enabled needs metrics.service.enabled" in refused.value.stderr


def variables(objects: list[dict[str, Any]]) -> dict[str, str]:
    """What the operator is told."""
    (container,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable.get("value", "") for variable in container["env"]}


def test_what_is_told_after_an_installation_follows_from_the_values(helm: str, kube_apiserver: KubeApiserver) -> None:
    plain = notes(helm, kube_apiserver, {})
    assert "registry.default is not set" in plain
    assert "any folder of a node" in plain
    assert "Whoever reaches the port of an InferenceModel may ask it" in plain
    assert "InferenceModel" not in notes(helm, kube_apiserver, NO_SERVING)
    careful = notes(helm, kube_apiserver, EVERYTHING)
    assert "Models of frameworkType torch are served by a runtime of yours" in careful
    assert "registry.default" not in careful
    assert "storage." not in careful


def test_every_value_has_a_schema_and_a_default() -> None:
    def names(schema: dict[str, Any], at: str = "") -> set[str]:
        nested = schema.get("properties", {}).items()
        found = {f"{at}{name}" for name, _ in nested}
        return found.union(*(names(below, f"{at}{name}.") for name, below in nested))

    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    described = {name for name in names(schema) if ".items" not in name} - {"global"}
    assert described == set(_paths(defaults, described))


def test_every_variable_is_an_option_of_the_operator_and_the_defaults_are_the_same(helm: str) -> None:
    command = get_command(make_app()).commands["operator"]  # type: ignore[attr-defined]
    known = {parameter.envvar for parameter in command.params}
    for values in ({}, EVERYTHING):
        (container,) = only(documents(rendered(helm, values)), "Deployment")["spec"]["template"]["spec"]["containers"]
        given = {variable["name"] for variable in container["env"] if variable["name"].startswith("MODELWRIGHT_")}
        assert given - known == set()
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    jobs = JobSettings(agent_image="")
    assert defaults["build"]["resources"] == {"requests": jobs.resources.requests, "limits": jobs.resources.limits}
    assert (defaults["build"]["runAsUser"], defaults["build"]["runAsGroup"]) == (jobs.run_as_user, jobs.run_as_group)
    ours = ServerSettings(agent_image="", gateway_image="", catalogue=builtin())
    serving = defaults["serving"]
    for name, ours_ in (("agentResources", ours.agent_resources), ("gatewayResources", ours.gateway_resources)):
        assert serving[name] == {"requests": ours_.requests, "limits": ours_.limits}
    assert (serving["edgeFolder"], serving["imageVolumes"]) == (ours.edge_folder, ours.image_volumes)
    assert serving["progressDeadlineSeconds"] == ours.progress_deadline_seconds
    assert (serving["tensorflow"], defaults["clusterDomain"]) == ("tensorflow-serving", ours.cluster_domain)
    lease = defaults["lease"]
    assert LeaseTimes(*(seconds(lease[name]) for name in ("duration", "renewDeadline", "retryPeriod"))) == LeaseTimes()


def test_without_volumes_to_make_there_is_no_right_on_them(helm: str) -> None:
    with_volumes = rights(documents(rendered(helm, {})))
    without = rights(documents(rendered(helm, {"storage": {"createVolumes": False}})))
    neither = rights(documents(rendered(helm, {"storage": {"createVolumes": False}, **NO_SERVING})))
    assert {right for right in neither if right[0] == "nodes"} == set()
    assert ("persistentvolumes", "create") in with_volumes
    assert {verb for resource, verb in without if resource == "persistentvolumes"} == set()
    assert {verb for resource, verb in without if resource == "persistentvolumeclaims"} == {"list", "watch"}
    assert without < with_volumes


def test_without_serving_there_is_no_right_to_make_pods(helm: str) -> None:
    serving = rights(documents(rendered(helm, {})))
    without = rights(documents(rendered(helm, NO_SERVING)))
    assert {resource for resource, _ in serving} >= FOR_SERVERS
    assert FOR_SERVERS & {resource for resource, _ in without} == set()
    assert {verb for resource, verb in without if resource == "pods"} == {"list", "watch"}
    assert {verb for resource, verb in without if resource == "inferencemodels"} == {"list", "watch"}
    assert {verb for resource, verb in without if resource == "nodes"} == {"get"}
    assert without < serving


@pytest.mark.parametrize("values", [{}, EVERYTHING])
def test_nobody_gets_a_right_on_secrets_or_on_everything(helm: str, values: dict[str, Any]) -> None:
    roles = [each for each in documents(rendered(helm, values)) if each["kind"] in ("ClusterRole", "Role")]
    rules = [rule for role in roles for rule in role["rules"]]
    assert [rule for rule in rules if {"*", "secrets", "pods/exec"} & {*rule["resources"], *rule["verbs"]}] == []


def test_users_have_the_same_rights_on_every_kind(helm: str) -> None:
    objects = documents(rendered(helm, {}))
    for name, verbs in (
        ("modelwright-view", {"get", "list", "watch"}),
        ("modelwright-edit", {"create", "delete", "deletecollection", "patch", "update"}),
    ):
        rules = only(objects, "ClusterRole", name)["rules"]
        for kind in KINDS:
            matching = [rule for rule in rules if kind.group in rule["apiGroups"] and kind.plural in rule["resources"]]
            assert [set(rule["verbs"]) for rule in matching] == [verbs], kind.plural


def test_an_image_by_digest_is_both_the_operators_and_the_agents(helm: str) -> None:
    image = "{repository}@{digest}".format(**EVERYTHING["image"])
    (container,) = only(documents(rendered(helm, EVERYTHING)), "Deployment")["spec"]["template"]["spec"]["containers"]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert container["image"] == variables["MODELWRIGHT_AGENT_IMAGE"] == image


def test_the_images_of_servers_are_beside_the_operators(helm: str) -> None:
    named = {"image": {"repository": "registry.example:5000/team/operator", "tag": "7"}}
    told = variables(documents(rendered(helm, named)))
    assert told["MODELWRIGHT_GATEWAY_IMAGE"] == "registry.example:5000/team/gateway:7"
    assert told["MODELWRIGHT_ONNX_IMAGE"] == "registry.example:5000/team/server-onnx:7"
    assert told["MODELWRIGHT_SKLEARN_IMAGE"] == "registry.example:5000/team/server-sklearn:7"
    assert "MODELWRIGHT_TENSORFLOW_IMAGE" not in told
    ours = variables(documents(rendered(helm, {**named, "serving": {"tensorflow": "modelwright"}})))
    assert ours["MODELWRIGHT_TENSORFLOW_IMAGE"] == "registry.example:5000/team/server-tensorflow:7"
    assert variables(documents(rendered(helm, {})))["MODELWRIGHT_GATEWAY_IMAGE"] == GATEWAY_IMAGE


def test_images_of_servers_can_be_named(helm: str) -> None:
    told = variables(documents(rendered(helm, EVERYTHING)))
    assert told["MODELWRIGHT_ONNX_IMAGE"] == EVERYTHING["serving"]["images"]["onnx"]
    assert told["MODELWRIGHT_TENSORFLOW_IMAGE"] == EVERYTHING["serving"]["images"]["tensorflow"]
    assert told["MODELWRIGHT_SKLEARN_IMAGE"] == f"registry.example:5000/modelwright/server-sklearn:{__version__}"


def test_what_our_containers_may_use_is_told_and_nothing_is_told_too(helm: str) -> None:
    told = variables(documents(rendered(helm, EVERYTHING)))
    assert told["MODELWRIGHT_AGENT_REQUESTS"] == "cpu=10m,memory=96Mi"
    assert told["MODELWRIGHT_AGENT_LIMITS"] == "cpu=2,memory=1Gi"
    assert told["MODELWRIGHT_GATEWAY_REQUESTS"] == "none"
    assert told["MODELWRIGHT_GATEWAY_LIMITS"] == "cpu=500m"
    assert told["MODELWRIGHT_BUILD_LIMITS"] == "cpu=2,memory=1Gi"


def test_runtimes_of_the_values_are_those_that_the_operator_reads(helm: str, tmp_path: Path) -> None:
    objects = documents(rendered(helm, EVERYTHING))
    config = only(objects, "ConfigMap", "modelwright-runtimes")
    template = only(objects, "Deployment")["spec"]["template"]["spec"]
    (volume,) = [volume for volume in template["volumes"] if volume["name"] == "runtimes"]
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    (mount,) = [each for each in template["containers"][0]["volumeMounts"] if each["name"] == "runtimes"]
    assert Path(mount["mountPath"]) == RUNTIMES
    for name, content in config["data"].items():
        (tmp_path / name).write_text(content)
    catalogue = FolderCatalogue(tmp_path, builtin())
    assert catalogue.frameworks == {"XGBoost-2", "torch", "onnx", "sklearn", "tensorflow"}
    assert catalogue.runtime("XGBoost-2").args == ("--port=$(PORT)", "--model=$(MODEL_DIR)")
    assert catalogue.runtime("XGBoost-2").resources.limits == {"memory": "1Gi", "cpu": "2"}
    assert catalogue.runtime("torch").secured


def test_a_template_that_only_the_operator_can_judge_is_said_by_it(helm: str, tmp_path: Path) -> None:
    wrong = {"serving": {"runtimes": {"mine": {"image": "a:1", "readyPath": "/$(MODEL)"}}}}
    (text,) = only(documents(rendered(helm, wrong)), "ConfigMap", "modelwright-runtimes")["data"].values()
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(Invalid, match=r"mine.yaml: readyPath: \$\(MODEL\) is no placeholder"):
        FolderCatalogue(tmp_path, builtin()).runtime("mine")


def _paths(value: Any, described: set[str], at: str = "") -> list[str]:
    """The paths of the values; what a free map holds is not described, and is left out."""
    if not isinstance(value, dict):
        return []
    nested = [(f"{at}{name}", below) for name, below in value.items()]
    return [
        path
        for name, below in nested
        if name in described or not at
        for path in (name, *_paths(below, described, f"{name}."))
    ]
