"""Installed in a real cluster from its own image: by kubectl and by helm, beside others' CRDs, and taken away again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster import foreign
from tests.cluster.audit import usage
from tests.cluster.image import CHECKOUT, built_image, push
from tests.cluster.operator import NAME, NAMESPACE, PODS, USER, Operator, apply, install, manifest, values
from tests.cluster.rig import leftovers, lifecycle
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.waiting import until
from tests.cluster.work import built, claim_of_an_admin, made, said_of_kinds_not_run_here, version, version_on_node

CHART = CHECKOUT / "deploy/chart/modelwright"
CRDS = (
    "inferencemodels.sedna.io",
    "jointinferenceservices.modelwright.dev",
    "models.model.kubedl.io",
    "modelversions.model.kubedl.io",
    "trainingmodels.sedna.io",
)
WRITES = {"create", "update", "patch", "delete", "deletecollection"}


@pytest.fixture(scope="module")
def fresh(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster in which nothing is installed: one's CRDs cannot be taken away while others' tests use them."""
    with lifecycle.running_cluster(leftovers.own_name("i"), cluster.programs) as running:
        yield running


@pytest.fixture
def bare(fresh: Cluster) -> Iterator[Cluster]:
    """That cluster, and everything of ours taken away afterwards."""
    yield fresh
    fresh.run("delete", "namespace", NAMESPACE, "--ignore-not-found")
    fresh.run("delete", "clusterrole,clusterrolebinding", "--selector", "app.kubernetes.io/part-of=modelwright")
    fresh.run("delete", "crd", *CRDS, "--ignore-not-found")


# What is installed --------------------------------------------------------------------------------------------------


def test_two_replicas_run_where_only_restricted_pods_may_and_one_of_them_leads(operator: Operator) -> None:
    namespace = operator.cluster.get("namespace", NAMESPACE)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    names = [pod["metadata"]["name"] for pod in operator.pods()]
    assert len(names) == 2
    until(lambda: operator.holder().partition("_")[0] in names, "one of the replicas to hold the lease")
    assert {pod["spec"]["containers"][0]["image"] for pod in operator.pods()} == {operator.image}


def test_its_containers_write_nowhere_and_run_as_nobody_in_particular(operator: Operator) -> None:
    for pod in operator.pods():
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert pod["spec"]["securityContext"]["runAsUser"] == 65532
        assert pod["status"]["containerStatuses"][0]["user"]["linux"]["uid"] == 65532


def test_probes_and_metrics_answer_through_the_service(operator: Operator) -> None:
    service = operator.cluster.get("service", f"{NAME}-metrics", "--namespace", NAMESPACE)["spec"]
    url = f"http://{service['clusterIP']}:{service['ports'][0]['port']}"
    # For a moment after a rollout a Service still leads to a Pod that has gone.
    curl = ("curl", "--silent", "--fail", "--connect-timeout", "2", "--retry", "10", "--retry-all-errors")
    said = {
        page: operator.cluster.on_node(operator.cluster.nodes[0].name, *curl, f"{url}/{page}")
        for page in ("healthz", "readyz", "metrics")
    }
    assert said["healthz"].strip() == "ok"
    assert said["readyz"].strip()
    assert "leader_election_master_status" in said["metrics"]


def test_a_replica_that_stands_by_takes_over_when_the_leader_is_deleted(operator: Operator) -> None:
    until(operator.holder, "somebody to lead")
    before = operator.holder()
    operator.run("delete", "pod", before.partition("_")[0], "--wait=false")
    until(lambda: operator.holder() not in ("", before), "another replica to lead")
    operator.settled()


def test_users_with_the_role_edit_may_write_the_kinds_and_those_with_view_read_them(
    operator: Operator, namespace: str
) -> None:
    run = operator.cluster.run
    for role in ("view", "edit"):
        run("create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}er", "--namespace", namespace)
    for plural, _, group in (name.partition(".") for name in CRDS):
        resource = f"{plural}.{group}"
        for verb, allowed in (("list", ("viewer", "editer")), ("create", ("editer",)), ("delete", ("editer",))):
            for user in ("viewer", "editer"):
                answer = run("auth", "can-i", verb, resource, f"--as={user}", "--namespace", namespace, check=False)
                assert (answer.strip() == "yes") is (user in allowed), (verb, resource, user)


def test_what_runs_on_no_cluster_yet_says_so(operator: Operator, namespace: str) -> None:
    assert set(said_of_kinds_not_run_here(operator.cluster, namespace).values()) == {"NotImplemented"}


# Installing and removing --------------------------------------------------------------------------------------------


