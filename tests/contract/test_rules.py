"""kube-apiserver, by the generated CRDs, admits, completes, refuses and prints what the embedded admission does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.contract.kube_apiserver import KubeApiserver
from tests.contract.kube_rest import KubeRest, eventually, path_of
from tests.unit.api.bases import EDGE, VERSION, patched
from tests.unit.api.cases import RULE_CASES, RuleCase
from tests.unit.api.objects import FAULTY, SHAPED, STATUSES, UNKNOWN, Sample

from modelwright.api.admission import admit
from modelwright.api.faults import unknown_message
from modelwright.api.kind import Kind
from modelwright.api.kinds import INFERENCE_MODEL, KINDS, MODEL_VERSION, by_kind
from modelwright.api.table import table_columns, table_row

pytestmark = pytest.mark.apiserver

NAMESPACE = "rules"
EXAMPLES = Path(__file__).parents[2] / "examples"
MANIFESTS = sorted(path for folder in ("seeds", "cluster") for path in (EXAMPLES / folder).glob("*.yaml"))
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def kubernetes(kube_apiserver: KubeApiserver) -> Iterator[KubeRest]:
    """The kube-apiserver with the CRDs of all kinds and a namespace of our own."""
    with KubeRest(kube_apiserver) as client:
        for kind in KINDS:
            client.install(kind)
        client.make_namespace(NAMESPACE)
        yield client


def refused(answer: Any) -> set[tuple[str, str, str]]:
    """Field, reason and message of each cause that the embedded admission would give too.

    Left out: the remark that rules were not checked, and what the scale subresource says of replicas once more.
    """
    causes = answer["details"].get("causes", [])
    return {(c["field"], c["reason"], c["message"]) for c in causes if c["field"] not in {"<nil>", ".spec.replicas"}}


def try_create(kubernetes: KubeRest, kind: Kind, sent: Any, validation: str = "Strict") -> tuple[int, Any]:
    return kubernetes.ask("POST", path_of(kind, NAMESPACE), sent, dryRun="All", fieldValidation=validation)


def replaced(kubernetes: KubeRest, case: RuleCase, sent: dict[str, Any]) -> tuple[int, Any]:
    """What replacing the case's old object says; the old object is there before and after."""
    path = path_of(case.kind, NAMESPACE, sent["metadata"]["name"])
    kubernetes.ask("POST", path_of(case.kind, NAMESPACE), case.old)
    version = kubernetes.ask("GET", path)[1]["metadata"]["resourceVersion"]
    body = {**sent, "metadata": {**sent["metadata"], "resourceVersion": version}}
    return kubernetes.ask("PUT", path, body, dryRun="All", fieldValidation="Strict")


@pytest.mark.parametrize("case", RULE_CASES, ids=lambda case: case.id)
def test_a_rule_passes_its_good_object_and_refuses_its_bad_one(kubernetes: KubeRest, case: RuleCase) -> None:
    def sent(resource: dict[str, Any]) -> tuple[int, Any]:
        return replaced(kubernetes, case, resource) if case.old else try_create(kubernetes, case.kind, resource)

    status, answer = sent(case.good)
    assert status in {200, 201}, answer
    status, answer = sent(case.bad)
    assert status == 422, answer
    old = admit(case.kind, case.old, None).object if case.old else None
    faults = admit(case.kind, case.bad, old).faults
    assert refused(answer) == {(fault.field, fault.type, fault.message) for fault in faults}


@pytest.mark.parametrize("sample", SHAPED, ids=lambda sample: sample.id)
def test_what_is_stored_is_what_the_embedded_admission_stores(kubernetes: KubeRest, sample: Sample) -> None:
    status, answer = try_create(kubernetes, sample.kind, sample.sent, "Ignore")
    assert status == 201, answer
    admission = admit(sample.kind, sample.sent, None)
    assert admission.faults == ()
    assert answer.get("spec") == admission.object.get("spec")
    kept = {key: answer["metadata"].get(key) for key in ("labels", "annotations", "finalizers", "ownerReferences")}
    assert kept == {key: admission.object["metadata"].get(key) for key in kept}
    assert "status" not in answer
    assert "status" not in admission.object


@pytest.mark.parametrize("sample", FAULTY, ids=lambda sample: sample.id)
def test_the_same_faults_are_found_against_the_schema(kubernetes: KubeRest, sample: Sample) -> None:
    status, answer = try_create(kubernetes, sample.kind, sample.sent, "Ignore")
    assert status == 422, answer
    faults = admit(sample.kind, sample.sent, None).faults
    assert refused(answer) == {(fault.field, fault.type, fault.message) for fault in faults}


