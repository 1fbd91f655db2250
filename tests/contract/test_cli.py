"""The client verbs work the same on a real kube-apiserver, and take turns with kubectl there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.contract.kube_apiserver import KubeApiserver
from tests.contract.subjects import fresh_name, install_crds
from tests.integration.apiserver.kubectl import Kubectl
from tests.integration.cli.support import Cli

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.cli.merge import LAST_APPLIED

pytestmark = pytest.mark.apiserver

MODEL = "apiVersion: model.kubedl.io/v1alpha1\nkind: Model\nmetadata: {name: m}\nspec: {description: '<é> & more'}\n"
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1', b: '2'}\n"


@pytest.fixture
def cli(kube_apiserver: KubeApiserver) -> Cli:
    """The command line in a fresh namespace of a cluster with our CRDs."""

    async def prepare() -> None:
        async with KubernetesClient(load_kubeconfig([kube_apiserver.kubeconfig])) as client:
            await install_crds(client)

    asyncio.run(prepare())
    namespace = fresh_name("cli")
    cli = Cli(kube_apiserver.kubeconfig)
    cli.run("apply", "-f", "-", stdin=f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}")
    return cli.within(namespace)


@pytest.fixture
def kubectl(kube_apiserver: KubeApiserver, cli: Cli, tmp_path: Path) -> Kubectl:
    return Kubectl(kube_apiserver.kubectl, kube_apiserver.kubeconfig, tmp_path / "kubectl", cli.namespace)


def test_what_kubectl_applied_is_unchanged_for_us_and_the_other_way_round(cli: Cli, kubectl: Kubectl) -> None:
    kubectl.run("apply", "-f", "-", stdin=MODEL)
    theirs = kubectl.json("get", "mo", "m")["metadata"]["annotations"][LAST_APPLIED]
    assert cli.run("apply", "-f", "-", stdin=MODEL) == "model.model.kubedl.io/m unchanged\n"
    cli.run("delete", "mo", "m")
    cli.run("apply", "-f", "-", stdin=MODEL)
    assert kubectl.json("get", "mo", "m")["metadata"]["annotations"][LAST_APPLIED] == theirs
    assert kubectl.run("apply", "-f", "-", stdin=MODEL) == "model.model.kubedl.io/m unchanged\n"


def test_a_log_that_only_pods_have_is_told_with_the_command_that_prints_it(cli: Cli, kubectl: Kubectl) -> None:
    kubectl.run("apply", "-f", "-", stdin=MODEL)
    uid = kubectl.json("get", "mo", "m")["metadata"]["uid"]
    assert f"kubectl logs -n {cli.namespace} -l modelwright.dev/owner-uid={uid}" in cli.fail("logs", "mo/m")
    assert '"absent" not found' in cli.fail("logs", "mo/absent")


def test_kinds_that_are_not_ours_are_found_as_the_server_names_them(cli: Cli, kubectl: Kubectl) -> None:
    cli.run("apply", "-f", "-", stdin=MAP)
    assert cli.run("apply", "-f", "-", stdin=MAP.replace(", b: '2'", "")) == "configmap/c configured\n"
    assert json.loads(cli.run("get", "cm/c", "-o", "json"))["data"] == {"a": "1"}
    assert "DATA" in cli.run("get", "configmaps")
    assert cli.run("delete", "configmap", "c") == "configmap/c deleted\n"


def test_every_fault_is_told_with_its_field(cli: Cli) -> None:
    wrong = MODEL.replace("Model", "ModelVersion").replace("description", "fruit")
    assert "  spec.fruit: unknown field" in cli.fail("apply", "-f", "-", stdin=wrong)
    complaint = cli.fail("apply", "-f", "-", stdin=wrong.partition("spec")[0] + "spec: {}")
    assert "ModelVersion m is invalid:" in complaint
    assert "  spec.storage: " in complaint


def test_waiting_and_describing_work(cli: Cli, kubectl: Kubectl) -> None:
    cli.run("apply", "-f", "-", stdin=MODEL)
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Done",
        "message": "All is well.",
        "observedGeneration": 1,
        "lastTransitionTime": "2024-02-29T12:00:00Z",
    }
    patch = json.dumps({"status": {"conditions": [condition], "versions": 1}})
    kubectl.run("patch", "mo", "m", "--subresource=status", "--type=merge", "-p", patch)
    assert "condition met" in cli.run("wait", "mo/m")
    assert "All is well." in cli.run("describe", "mo", "m")