def test_beside_crds_of_others_it_touches_nothing_says_so_and_begins_when_they_have_gone(bare: Cluster) -> None:
    bare.apply(*foreign.definitions())
    bare.run("wait", "--for=condition=Established", "--timeout=60s", "crd", *CRDS[2:4])
    bare.apply(foreign.model_version("theirs"))
    before = bare.get("modelversions.model.kubedl.io", "theirs")
    text = manifest(values(bare, push(built_image(), bare.registry)))
    command = [str(bare.kubectl), f"--kubeconfig={bare.kubeconfig}", "apply", "--server-side"]
    # As docs/install.md says it: fields that others have set are not taken from them.
    done = subprocess.run(
        [*command, "--field-manager=modelwright", "-f", "-"], input=text, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "conflict" in done.stderr

    operator = Operator(bare, "")
    why = ("nothing is touched", "modelversions.model.kubedl.io is not ours", "KubeDL")
    until(lambda: _says(operator.logs(), why), "the operator to say why it does nothing", 120)
    assert [pod["metadata"]["name"] for pod in operator.pods() if _ready(pod)] == []
    wrote = {right for right in usage(bare.audit_events(), USER).used if right.verb in WRITES}
    assert {right.resource for right in wrote} <= {"leases"}
    assert bare.get("modelversions.model.kubedl.io", "theirs") == before

    bare.run("delete", "crd", *CRDS[2:4])
    apply(bare).settled()
    assert built(bare, "ours")


def _says(text: str, words: tuple[str, ...]) -> bool:
    return all(each in text for each in words)


def test_kubectl_installs_it_and_takes_it_away_and_the_models_stay(bare: Cluster) -> None:
    install(bare)
    first = built(bare, "mv-1")
    for command in _documented("remove-with-kubectl"):
        bare.run(*command.split()[1:])
    assert version(bare, "mv-1") == first
    assert {each["metadata"]["name"] for each in bare.get("crd")["items"]} >= set(CRDS)


def test_helm_installs_upgrades_and_takes_it_away_and_the_models_stay(bare: Cluster, tmp_path: Path) -> None:
    helm = _Helm(bare, tmp_path)
    helm.run("install", "modelwright", str(CHART), "--create-namespace", "--wait", "--timeout=3m")
    operator = Operator(bare, "")
    assert len(operator.pods()) == 2
    first = built(bare, "mv-1")
    leader = operator.holder()
    assert leader

    helm.run("upgrade", "modelwright", str(CHART), "--set=replicas=1,log.level=debug", "--wait", "--timeout=3m")
    until(lambda: len(operator.pods()) == 1, "the second replica to go")
    until(lambda: operator.holder() not in ("", leader), "the new replica to lead")
    assert version(bare, "mv-1") == first
    assert built(bare, "mv-2")

    helm.run("uninstall", "modelwright", "--wait", "--timeout=3m")
    left = ("pods,deployments", "--namespace", NAMESPACE, "--selector", PODS)
    until(lambda: bare.get(*left)["items"] == [], "the operator to go")
    assert version(bare, "mv-1") == first
    helm.run("install", "modelwright", str(CHART), "--wait", "--timeout=3m")
    assert version(bare, "mv-1") == first
    helm.run("uninstall", "modelwright", "--wait", "--timeout=3m")


def test_without_rights_on_volumes_it_builds_from_claims_and_refuses_the_rest(bare: Cluster, tmp_path: Path) -> None:
    helm = _Helm(bare, tmp_path)
    limited = "--set=storage.createVolumes=false"
    helm.run("install", "modelwright", str(CHART), "--create-namespace", limited, "--wait", "--timeout=3m")
    began = len(list(bare.audit_events()))

    bare.apply(version_on_node(bare, "from-a-node", "/models/mv-1"))
    bare.run("wait", "--for=condition=Stalled", "--timeout=60s", "modelversion/from-a-node")
    bare.apply(*claim_of_an_admin(bare, "weights", "default"))
    spec = {"modelName": "m", "imageRepo": "modelhub/m", "storage": {"persistentVolumeClaim": {"claimName": "weights"}}}
    bare.apply(made("model.kubedl.io", "ModelVersion", "from-a-claim", spec))
    bare.run("wait", "--for=condition=Ready", "--timeout=120s", "modelversion/from-a-claim")

    asked = usage(list(bare.audit_events())[began:], USER)
    assert asked.refused == {}
    assert [right for right in asked.used if right.resource == "persistentvolumes"] == []


def test_helm_does_not_take_crds_from_others(bare: Cluster, tmp_path: Path) -> None:
    bare.apply(*foreign.definitions())
    before = bare.get("crd", CRDS[3])["spec"]
    refused = _Helm(bare, tmp_path).run("install", "modelwright", str(CHART), "--create-namespace", check=False)
    assert "cannot be imported into the current release" in refused
    assert bare.get("crd", CRDS[3])["spec"] == before


# Helpers ------------------------------------------------------------------------------------------------------------


class _Helm:
    """helm with a cluster's values, and folders of its own."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        image = push(built_image(), cluster.registry)
        self._values = folder / "values.json"
        self._values.write_text(json.dumps(values(cluster, image)))
        self._program = cluster.programs / "helm"
        self._environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "KUBECONFIG": str(cluster.kubeconfig),
            **{f"HELM_{kind}_HOME": str(folder / kind) for kind in ("CACHE", "CONFIG", "DATA")},
        }

    def run(self, verb: str, *arguments: str, check: bool = True) -> str:
        """What it printed, and what it complained of."""
        given = [f"--values={self._values}"] if verb in ("install", "upgrade") else []
        command = [str(self._program), verb, "--namespace", NAMESPACE, *arguments, *given]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout + done.stderr


def _ready(pod: dict[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


def _documented(name: str) -> list[str]:
    """The commands of the block of docs/install.md that follows this mark."""
    text = (CHECKOUT / "docs/install.md").read_text()
    block = text.partition(f"<!-- {name} -->")[2].partition("```sh\n")[2].partition("```")[0]
    return block.replace("\\\n", " ").strip().splitlines()