@pytest.mark.parametrize("sample", UNKNOWN, ids=lambda sample: sample.id)
def test_unknown_fields_are_named_alike(kubernetes: KubeRest, sample: Sample) -> None:
    status, answer = try_create(kubernetes, sample.kind, sample.sent)
    unknown = admit(sample.kind, sample.sent, None).unknown
    assert status == 400
    assert unknown
    assert all(f'unknown field "{path}"' in answer["message"] for path in unknown)
    assert len(answer["message"]) == len(unknown_message(sample.kind, unknown))


@pytest.mark.parametrize("sample", STATUSES, ids=lambda sample: sample.id)
def test_a_status_is_kept_and_printed_alike(kubernetes: KubeRest, sample: Sample) -> None:
    path = path_of(sample.kind, NAMESPACE, sample.sent["metadata"]["name"])
    status, stored = kubernetes.ask("POST", path_of(sample.kind, NAMESPACE), sample.sent)
    assert status == 201, stored
    changed = {**stored, "status": sample.sent["status"], "spec": {}}
    status, answer = kubernetes.ask("PUT", f"{path}/status", changed)
    assert status == 200, answer
    admission = admit(sample.kind, changed, stored, subresource="status")
    assert (admission.faults, admission.object.get("spec")) == ((), stored.get("spec"))
    assert answer["status"] == admission.object["status"]
    printed = kubernetes.ask("GET", path, accept=TABLE)[1]
    names = [column["name"] for column in table_columns(sample.kind)]
    assert [column["name"] for column in printed["columnDefinitions"]] == names
    shown = dict(zip(names, printed["rows"][0]["cells"], strict=True))
    row = dict(zip(names, table_row(sample.kind, answer, datetime.now(UTC)), strict=True))
    assert {key: shown[key] for key in names if key != "Age"} == {key: row[key] for key in names if key != "Age"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_crd_is_established_and_structural(kubernetes: KubeRest, kind: Kind) -> None:
    def conditions() -> dict[str, str]:
        said = kubernetes.install(kind)["status"]["conditions"]
        return {each["type"]: each["status"] for each in said}

    eventually(lambda: conditions().get("Established") == "True")
    assert conditions() == {"NamesAccepted": "True", "Established": "True"}


def run_kubectl(server: KubeApiserver, cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(server.kubectl), f"--kubeconfig={server.kubeconfig}", f"--cache-dir={cache}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def kubectl(server: KubeApiserver, cache: Path, *arguments: str) -> str:
    done = run_kubectl(server, cache, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("kubernetes")
@pytest.mark.parametrize("handle", ["fs-e8a95a42:dir1", "fs-e8a95a42:/a/../b:fsap-19f752f0068c22464", "nas:/models"])
def test_kubectl_says_how_a_volume_handle_of_efs_is_spelled(
    kube_apiserver: KubeApiserver, tmp_path: Path, handle: str
) -> None:
    wrong = patched(VERSION, {"spec.storage": {"AWSEfs": {"volumeHandle": handle}}})
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(wrong))
    done = run_kubectl(kube_apiserver, tmp_path, "apply", "-n", NAMESPACE, "-f", str(tmp_path / "wrong.yaml"))
    assert done.returncode == 1
    assert "spec.storage.AWSEfs.volumeHandle" in done.stderr
    for form in ("FILESYSTEM,", "FILESYSTEM:/SUBPATH,", "FILESYSTEM::ACCESSPOINT", "FILESYSTEM:/SUBPATH:ACCESSPOINT"):
        assert form in done.stderr


def test_kubectl_shows_at_a_glance_what_a_version_is_waiting_for(
    kubernetes: KubeRest, kube_apiserver: KubeApiserver, tmp_path: Path
) -> None:
    """On 80 columns, with an image as the seed spells it."""
    ready = {"type": "Ready", "status": "False", "reason": "StorageForbidden", "message": "keep it elsewhere"}
    for name, status in (
        ("mv-3", {"image": "modelhub/resnet:v1c072", "conditions": [{**ready, "status": "True", "reason": "Built"}]}),
        ("mv-4", {"conditions": [ready]}),
    ):
        sent = patched(VERSION, {"metadata.name": name})
        assert kubernetes.ask("POST", path_of(MODEL_VERSION, NAMESPACE), sent)[0] == 201
        path = f"{path_of(MODEL_VERSION, NAMESPACE, name)}/status"
        merge = {"status": status}
        assert kubernetes.ask("PATCH", path, merge, media_type="application/merge-patch+json")[0] == 200
    header, *rows = kubectl(kube_apiserver, tmp_path, "get", "mv", "-n", NAMESPACE, "mv-3", "mv-4").splitlines()
    assert header.split() == ["NAME", "MODEL", "READY", "REASON", "IMAGE", "AGE"]
    assert [row.split()[:4] for row in rows] == [
        ["mv-3", "m", "True", "Built"],
        ["mv-4", "m", "False", ready["reason"]],
    ]
    assert all(len(row) <= 80 for row in rows)
    kubectl(kube_apiserver, tmp_path, "wait", "-n", NAMESPACE, "--for=condition=Ready", "modelversion/mv-3")
    waited = ("wait", "-n", NAMESPACE, "--for=condition=Ready", "--timeout=1s", "modelversion/mv-4")
    assert "timed out" in run_kubectl(kube_apiserver, tmp_path, *waited).stderr


@pytest.mark.usefixtures("kubernetes")
def test_kubectl_applies_on_the_server_and_shows_what_would_differ(
    kube_apiserver: KubeApiserver, tmp_path: Path
) -> None:
    """Defaults that the server fills in are no difference; a change of a spec that never changes is refused."""
    manifest = tmp_path / "version.yaml"
    where = ("-n", NAMESPACE, "-f", str(manifest))
    manifest.write_text(yaml.safe_dump(patched(VERSION, {"metadata.name": "applied"})))
    for _ in range(2):
        kubectl(kube_apiserver, tmp_path, "apply", "--server-side", *where)
    assert kubectl(kube_apiserver, tmp_path, "diff", "--server-side", *where) == ""
    manifest.write_text(yaml.safe_dump(patched(VERSION, {"metadata": {"name": "applied", "labels": {"a": "b"}}})))
    shown = run_kubectl(kube_apiserver, tmp_path, "diff", "--server-side", *where)
    assert shown.returncode == 1, shown.stderr
    assert "+    a: b" in shown.stdout
    manifest.write_text(yaml.safe_dump(patched(VERSION, {"metadata.name": "applied", "spec.imageTag": "v2"})))
    refused_change = run_kubectl(kube_apiserver, tmp_path, "apply", "--server-side", *where)
    assert refused_change.returncode == 1
    assert "the spec of a ModelVersion never changes: make another ModelVersion" in refused_change.stderr


def test_a_crd_carries_the_label_by_which_the_operator_knows_it(kubernetes: KubeRest) -> None:
    for kind in KINDS:
        assert kubernetes.install(kind)["metadata"]["labels"] == {"app.kubernetes.io/part-of": "modelwright"}


@pytest.mark.usefixtures("kubernetes")
def test_kubectl_explains_the_fields(kube_apiserver: KubeApiserver, tmp_path: Path) -> None:
    efs = kubectl(kube_apiserver, tmp_path, "explain", "modelversions.spec.storage.AWSEfs")
    assert "volumeHandle" in efs
    policy = kubectl(kube_apiserver, tmp_path, "explain", "jis.spec.hardExampleMining.policy")
    assert "crossEntropy" in policy


@pytest.mark.usefixtures("kubernetes")
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_kubectl_applies_the_manifests_of_the_seeds_and_of_the_guide(
    kube_apiserver: KubeApiserver, tmp_path: Path, manifest: Path
) -> None:
    kubectl(kube_apiserver, tmp_path, "apply", "-f", str(manifest), "--dry-run=server", "--validate=strict")
    sent = yaml.safe_load(manifest.read_text())
    kind = by_kind(sent["apiVersion"], sent["kind"])
    assert kind is not None
    admission = admit(kind, sent, None)
    assert (admission.unknown, admission.faults) == ((), ())


def test_replicas_can_be_scaled(kubernetes: KubeRest) -> None:
    path = path_of(INFERENCE_MODEL, NAMESPACE, "scaled")
    scaled = {**EDGE, "metadata": {"name": "scaled"}}
    assert kubernetes.ask("POST", path_of(INFERENCE_MODEL, NAMESPACE), scaled)[0] == 201
    for replicas in (3, 0):
        merge = {"spec": {"replicas": replicas}}
        status, answer = kubernetes.ask("PATCH", f"{path}/scale", merge, media_type="application/merge-patch+json")
        assert status == 200, answer
        assert kubernetes.ask("GET", path)[1]["spec"]["replicas"] == replicas
