"""Tasks of Jobs: how they are read, and what errors mean on a cluster."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from modelwright.agent.advice import advised, described
from modelwright.agent.job import read_task
from modelwright.agent.registries import registries_of
from modelwright.ports.errors import Forbidden, Invalid, Rejected
from modelwright.ports.job import TASK_VARIABLE, BuildTask
from modelwright.ports.workloads import BuildImage, Claim, Efs, HostPath, Nfs, Provenance, Storage

SOURCE = Nfs("nfs.example.com", "/models/resnet")
PROVENANCE = Provenance(namespace="vision", name="mv-3", uid="u-1", model_name="resnet")


def task(secret: str = "", folder: str = "/nowhere", **changes: object) -> BuildTask:
    action = BuildImage(
        source=SOURCE, repository="r.example.com:5000/hub/resnet", tags=("v1",), push_secret=secret,
        provenance=PROVENANCE,
    )  # fmt: skip
    return BuildTask(action=action, secret=folder, **changes)  # type: ignore[arg-type]


def test_a_task_is_read_as_it_was_written() -> None:
    written = task(secret="regcred", plain_http=("a:5000", "b"), destination="r.example.com/hub/m:v1")
    assert read_task({TASK_VARIABLE: msgspec.json.encode(written).decode()}) == written


@pytest.mark.parametrize("text", [None, "", "{}", "[1]", "\udce9", '{"action":{"type":"other"}}'])
def test_a_variable_without_a_task_is_told(text: str | None) -> None:
    with pytest.raises(Invalid) as caught:
        read_task({} if text is None else {TASK_VARIABLE: text})
    assert caught.value.reason == "TaskInvalid"
    assert TASK_VARIABLE in caught.value.message


def test_a_missing_secret_is_told_with_the_command_that_makes_it(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(Forbidden) as caught:
            registries_of(task("regcred", str(folder)))
        assert caught.value.reason == "SecretNotFound"
        assert caught.value.message == (
            "there is no secret vision/regcred, or it has no key: kubectl create secret docker-registry regcred "
            "-n vision --docker-server=r.example.com:5000 --docker-username=USER --docker-password=PASSWORD"
        )


def test_a_secret_of_another_kind_is_told_by_its_keys_alone(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "password").write_text("canary")
    (tmp_path / "username").write_text("builder")
    with pytest.raises(Forbidden, match="but password, username") as caught:
        registries_of(task("regcred", str(tmp_path)))
    assert "canary" not in caught.value.message


@pytest.mark.parametrize("key", [".dockerconfigjson", "config.json"])
def test_both_spellings_of_a_docker_config_are_found(tmp_path: Path, key: str) -> None:
    (tmp_path / key).write_text("{}")
    found = registries_of(task("regcred", str(tmp_path)))
    assert (found.config, found.ca_file) == (tmp_path / key, None)


def test_a_secret_with_a_ca_alone_pushes_without_credentials(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("PEM")
    found = registries_of(task("regcred", str(tmp_path)))
    assert (found.config, found.ca_file) == (None, tmp_path / "ca.crt")


def test_files_beside_a_task_that_names_no_secret_are_not_read(tmp_path: Path) -> None:
    (tmp_path / ".dockerconfigjson").write_text("{}")
    assert registries_of(task("", str(tmp_path))).config is None


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (SOURCE, "the NFS export nfs.example.com:/models/resnet"),
        (HostPath("/data/m", "edge-0"), "/data/m on the node edge-0"),
        (HostPath("/data/m"), "/data/m"),
        (Efs("fs-1::ap"), "the EFS volume fs-1::ap"),
        (Claim("models"), "the claim models"),
        (Claim("models", "resnet/1"), "resnet/1 in the claim models"),
    ],
)
def test_storage_is_told_as_people_know_it(source: Storage, words: str) -> None:
    assert described(source) == words


def test_a_path_in_the_build_is_told_with_where_it_comes_from() -> None:
    said = advised(Rejected("/workspace/build/a is a symbolic link", reason="StorageNotPlain"), task())
    assert said.endswith("(/workspace/build in the build is the NFS export nfs.example.com:/models/resnet)")


def test_who_may_not_push_is_told_which_secret_is_for_which_registry(tmp_path: Path) -> None:
    refused = Forbidden("r.example.com:5000 refused", reason="RegistryUnauthorized")
    assert advised(refused, task()).endswith("; the ModelVersion names no pushSecret")
    (tmp_path / "config.json").write_text('{"auths": {"other.example.com": {"auth": "canary"}}}')
    said = advised(refused, task("regcred", str(tmp_path)))
    assert said.endswith("; the pushSecret regcred has credentials for other.example.com")
    (tmp_path / "config.json").write_text("[")
    assert advised(refused, task("regcred", str(tmp_path))).endswith("has credentials for no registry")
