"""apply, get, describe and delete do what they say, and say what they did."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import termios
import time
from pathlib import Path

import pytest
import yaml
from tests.integration.apiserver.kubectl import Kubectl
from tests.integration.cli.support import DEADLINE_SECONDS, Cli

from modelwright.cli.merge import LAST_APPLIED

MODEL = "apiVersion: model.kubedl.io/v1alpha1\nkind: Model\n"
VERSION = """apiVersion: model.kubedl.io/v1alpha1
kind: ModelVersion
metadata: {name: resnet-1}
spec:
  modelName: resnet
  imageRepo: modelhub/resnet
  storage: {localStorage: {path: /models/resnet, nodeName: here}}
"""


def model(name: str = "resnet", description: str = "sees", **labels: str) -> str:
    body = {"metadata": {"name": name, "labels": labels}, "spec": {"description": description}}
    return MODEL + yaml.safe_dump(body, allow_unicode=True)


def apply(cli: Cli, *documents: str) -> list[str]:
    return cli.run("apply", "-f", "-", stdin="\n---\n".join(documents)).splitlines()


# apply --------------------------------------------------------------------------------------------------------------


def test_apply_creates_then_changes_then_leaves_alone(cli: Cli) -> None:
    assert apply(cli, model(), VERSION) == [
        "model.model.kubedl.io/resnet created",
        "modelversion.model.kubedl.io/resnet-1 created",
    ]
    assert apply(cli, model(description="sees more"), VERSION) == [
        "model.model.kubedl.io/resnet configured",
        "modelversion.model.kubedl.io/resnet-1 unchanged",
    ]
    assert apply(cli, model(description="sees more")) == ["model.model.kubedl.io/resnet unchanged"]


def test_what_is_taken_out_of_a_manifest_is_taken_out_of_the_object_alone(cli: Cli, kubectl: Kubectl) -> None:
    apply(cli, model(a="1", b="2"))
    kubectl.run("label", "mo", "resnet", "by=another")
    apply(cli, model(b="2"))
    assert kubectl.json("get", "mo", "resnet")["metadata"]["labels"] == {"b": "2", "by": "another"}


def test_kubectl_and_we_take_turns_on_one_object(cli: Cli, kubectl: Kubectl, tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(model(description="<Grüße> & 'so' on\n", a="1"))
    apply(cli, path.read_text())
    ours = kubectl.json("get", "mo", "resnet")["metadata"]["annotations"][LAST_APPLIED]
    assert kubectl.run("apply", "-f", str(path)) == "model.model.kubedl.io/resnet unchanged\n"
    kubectl.run("delete", "mo", "resnet")
    kubectl.run("apply", "-f", str(path))
    assert kubectl.json("get", "mo", "resnet")["metadata"]["annotations"][LAST_APPLIED] == ours
    assert apply(cli, path.read_text()) == ["model.model.kubedl.io/resnet unchanged"]
    assert apply(cli, model(description="ours")) == ["model.model.kubedl.io/resnet configured"]
    assert kubectl.run("apply", "-f", str(path)) == "model.model.kubedl.io/resnet configured\n"
    assert kubectl.json("get", "mo", "resnet")["metadata"]["labels"] == {"a": "1"}


def test_what_kubectl_created_without_remembering_is_taken_over(cli: Cli, kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", stdin=model())
    assert apply(cli, model(a="1")) == ["model.model.kubedl.io/resnet configured"]


def test_a_dry_run_checks_and_changes_nothing(cli: Cli) -> None:
    assert cli.run("apply", "--dry-run", "-f", "-", stdin=model()) == "model.model.kubedl.io/resnet created (dry run)\n"
    assert "not found" in cli.fail("get", "mo", "resnet")
    assert "spec.storage" in cli.fail("apply", "--dry-run", "-f", "-", stdin=VERSION.partition("  storage")[0])


def test_every_fault_is_told_with_its_field_and_the_rest_is_applied(cli: Cli) -> None:
    wrong = MODEL.replace("Model", "ModelVersion") + "metadata: {name: wrong}\nspec: {imageRepo: 5}"
    unknown = MODEL + "metadata: {name: unknown}\nspec: {fruit: 1}"
    result = cli.fail("apply", "-f", "-", stdin="\n---\n".join([wrong, unknown, model()]))
    lines = result.splitlines()
    assert lines[0] == "error: standard input, document 1: ModelVersion wrong is invalid:"
    assert any(line.startswith("  spec.imageRepo: ") for line in lines)
    assert any(line.startswith("  spec.storage: ") for line in lines)
    assert lines[-2:] == ["error: standard input, document 2: Model unknown is invalid:", "  spec.fruit: unknown field"]
    assert cli.run("get", "mo", "-o", "name") == "model.model.kubedl.io/resnet\n"


def test_an_immutable_spec_is_said_to_be(cli: Cli) -> None:
    apply(cli, VERSION)
    assert "ModelVersion resnet-1 is invalid" in cli.fail("apply", "-f", "-", stdin=VERSION.replace("here", "there"))


def test_a_folder_is_applied_in_order(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "2.yaml").write_text(model("b"))
    (tmp_path / "1.yaml").write_text(model("a"))
    assert cli.run("apply", "-f", str(tmp_path)).split()[::2] == ["model.model.kubedl.io/a", "model.model.kubedl.io/b"]


def test_a_namespace_said_twice_must_be_the_same(cli: Cli) -> None:
    body = model().replace("  name: resnet", "  name: resnet\n  namespace: elsewhere")
    assert "'elsewhere'" in cli.fail("apply", "-f", "-", stdin=body)
    assert "elsewhere" in cli.within("").fail("apply", "-f", "-", stdin=body)


def test_a_kind_that_is_not_served_is_said_to_be(cli: Cli) -> None:
    body = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}"
    assert "has no kind Deployment of apps/v1" in cli.fail("apply", "-f", "-", stdin=body)


# get ----------------------------------------------------------------------------------------------------------------


def test_get_prints_the_servers_columns(cli: Cli) -> None:
    apply(cli, model("b"), model("a", description="first"))
    header, *rows = [re.split(r" {3,}", line.strip()) for line in cli.run("get", "mo").splitlines()]
    assert header == ["NAME", "LATEST", "IMAGE", "VERSIONS", "AGE"]
    assert [row[0] for row in rows] == ["a", "b"]
    wide = cli.run("get", "models", "-o", "wide")
    assert "DESCRIPTION" in wide
    assert "first" in wide


def test_get_prints_as_kubectl_does(cli: Cli, kubectl: Kubectl) -> None:
    apply(cli, model("b"), model("a"), VERSION)
    for words in (["mo"], ["mo", "a"], ["mo", "a", "b"], ["mv", "-o", "wide"], ["mo", "-o", "name"]):
        ours, theirs = cli.run("get", *words), kubectl.run("get", *words)
        assert cells(ours.replace("<none>", "")) == cells(theirs.replace("<none>", ""))
    for words in (["mo", "a"], ["mo", "a", "b"], ["mo"]):
        ours, theirs = cli.run("get", *words, "-o", "json"), kubectl.run("get", *words, "-o", "json")
        assert json.loads(ours).get("items") == json.loads(theirs).get("items")


def cells(printed: str) -> list[list[str]]:
    """The cells of a table, its ages made equal."""
    return [re.sub(r"\b\d+s\b", "AGE", line).split() for line in printed.splitlines()]


def test_get_of_all_our_kinds_tells_them_apart(cli: Cli) -> None:
    apply(cli, model(), VERSION)
    text = cli.run("get", "modelwright")
    assert "model.model.kubedl.io/resnet " in text
    assert "modelversion.model.kubedl.io/resnet-1 " in text


def test_get_in_all_namespaces_says_which(cli: Cli) -> None:
    apply(cli, model())
    header, *rows = [line.split() for line in cli.run("get", "mo", "-A").splitlines()]
    assert header[:2] == ["NAMESPACE", "NAME"]
    assert [cli.namespace, "resnet"] in [row[:2] for row in rows]


def test_get_selects_by_labels(cli: Cli) -> None:
    apply(cli, model("a", team="vision"), model("b", team="text"))
    assert cli.run("get", "mo", "-l", "team=text", "-o", "name") == "model.model.kubedl.io/b\n"


def test_get_gives_whole_objects(cli: Cli) -> None:
    apply(cli, model(), VERSION)
    as_json = json.loads(cli.run("get", "mo/resnet", "-o", "json"))
    assert as_json == yaml.safe_load(cli.run("get", "mo/resnet", "-o", "yaml"))
    assert (as_json["kind"], as_json["spec"]) == ("Model", {"description": "sees"})
    both = json.loads(cli.run("get", "mo,mv", "-o", "json"))
    assert [item["kind"] for item in both["items"]] == ["Model", "ModelVersion"]


def test_get_shows_what_there_is_of_what_was_named(cli: Cli) -> None:
    apply(cli, model("a"), model("b"))
    with cli.start("get", "mo", "a", "none", "b") as process:
        stdout, stderr = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 1
    assert [line.split()[0] for line in stdout.splitlines()] == ["NAME", "a", "b"]
    assert stderr == 'error: models.model.kubedl.io "none" not found\n'


def test_get_of_nothing_says_so_beside_the_output(cli: Cli) -> None:
    with cli.start("get", "mo") as process:
        stdout, stderr = process.communicate(timeout=DEADLINE_SECONDS)
    assert (process.returncode, stdout) == (0, "")
    assert stderr == f"No resources found in namespace {cli.namespace}.\n"


def test_get_goes_on_with_every_change(cli: Cli) -> None:
    apply(cli, model("a"))
    with cli.start("get", "mo", "-w", "-o", "name") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "model.model.kubedl.io/a\n"
        apply(cli, model("b"))
        assert process.stdout.readline() == "model.model.kubedl.io/b\n"
        process.kill()
        process.communicate(timeout=DEADLINE_SECONDS)


def test_a_table_goes_on_with_every_change(cli: Cli) -> None:
    with cli.start("get", "mo", "-w") as process:
        assert process.stdout is not None
        apply(cli, model("a"))
        assert process.stdout.readline().split()[0] == "NAME"
        assert process.stdout.readline().split()[0] == "a"
        cli.run("delete", "mo", "a")
        assert process.stdout.readline().split()[0] == "a"
        process.kill()
        process.communicate(timeout=DEADLINE_SECONDS)


def test_a_terminal_gets_colour_unless_told_not_to(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(cli, model())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1mNAME" in on_terminal(cli, "get", "mo")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in on_terminal(cli, "get", "mo")


def on_terminal(cli: Cli, *words: str) -> str:
    """What a program writes to a terminal."""
    ours, theirs = pty.openpty()
    output = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal, cli.start(*words, stdout=theirs) as process:
        os.close(theirs)
        while chunk := _chunk(terminal.fileno()):
            output += chunk
        assert process.wait(DEADLINE_SECONDS) == 0
    return output.decode()


def _chunk(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # how Linux says that nobody writes any more
        return b""


# describe, delete ---------------------------------------------------------------------------------------------------


def test_describe_shows_an_object_for_reading(cli: Cli, kubectl: Kubectl) -> None:
    apply(cli, model(description="line one\nline two\x1b[2J", team="vision"))
    uid = kubectl.json("get", "mo", "resnet")["metadata"]["uid"]
    about = {"kind": "Model", "name": "resnet", "namespace": cli.namespace, "uid": uid}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": about,
        "type": "Warning",
        "reason": "TooSmall",
        "message": "it sees \x1b[31mlittle",
        "count": 3,
        "lastTimestamp": "2024-02-29T12:00:00Z",
    }
    kubectl.run("create", "-f", "-", stdin=json.dumps(event))
    text = cli.run("describe", "mo", "resnet")
    assert "\x1b" not in text
    assert "Labels:          team=vision" in text
    assert "TooSmall" in text
    assert "(x3)" in text
    assert "line two" in text
    assert LAST_APPLIED not in text


def test_delete_deletes_and_waits(cli: Cli) -> None:
    apply(cli, model("a"), model("b"), model("c"))
    assert cli.run("delete", "mo/a", "mo/b") == "model.model.kubedl.io/a deleted\nmodel.model.kubedl.io/b deleted\n"
    assert cli.run("get", "mo", "-o", "name") == "model.model.kubedl.io/c\n"


def test_delete_takes_manifests_labels_or_all(cli: Cli) -> None:
    apply(cli, model("a"), model("b", team="x"), model("c"), model("d"))
    assert "model.model.kubedl.io/a deleted" in cli.run("delete", "-f", "-", stdin=model("a"))
    assert "model.model.kubedl.io/b deleted" in cli.run("delete", "mo", "-l", "team=x")
    assert cli.run("delete", "mo", "--all").count("deleted") == 2


def test_delete_of_what_is_not_there_fails_unless_told_not_to(cli: Cli) -> None:
    assert "not found" in cli.fail("delete", "mo", "none")
    assert cli.run("delete", "mo", "none", "--ignore-not-found") == ""


def test_delete_waits_for_finalizers_as_long_as_it_is_told_to(cli: Cli, kubectl: Kubectl) -> None:
    apply(cli, model())
    kubectl.run("patch", "mo", "resnet", "--type=merge", "-p", '{"metadata":{"finalizers":["modelwright.dev/test"]}}')
    assert "held by modelwright.dev/test" in cli.fail("delete", "mo", "resnet", "--timeout", "0.5s")
    with cli.start("wait", "--for=delete", "mo/resnet") as process:
        kubectl.run("patch", "mo", "resnet", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        stdout, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert (process.returncode, stdout) == (0, "model.model.kubedl.io/resnet deleted\n")


@pytest.mark.parametrize("verb", ["apply", "delete"])
def test_ctrl_c_ends_a_verb_that_reads_what_nobody_writes(cli: Cli, verb: str) -> None:
    ours, theirs = os.pipe()
    pipe, unfinished = os.fdopen(ours, "rb"), os.fdopen(theirs, "wb", buffering=0)
    with pipe, unfinished, cli.start(verb, "-f", "-", stdin=pipe.fileno()) as process:
        unfinished.write(b"kind: Model\n")
        wait_until_read(pipe.fileno())
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=DEADLINE_SECONDS)
    assert (process.returncode, stderr) == (130, "")


def wait_until_read(pipe: int) -> None:
    """Until another process has taken everything out of a pipe."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Faults -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("get",),
        ("get", "nonsense"),
        ("get", "mo/a/b"),
        ("get", "mo", "a", "-A"),
        ("get", "mo,mv", "-w"),
        ("get", "mo", "-o", "xml"),
        ("describe", "mo"),
        ("delete",),
        ("delete", "mo"),
        ("delete", "mo", "a", "--all"),
        ("delete", "mo", "a", "--timeout", "soon"),
        ("wait", "mo/a", "--for", "luck"),
        ("apply",),
    ],
)
def test_wrong_usage_exits_with_two(cli: Cli, words: tuple[str, ...]) -> None:
    cli.fail(*words, code=2)


def test_no_control_plane_says_what_to_do(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no kubeconfig at" in Cli(tmp_path / "missing").fail("get", "mo")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, and nobody listens
        text = re.sub(
            r"https://127\.0\.0\.1:\d+", f"https://127.0.0.1:{unused.getsockname()[1]}", cli.kubeconfig.read_text()
        )
        (tmp_path / "kubeconfig").write_text(text)
        complaint = Cli(tmp_path / "kubeconfig").fail("get", "mo")
    assert "Connection refused" in complaint
    assert "modelwright up" in complaint


def test_a_kubeconfig_of_another_control_plane_says_so(cli: Cli, tmp_path: Path) -> None:
    text = re.sub(r"token: \S+", "token: another", cli.kubeconfig.read_text())
    (tmp_path / "kubeconfig").write_text(text)
    assert "another control plane" in Cli(tmp_path / "kubeconfig").fail("get", "mo")
