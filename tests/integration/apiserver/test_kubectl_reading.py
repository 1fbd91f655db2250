"""What kubectl shows of the embedded API."""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.integration.apiserver.kubectl import Kubectl
from tests.integration.apiserver.manifests import INFERENCE, VERSION, models

from modelwright.api.kinds import KINDS

SELECTORS = {
    "team=vision": True,
    "team==vision": True,
    "team!=vision": False,
    "team in (audio,vision)": True,
    "team notin (vision)": False,
    "team": True,
    "!team": False,
    "other!=x": True,
    "team=vision,other": False,
}


def lines(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def test_api_resources_lists_every_kind_with_its_short_name(cluster: Kubectl) -> None:
    shown = {line[-1]: line for line in lines(cluster.run("api-resources"))}
    for kind in KINDS:
        assert shown[kind.kind][:2] == [kind.plural, kind.short_names[0]]
        assert kind.api_version in shown[kind.kind]
    assert shown["Namespace"][:2] == ["namespaces", "ns"]


def test_api_resources_of_the_category_are_our_kinds(cluster: Kubectl) -> None:
    names = cluster.run("api-resources", "--categories", "modelwright", "-o", "name").split()
    assert sorted(names) == sorted(kind.crd_name for kind in KINDS)


def test_api_versions_are_our_groups(cluster: Kubectl) -> None:
    assert cluster.run("api-versions").split() == [
        "model.kubedl.io/v1alpha1",
        "modelwright.dev/v1alpha1",
        "sedna.io/v1alpha1",
        "v1",
    ]


def test_the_version_suits_kubectl(cluster: Kubectl) -> None:
    assert "Server Version: v1.35" in cluster.run("version")


def test_get_prints_a_table_with_our_columns(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=VERSION)
    header, row = lines(kubectl.run("get", "modelversions"))
    assert header == ["NAME", "MODEL", "READY", "REASON", "IMAGE", "AGE"]
    assert row[:2] == ["resnet-1", "resnet"]
    wide = kubectl.run("get", "mv", "-o", "wide").splitlines()[0].split()
    assert {"PHASE", "DIGEST", "SIZE", "CREATED-BY"} <= set(wide)


def test_get_by_short_name_singular_category_and_name(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=VERSION)
    for words in (["mv"], ["modelversion"], ["modelversions.model.kubedl.io"], ["modelwright"], ["mv/resnet-1"]):
        assert "resnet-1" in kubectl.run("get", *words), words
    assert kubectl.run("get", "mv", "-o", "name") == "modelversion.model.kubedl.io/resnet-1\n"


def test_get_as_yaml_and_json_shows_the_object_with_its_defaults(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=VERSION)
    value = kubectl.json("get", "mv", "resnet-1")
    assert value["spec"]["builder"] == "native"
    assert value["spec"]["storage"]["localStorage"]["mountPath"] == "/kubedl-model"
    assert value["metadata"]["generation"] == 1
    assert "  builder: native\n" in kubectl.run("get", "mv", "resnet-1", "-o", "yaml")


def test_get_across_namespaces_has_a_namespace_column(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=VERSION)
    table = lines(kubectl.run("get", "mv", "--all-namespaces"))
    assert table[0][0] == "NAMESPACE"
    assert [kubectl.namespace, "resnet-1"] in [row[:2] for row in table]


def test_get_with_a_label_selector(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=VERSION)
    for selector, found in SELECTORS.items():
        names = kubectl.run("get", "mv", "-l", selector, "-o", "name")
        assert bool(names) is found, selector


def test_get_with_a_field_selector(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=models("a", "b"))
    assert kubectl.run("get", "mo", "--field-selector", "metadata.name=a", "-o", "name").split() == [
        "model.model.kubedl.io/a"
    ]
    assert kubectl.run("get", "mo", "--field-selector", "metadata.name!=a", "-o", "name").split() == [
        "model.model.kubedl.io/b"
    ]
    assert "field label not supported" in kubectl.fail("get", "mo", "--field-selector", "spec.x=1")


def test_get_in_pages_shows_everything_once(kubectl: Kubectl) -> None:
    names = [f"m-{number:02}" for number in range(17)]
    kubectl.run("create", "-f", "-", stdin=models(*names))
    listed = kubectl.run("get", "mo", "--chunk-size", "5", "-o", "name").split()
    assert listed == [f"model.model.kubedl.io/{name}" for name in names]


def test_what_does_not_exist_is_not_found(kubectl: Kubectl) -> None:
    assert kubectl.fail("get", "mv", "nothing") == (
        'Error from server (NotFound): modelversions.model.kubedl.io "nothing" not found\n'
    )
    assert "the server doesn't have a resource type" in kubectl.fail("get", "pods")


def test_get_namespaces(cluster: Kubectl) -> None:
    assert ["default", "Active"] in [row[:2] for row in lines(cluster.run("get", "namespaces"))]
    assert cluster.json("get", "ns", "default")["status"] == {"phase": "Active"}


@pytest.mark.parametrize("how", [["get", "mo", "--watch"], ["get", "mo", "-o", "name", "--watch"]])
def test_a_watch_shows_what_happens(kubectl: Kubectl, how: list[str]) -> None:
    kubectl.run("create", "-f", "-", stdin=models("before"))
    watching = kubectl.start(*how, "--output-watch-events") if "name" not in how else kubectl.start(*how)
    try:
        seen = [read_until(watching, "before")]
        kubectl.run("create", "-f", "-", stdin=models("during"))
        seen.append(read_until(watching, "during"))
        kubectl.run("delete", "mo", "during")
        seen.append(read_until(watching, "during"))
    finally:
        watching.terminate()
        watching.communicate()
    if "name" not in how:
        assert [line.split()[0] for line in seen] == ["ADDED", "ADDED", "DELETED"]


def read_until(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return line
    raise AssertionError(f"kubectl ended before it said {word!r}")


def test_describe_shows_fields_and_events(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=VERSION)
    value = kubectl.json("get", "mv", "resnet-1")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "resnet-1.built", "namespace": kubectl.namespace},
        "involvedObject": {
            "apiVersion": value["apiVersion"],
            "kind": value["kind"],
            "namespace": kubectl.namespace,
            "name": "resnet-1",
            "uid": value["metadata"]["uid"],
        },
        "reason": "ImageBuilt",
        "message": "The image was built.",
        "type": "Normal",
        "source": {"component": "modelwright"},
        "count": 3,
        "firstTimestamp": value["metadata"]["creationTimestamp"],
        "lastTimestamp": value["metadata"]["creationTimestamp"],
    }
    kubectl.run("create", "-f", "-", stdin=json.dumps(event))
    described = kubectl.run("describe", "mv", "resnet-1")
    assert "Image Repo:  modelhub/resnet" in described
    tail = described[described.index("Events:") :]
    assert "ImageBuilt" in tail
    assert "(x3 over" in tail
    assert "The image was built." in tail
    assert "ImageBuilt" in kubectl.run("get", "events")
    assert "The image was built." in kubectl.run("events", "--for", "modelversion/resnet-1")


def test_explain_tells_what_a_field_means(cluster: Kubectl) -> None:
    shown = cluster.run("explain", "modelversion.spec.storage")
    assert "KIND:       ModelVersion" in shown
    assert "persistentVolumeClaim" in shown
    assert "FIELDS:" in cluster.run("explain", "infm.spec", "--recursive")
    for kind in KINDS:
        assert f"KIND:       {kind.kind}" in cluster.run("explain", kind.plural)


def test_the_raw_paths_answer(cluster: Kubectl) -> None:
    assert cluster.run("get", "--raw", "/healthz") == "ok"
    assert json.loads(cluster.run("get", "--raw", "/apis"))["kind"] == "APIGroupList"
    assert json.loads(cluster.run("get", "--raw", "/apis/sedna.io/v1alpha1"))["kind"] == "APIResourceList"
    assert "the server could not find the requested resource" in cluster.fail("get", "--raw", "/nowhere")


def test_a_scale_is_read(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=INFERENCE)
    value = kubectl.json("get", "infm", "detector", "--subresource", "scale")
    assert value["kind"] == "Scale"
    assert value["spec"] == {"replicas": 2}
