"""What people see with kubectl: tables, descriptions, explanations, waits and differences."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import builds
from tests.cluster.builds import JSON, User, local, version
from tests.cluster.conftest import Kubectl
from tests.cluster.image import CHECKOUT
from tests.cluster.operator import Operator

PATHS = (
    "modelversion.spec",
    "mv.spec.storage.localStorage.path",
    "mv.spec.storage.nfs.server",
    "mv.spec.storage.AWSEfs.volumeHandle",
    "mv.spec.storage.persistentVolumeClaim.subPath",
    "mv.spec.builder",
    "mv.spec.pushSecret",
    "mv.status.conditions",
    "mv.status.progress",
    "mv.status.resolvedImage",
    "model.spec.description",
    "mo.status.latestVersion.imageDigest",
)


@pytest.fixture(scope="module")
def user(operator: Operator) -> Iterator[User]:
    """Whose mv-3 is built, as the example of the seeds has it, and mv-4 cannot be."""
    with builds.user_of(operator.cluster) as user:
        node = next(node for node in user.cluster.nodes if node.name == "edge-0")
        path = f"/models/{user.namespace}"
        builds.write_model(Path(node.root, path.strip("/")), "kubectl")
        spec = {"modelName": "model1", "imageRepo": "modelhub/resnet"}
        user.create(version("mv-3", local("edge-0", path), **spec), version("mv-4", local("edge-0", "/etc"), **spec))
        yield user


def table(printed: str) -> list[dict[str, str]]:
    """The rows by column; a value ends where the next column begins."""
    head, *rows = printed.splitlines()
    starts = [found.start() for found in re.finditer(r"\S+", head)]
    ends = [*starts[1:], None]
    return [{head[a:b].strip(): row[a:b].strip() for a, b in zip(starts, ends, strict=True)} for row in rows]


def test_wait_ends_when_the_image_is_there(user: User) -> None:
    printed = user.kubectl("wait", "--for=condition=Ready", "modelversion/mv-3", "--timeout=120s")
    assert printed == "modelversion.model.kubedl.io/mv-3 condition met\n"
    assert user.version("mv-3")["status"]["imageDigest"].startswith("sha256:")


def test_wait_can_be_for_what_a_version_is_stuck_on(user: User) -> None:
    printed = user.kubectl("wait", "--for=condition=Stalled", "mv/mv-4", "--timeout=60s")
    assert printed == "modelversion.model.kubedl.io/mv-4 condition met\n"


def test_get_shows_each_version_on_a_line_with_its_reason_and_image(user: User) -> None:
    user.ready("mv-3")
    user.told("mv-4", "StorageForbidden")
    built, refused = table(user.kubectl("get", "mv"))
    image = user.version("mv-3")["status"]["image"]
    assert re.fullmatch(r"modelhub/resnet:v[0-9a-f]{5}", image)
    wanted = {"NAME": "mv-3", "MODEL": "model1", "READY": "True", "REASON": "ImageBuilt", "IMAGE": image}
    assert {**built, "AGE": ""} == {**wanted, "AGE": ""}
    wanted = {"NAME": "mv-4", "MODEL": "model1", "READY": "False", "REASON": "StorageForbidden", "IMAGE": ""}
    assert {**refused, "AGE": ""} == {**wanted, "AGE": ""}


def test_get_shows_a_model_with_its_latest_version(user: User) -> None:
    user.ready("mv-3")
    user.until(lambda: table(user.kubectl("get", "model"))[0]["LATEST"] == "mv-3", "the Model to know of mv-3")
    (model,) = table(user.kubectl("get", "mo"))
    image = user.version("mv-3")["status"]["image"]
    assert {**model, "AGE": ""} == {"NAME": "model1", "LATEST": "mv-3", "IMAGE": image, "VERSIONS": "2", "AGE": ""}


def test_get_of_the_category_shows_all_kinds(user: User) -> None:
    names = set(user.kubectl("get", "modelwright", "-o", "name").split())
    assert names >= {"model.model.kubedl.io/model1", "modelversion.model.kubedl.io/mv-3"}


def test_describe_ends_with_the_events_in_their_order(user: User) -> None:
    user.ready("mv-3")
    user.until(lambda: len(user.events("mv-3")) == 2, "both Events of mv-3")
    printed = user.kubectl("describe", "modelversion", "mv-3")
    events = printed.partition("Events:")[2]
    assert re.search(r"Normal +ImageBuilding .*packing the model and pushing its image", events)
    assert re.search(r"Normal +ImageBuilt .*modelhub/resnet:v[0-9a-f]{5} is sha256:", events)
    assert events.index("ImageBuilding") < events.index("ImageBuilt")
    assert "Resolved Image:" in printed


def test_events_can_be_asked_for_by_object(user: User) -> None:
    user.told("mv-4", "StorageForbidden")
    user.until(lambda: user.events("mv-4"), "the Event of mv-4")
    (row,) = table(user.kubectl("events", "--for", "modelversion/mv-4"))
    assert (row["TYPE"], row["REASON"]) == ("Warning", "StorageForbidden")
    assert "localStorage.path /etc is the node's own" in row["MESSAGE"]


def test_conditions_are_those_that_tools_know(user: User) -> None:
    """https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md"""
    user.ready("mv-3")
    user.told("mv-4", "StorageForbidden")
    statuses = {
        name: {type_: user.condition(name, type_)["status"] for type_ in ("Ready", "Reconciling", "Stalled")}
        for name in ("mv-3", "mv-4")
    }
    assert statuses["mv-3"] == {"Ready": "True", "Reconciling": "False", "Stalled": "False"}
    assert statuses["mv-4"] == {"Ready": "False", "Reconciling": "False", "Stalled": "True"}
    for name in statuses:
        found = user.version(name)
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]


@pytest.mark.parametrize("path", PATHS)
def test_explain_says_of_each_field_what_it_is(user: User, path: str) -> None:
    printed = user.kubectl("explain", path)
    description = printed.partition("DESCRIPTION:")[2].strip()
    assert description
    assert "<empty>" not in description.splitlines()[0], printed


def test_applying_the_same_again_changes_nothing(user: User, tmp_path: Path) -> None:
    for name in ("client", "server"):
        options = ["--server-side"] if name == "server" else []
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(version(f"by-{name}", local("edge-0", "/etc"))))
        user.kubectl("apply", *options, "-f", str(file))
        user.told(f"by-{name}", "StorageForbidden")
        before = user.version(f"by-{name}")["metadata"]["resourceVersion"]
        printed = user.kubectl("apply", *options, "-f", str(file))
        assert printed.rpartition(" ")[2].strip() in ("unchanged", "serverside-applied")
        assert user.version(f"by-{name}")["metadata"]["resourceVersion"] == before
        assert user.kubectl("diff", *options, "-f", str(file)) == ""
        user.kubectl("delete", "-f", str(file))


def test_diff_shows_what_would_be_another(user: User, tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    model: JSON = {"apiVersion": "model.kubedl.io/v1alpha1", "kind": "Model", "metadata": {"name": "described"}}
    file.write_text(json.dumps({**model, "spec": {"description": "before"}}))
    user.kubectl("apply", "--server-side", "-f", str(file))
    file.write_text(json.dumps({**model, "spec": {"description": "after"}}))
    printed = user.kubectl("diff", "--server-side", "-f", str(file), check=False)
    changed = [line for line in printed.splitlines() if re.match(r"[-+] ", line) and "generation" not in line]
    assert changed == ["-  description: before", "+  description: after"]


def test_a_spec_never_changes_and_it_is_said_what_to_do_instead(user: User) -> None:
    command = [str(user.cluster.kubectl), f"--kubeconfig={user.cluster.kubeconfig}", "--namespace", user.namespace]
    patch = ["patch", "mv", "mv-3", "--type=merge", "--patch", '{"spec":{"imageTag":"v2"}}']
    done = subprocess.run([*command, *patch], capture_output=True, text=True)
    assert done.returncode == 1
    assert "a ModelVersion never changes" in done.stderr or "make a new ModelVersion" in done.stderr, done.stderr


def test_what_is_misspelled_is_refused_with_its_name(user: User) -> None:
    complaint = user.refused(version("misspelled", local("edge-0", "/foo"), imageRepository="modelhub/x"))
    assert 'unknown field "spec.imageRepository"' in complaint
    complaint = user.refused(version("upper", local("edge-0", "/foo"), imageRepo="ModelHub/x"))
    assert "spec.imageRepo" in complaint
    assert "in lower case" in complaint


def test_logs_of_a_build_are_found_as_the_documentation_says(user: User) -> None:
    """A build that runs no more has no log; the command is that of docs/kubernetes.md."""
    assert "kubectl logs --follow -l modelwright.dev/owner-uid=" in (CHECKOUT / "docs/kubernetes.md").read_text()
    uid = user.kubectl("get", "mv", "mv-3", "-o", "jsonpath={.metadata.uid}")
    assert user.kubectl("logs", "-l", f"modelwright.dev/owner-uid={uid}") == ""


def test_the_examples_are_taken(operator: Operator, kubectl: Kubectl) -> None:
    for file in sorted((CHECKOUT / "examples/cluster").glob("*.yaml")):
        printed = kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", str(file))
        assert "serverside-applied (server dry run)" in printed
