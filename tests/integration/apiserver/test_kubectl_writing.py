"""What kubectl changes through the embedded API."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.integration.apiserver.kubectl import Kubectl
from tests.integration.apiserver.manifests import INFERENCE, VERSION, model, models

UNKNOWN = VERSION + "  colour: red\n  shape: round\n"
CREATED = "modelversion.model.kubedl.io/resnet-1 created\n"


def test_apply_creates_then_changes_then_finds_nothing_to_do(kubectl: Kubectl) -> None:
    scaled = INFERENCE.replace("replicas: 2", "replicas: 3")
    assert kubectl.run("apply", "-f", "-", stdin=INFERENCE).endswith("created\n")
    assert kubectl.run("apply", "-f", "-", stdin=INFERENCE).endswith("unchanged\n")
    before = kubectl.json("get", "infm", "detector")["metadata"]
    assert kubectl.run("apply", "-f", "-", stdin=scaled).endswith("configured\n")
    after = kubectl.json("get", "infm", "detector")
    assert after["spec"]["replicas"] == 3
    assert after["metadata"]["generation"] == before["generation"] + 1
    assert after["metadata"]["uid"] == before["uid"]


def test_apply_of_many_manifests(kubectl: Kubectl) -> None:
    names = [f"m-{number:03}" for number in range(60)]
    kubectl.run("apply", "-f", "-", stdin=models(*names))
    assert len(kubectl.run("get", "mo", "-o", "name").split()) == 60


def test_unknown_fields_are_refused_by_the_server_all_at_once(kubectl: Kubectl) -> None:
    error = kubectl.fail("apply", "-f", "-", stdin=UNKNOWN)
    assert "BadRequest" in error
    assert 'strict decoding error: unknown field "spec.colour", unknown field "spec.shape"' in error
    assert "NotFound" in kubectl.fail("get", "mv", "resnet-1")


def test_unknown_fields_are_warned_of_or_ignored_on_demand(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", "--validate=ignore", stdin=UNKNOWN)
    assert "colour" not in kubectl.json("get", "mv", "resnet-1")["spec"]
    kubectl.run("delete", "mv", "resnet-1")
    warned = kubectl._run(("create", "-f", "-", "--validate=warn"), UNKNOWN, {})
    assert warned.returncode == 0
    assert warned.stdout == CREATED
    assert 'Warning: unknown field "spec.colour"' in warned.stderr


def test_a_broken_manifest_is_refused_with_every_field(kubectl: Kubectl) -> None:
    broken = VERSION.replace("  modelName: resnet\n", "").replace("imageRepo: modelhub/resnet", "imageRepo: 7")
    error = kubectl.fail("apply", "-f", "-", stdin=broken)
    assert "spec.modelName: Required value" in error
    assert "spec.imageRepo: Invalid value" in error


def test_an_immutable_spec_is_not_changed(kubectl: Kubectl) -> None:
    kubectl.run("apply", "-f", "-", stdin=VERSION)
    error = kubectl.fail("apply", "-f", "-", stdin=VERSION.replace("createdBy: ada", "createdBy: bob"))
    assert "is invalid: spec: Invalid value" in error
    assert kubectl.json("get", "mv", "resnet-1")["spec"]["createdBy"] == "ada"


@pytest.mark.parametrize("verb", ["apply", "create"])
def test_a_dry_run_of_the_server_leaves_nothing(kubectl: Kubectl, verb: str) -> None:
    assert "(server dry run)" in kubectl.run(verb, "-f", "-", "--dry-run=server", stdin=VERSION)
    assert "NotFound" in kubectl.fail("get", "mv", "resnet-1")


def test_dry_runs_of_changes_leave_nothing(kubectl: Kubectl) -> None:
    kubectl.run("apply", "-f", "-", stdin=INFERENCE)
    before = kubectl.json("get", "infm", "detector")
    patch = '{"spec":{"replicas":7}}'
    assert "patched" in kubectl.run("patch", "infm", "detector", "--type=merge", "-p", patch, "--dry-run=server")
    kubectl.run("scale", "infm/detector", "--replicas=7", "--dry-run=server")
    kubectl.run("label", "infm", "detector", "a=b", "--dry-run=server")
    kubectl.run("delete", "infm", "detector", "--dry-run=server")
    assert kubectl.json("get", "infm", "detector") == before


def test_diff_shows_the_change_and_makes_none(kubectl: Kubectl) -> None:
    assert "+  modelName: resnet" in kubectl.differ("-f", "-", stdin=VERSION)
    assert "NotFound" in kubectl.fail("get", "mv", "resnet-1")
    kubectl.run("apply", "-f", "-", stdin=INFERENCE)
    changed = kubectl.differ("-f", "-", stdin=INFERENCE.replace("replicas: 2", "replicas: 5"))
    assert "-  replicas: 2" in changed
    assert "+  replicas: 5" in changed
    assert kubectl.differ("-f", "-", stdin=INFERENCE) == ""


def test_patch_by_merge_and_by_operations(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=INFERENCE)
    kubectl.run("patch", "infm", "detector", "--type=merge", "-p", '{"spec":{"replicas":4,"targetVersion":null}}')
    assert kubectl.json("get", "infm", "detector")["spec"]["replicas"] == 4
    operations = [
        {"op": "test", "path": "/spec/replicas", "value": 4},
        {"op": "replace", "path": "/spec/replicas", "value": 5},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
    ]
    kubectl.run("patch", "infm", "detector", "--type=json", "-p", json.dumps(operations))
    value = kubectl.json("get", "infm", "detector")
    assert value["spec"]["replicas"] == 5
    assert value["metadata"]["labels"] == {"a": "b"}
    error = kubectl.fail("patch", "infm", "detector", "--type=json", "-p", json.dumps(operations))
    assert "the test failed" in error


def test_a_status_is_patched_through_its_subresource_only(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=VERSION)
    patch = '{"status":{"image":"modelhub/resnet:v1","attempts":1}}'
    kubectl.run("patch", "mv", "resnet-1", "--type=merge", "-p", patch)
    assert "status" not in kubectl.json("get", "mv", "resnet-1")
    kubectl.run("patch", "mv", "resnet-1", "--type=merge", "--subresource=status", "-p", patch)
    value = kubectl.json("get", "mv", "resnet-1")
    assert value["status"]["image"] == "modelhub/resnet:v1"
    assert value["metadata"]["generation"] == 1


def test_a_strategic_patch_is_refused_in_words(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=INFERENCE)
    error = kubectl.fail("patch", "infm", "detector", "-p", '{"spec":{"replicas":4}}')
    assert "strategic merge patch is not supported" in error
    assert "--type merge" in error


def test_server_side_apply_is_refused_in_words(kubectl: Kubectl) -> None:
    error = kubectl.fail("apply", "--server-side", "-f", "-", stdin=VERSION)
    assert "server-side apply is not supported by the embedded server; use client-side apply" in error


def test_edit_writes_back_what_the_editor_left(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.run("create", "-f", "-", stdin=INFERENCE)
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/replicas: 2/replicas: 9/" "$1"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    assert "edited" in kubectl.run("edit", "infm", "detector", KUBE_EDITOR=str(editor))
    assert kubectl.json("get", "infm", "detector")["spec"]["replicas"] == 9


def test_replace_keeps_what_the_server_wrote(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=INFERENCE)
    before = kubectl.json("get", "infm", "detector")
    kubectl.run("replace", "-f", "-", stdin=INFERENCE.replace("replicas: 2", "replicas: 0"))
    after = kubectl.json("get", "infm", "detector")
    assert after["spec"]["replicas"] == 0
    for field in ("uid", "creationTimestamp"):
        assert after["metadata"][field] == before["metadata"][field]
    kubectl.run("replace", "--force", "-f", "-", stdin=INFERENCE)
    assert kubectl.json("get", "infm", "detector")["metadata"]["uid"] != before["metadata"]["uid"]


def test_replace_with_an_old_version_is_a_conflict(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=INFERENCE)
    old = kubectl.json("get", "infm", "detector")
    kubectl.run("scale", "infm/detector", "--replicas=1")
    error = kubectl.fail("replace", "-f", "-", stdin=json.dumps(old))
    assert "the object has been modified; please apply your changes to the latest version and try again" in error


def test_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=VERSION)
    kubectl.run("label", "mv", "resnet-1", "stage=beta", "team-")
    kubectl.run("annotate", "mv", "resnet-1", "modelwright.dev/suspend=true")
    metadata = kubectl.json("get", "mv", "resnet-1")["metadata"]
    assert metadata["labels"] == {"stage": "beta"}
    assert metadata["annotations"] == {"modelwright.dev/suspend": "true"}
    assert metadata["generation"] == 1
    patch = '{"metadata":{"labels":{"x":"-y-"}}}'
    error = kubectl.fail("patch", "mv", "resnet-1", "--type=merge", "-p", patch)
    assert 'metadata.labels: Invalid value: "-y-"' in error


def test_scale(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=INFERENCE)
    assert "scaled" in kubectl.run("scale", "infm/detector", "--replicas=0")
    assert kubectl.json("get", "infm", "detector")["spec"]["replicas"] == 0
    assert "scaled" in kubectl.run("scale", "infm/detector", "--current-replicas=0", "--replicas=3")
    assert kubectl.json("get", "infm", "detector")["spec"]["replicas"] == 3
    kubectl.fail("scale", "infm/detector", "--current-replicas=7", "--replicas=1")


def test_a_name_is_taken_once_and_can_be_generated(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=VERSION)
    assert "AlreadyExists" in kubectl.fail("create", "-f", "-", stdin=VERSION)
    generated = VERSION.replace("name: resnet-1", "generateName: resnet-")
    names = {kubectl.run("create", "-f", "-", "-o", "name", stdin=generated) for _ in range(3)}
    assert len(names) == 3


# Delete, wait ---------------------------------------------------------------------------------------------------------


def test_delete_and_delete_all(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=models("a", "b", "c"))
    assert "deleted" in kubectl.run("delete", "mo", "a")
    assert "NotFound" in kubectl.fail("delete", "mo", "a")
    assert kubectl.run("delete", "mo", "a", "--ignore-not-found") == ""
    assert kubectl.run("delete", "mo", "--all").count("deleted") == 2
    kubectl.run("create", "-f", "-", stdin=models("d"))
    kubectl.run("delete", "-f", "-", stdin=models("d"))
    assert kubectl.json("get", "mo")["items"] == []


def test_a_finalizer_holds_and_delete_waits_for_it(kubectl: Kubectl) -> None:
    held = model("held").replace("  name: held\n", "  name: held\n  finalizers: [example.com/hold]\n")
    kubectl.run("create", "-f", "-", stdin=held)
    deleting = kubectl.start("delete", "mo", "held", "--wait=true")
    try:
        # `get NAME --watch` would not do: kubectl passes over what happens between its get and the start of its watch.
        kubectl.run("wait", "mo/held", "--for=jsonpath={.metadata.deletionTimestamp}", "--timeout=60s")
        assert deleting.poll() is None
        kubectl.run("patch", "mo", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert deleting.communicate(timeout=60)[0].startswith('model.model.kubedl.io "held" deleted')
    finally:
        deleting.kill()
        deleting.communicate()
    assert "NotFound" in kubectl.fail("get", "mo", "held")


def test_delete_without_waiting_leaves_it_to_its_finalizer(kubectl: Kubectl) -> None:
    held = model("held").replace("  name: held\n", "  name: held\n  finalizers: [example.com/hold]\n")
    kubectl.run("create", "-f", "-", stdin=held)
    kubectl.run("delete", "mo", "held", "--wait=false")
    metadata = kubectl.json("get", "mo", "held")["metadata"]
    assert metadata["deletionTimestamp"]
    error = kubectl.fail("patch", "mo", "held", "--type=merge", "-p", '{"metadata":{"finalizers":["a/b","c/d"]}}')
    assert "no new finalizers can be added if the object is being deleted" in error
    kubectl.run("patch", "mo", "held", "--type=json", "-p", '[{"op":"remove","path":"/metadata/finalizers"}]')
    kubectl.run("wait", "--for=delete", "mo/held", "--timeout=30s")


def owned(kubectl: Kubectl, owner: str, name: str) -> None:
    uid = kubectl.json("get", "mo", owner)["metadata"]["uid"]
    metadata = {
        "name": name,
        "ownerReferences": [
            {
                "apiVersion": "model.kubedl.io/v1alpha1",
                "kind": "Model",
                "name": owner,
                "uid": uid,
                "blockOwnerDeletion": True,
            }
        ],
    }
    value = {"apiVersion": "model.kubedl.io/v1alpha1", "kind": "Model", "metadata": metadata}
    kubectl.run("create", "-f", "-", stdin=json.dumps({**value, "spec": {}}))


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_a_cascade_takes_the_dependents_along(kubectl: Kubectl, cascade: str) -> None:
    kubectl.run("create", "-f", "-", stdin=models("owner"))
    owned(kubectl, "owner", "child")
    owned(kubectl, "child", "grandchild")
    kubectl.run("delete", "mo", "owner", f"--cascade={cascade}")
    assert kubectl.json("get", "mo")["items"] == []


def test_an_orphan_stays_without_its_owner(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=models("owner"))
    owned(kubectl, "owner", "child")
    kubectl.run("delete", "mo", "owner", "--cascade=orphan")
    (left,) = kubectl.json("get", "mo")["items"]
    assert left["metadata"]["name"] == "child"
    assert "ownerReferences" not in left["metadata"]


def test_wait_for_a_condition(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=VERSION)
    waiting = kubectl.start("wait", "--for=condition=Ready", "mv/resnet-1", "--timeout=60s")
    try:
        ready = {"type": "Ready", "status": "True", "reason": "Built", "lastTransitionTime": "2024-01-01T00:00:00Z"}
        patch = json.dumps({"status": {"conditions": [ready]}})
        kubectl.run("patch", "mv", "resnet-1", "--subresource=status", "--type=merge", "-p", patch)
        out, error = waiting.communicate(timeout=60)
    finally:
        waiting.kill()
        waiting.communicate()
    assert out == "modelversion.model.kubedl.io/resnet-1 condition met\n", error


def test_wait_gives_up_in_time(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=VERSION)
    assert "timed out waiting" in kubectl.fail("wait", "--for=condition=Ready", "mv/resnet-1", "--timeout=1s")
    kubectl.run("wait", "--for=jsonpath={.spec.modelName}=resnet", "mv/resnet-1", "--timeout=30s")
    kubectl.run("wait", "--for=create", "mv/resnet-1", "--timeout=30s")


# Namespaces -----------------------------------------------------------------------------------------------------------


def test_a_namespace_is_made_and_goes_with_all_it_holds(cluster: Kubectl) -> None:
    cluster.run("create", "namespace", "whole")
    cluster.within("whole").run("create", "-f", "-", stdin=models("a", "b"))
    cluster.run("delete", "namespace", "whole")
    assert "NotFound" in cluster.fail("get", "namespace", "whole")
    assert cluster.within("whole").json("get", "mo")["items"] == []


def test_a_namespace_is_applied_and_labelled(cluster: Kubectl) -> None:
    manifest = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: applied\n  labels: {a: LABEL}\n"
    assert "created" in cluster.run("apply", "-f", "-", stdin=manifest.replace("LABEL", "b"))
    assert "configured" in cluster.run("apply", "-f", "-", stdin=manifest.replace("LABEL", "c"))
    cluster.run("label", "ns", "applied", "x=y")
    labels = cluster.json("get", "ns", "applied")["metadata"]["labels"]
    assert labels == {"a": "c", "x": "y", "kubernetes.io/metadata.name": "applied"}


def test_what_a_namespace_is_losing_is_not_added_to(kubectl: Kubectl, cluster: Kubectl) -> None:
    held = model("held").replace("  name: held\n", "  name: held\n  finalizers: [example.com/hold]\n")
    kubectl.run("create", "-f", "-", stdin=held)
    cluster.run("delete", "ns", kubectl.namespace, "--wait=false")
    assert cluster.json("get", "ns", kubectl.namespace)["status"]["phase"] == "Terminating"
    assert "because it is being terminated" in kubectl.fail("create", "-f", "-", stdin=models("late"))
    kubectl.run("patch", "mo", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    cluster.run("wait", "--for=delete", f"ns/{kubectl.namespace}", "--timeout=30s")


def test_a_namespace_must_exist_and_the_default_one_stays(cluster: Kubectl) -> None:
    error = cluster.within("nowhere").fail("create", "-f", "-", stdin=VERSION)
    assert 'namespaces "nowhere" not found' in error
    assert "may not be deleted" in cluster.fail("delete", "ns", "default")
