"""`agent fetch`: the init container of a serving Pod in the cloud."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import tarfile
from io import BytesIO
from pathlib import Path

import msgspec
import pytest
from tests.integration import clients
from tests.integration.images.conftest import PASSWORD, USER, DockerRegistry
from tests.integration.jobs.support import docker_config
from tests.integration.serving_agent import hosts
from tests.integration.serving_agent.hosts import FileHost
from tests.integration.serving_agent.pod import DEADLINE_SECONDS, Pod, of, tar_of, version

from modelwright.oci.client import connect
from modelwright.oci.credentials import Credentials
from modelwright.oci.push import push_folder
from modelwright.oci.reference import Reference
from modelwright.oci.session import Options
from modelwright.ports.serving import TASK_VARIABLE
from modelwright.ports.workloads import ModelImage
from modelwright.serve.config import read


def pushed(registry: DockerRegistry, repository: str, model: Path) -> str:
    """The model as an image by digest."""
    options = Options(ca_file=registry.ca_file, credentials=Credentials(USER, PASSWORD) if registry.ca_file else None)
    with connect(Reference(registry.host, repository), options) as images:
        return f"{registry.host}/{repository}@{push_folder(model, images, ('v1',)).digest}"


def test_versions_from_a_registry_and_a_download_are_brought_and_our_server_is_told(
    pod: Pod, host: FileHost, docker_registry: DockerRegistry, models: Path
) -> None:
    image = pushed(docker_registry, "fetch/times", models / "1")
    url, digest = host.add("/v2.tar", tar_of({"top/model.onnx": (models / "2/model.onnx").read_bytes()}))
    one, two = of("v1", 1, ModelImage(image)), version("v2", 7, url, digest)
    ran = pod.fetch(pod.task(one, two, threads=3))
    assert (ran.code, ran.report) == (0, None), ran
    config, _ = read(pod.run_folder / "config.json")
    assert (config.model_name, config.framework_type, config.default_version, config.threads) == (
        "times",
        "onnx",
        "v2",
        3,
    )
    assert [(each.version, each.number, each.labels) for each in config.versions] == [
        ("v1", 1, ()), ("v2", 7, ("stable",)),
    ]  # fmt: skip
    assert Path(config.versions[0].path, "model.onnx").read_bytes() == (models / "1/model.onnx").read_bytes()
    assert Path(config.versions[1].path, "top/model.onnx").read_bytes() == (models / "2/model.onnx").read_bytes()
    total = len(host.files["/v2.tar"])
    assert ran.progress[-1].bytes_done > total
    assert [each.bytes_done for each in ran.progress] == sorted(each.bytes_done for each in ran.progress)


def test_everybody_may_read_what_was_brought_and_nobody_change_it(pod: Pod, host: FileHost) -> None:
    url, digest = host.add("/m.tar", tar_of({"a/model.onnx": b"x"}))
    assert pod.fetch(pod.task(version("v1", 1, url, digest)), "sh", "-c", 'umask 077; exec "$@"', "sh").code == 0
    folder = pod.models / f"file-{digest}"
    modes = {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in (folder / "model").rglob("*")}
    assert modes == {"model/a": 0o555, "model/a/model.onnx": 0o444}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE((pod.run_folder / "config.json").stat().st_mode) == 0o644


def test_tensorflow_serving_is_told_by_its_own_file_and_finds_folders_by_number(pod: Pod, host: FileHost) -> None:
    one = host.add("/1.tar", tar_of({"saved_model.pb": b"1"}))
    two = host.add("/2.tar", tar_of({"export/saved_model.pb": b"2", "export/variables/v": b"3"}))
    task = pod.task(version("a", 4, *one), version("b", 5, *two), layout="tensorflow", framework="tensorflow")
    assert pod.fetch(task).code == 0
    folder = pod.run_folder / "tensorflow"
    assert (folder / "4/saved_model.pb").read_bytes() == b"1"
    assert (folder / "5/variables/v").read_bytes() == b"3"
    assert (pod.run_folder / "models.config").read_text() == (
        "model_config_list {\n  config {\n"
        f'    name: "times"\n    base_path: "{folder}"\n    model_platform: "tensorflow"\n'
        "    model_version_policy {\n      specific {\n        versions: 4\n        versions: 5\n      }\n    }\n"
        '    version_labels { key: "stable" value: 5 }\n  }\n}\n'
    )
    assert not (pod.run_folder / "config.json").exists()


def test_a_server_with_one_folder_gets_the_default_alone(pod: Pod, host: FileHost) -> None:
    one, two = host.add("/a.onnx", b"1"), host.add("/b.onnx", b"2")
    assert pod.fetch(pod.task(version("a", 1, *one), version("b", 2, *two), layout="plain", default="a")).code == 0
    assert (pod.run_folder / "model/a.onnx").read_bytes() == b"1"
    assert [asked.path for asked in host.asked] == ["/a.onnx"]


def test_a_server_with_one_folder_gets_the_one_that_an_archive_consists_of(pod: Pod, host: FileHost) -> None:
    one = host.add("/a.tar", tar_of({"top/a.onnx": b"1", "top/more/b": b"2"}))
    assert pod.fetch(pod.task(version("a", 1, *one), layout="plain")).code == 0
    assert (pod.run_folder / "model/a.onnx").read_bytes() == b"1"


def test_what_is_mounted_from_its_image_is_not_fetched(pod: Pod, models: Path) -> None:
    source = ModelImage("127.0.0.1:1/nowhere@sha256:" + "0" * 64)
    assert pod.fetch(pod.task(of("v1", 1, source), mounted={"v1": str(models / "3")})).code == 0
    config, _ = read(pod.run_folder / "config.json")
    assert config.versions[0].path == str(models / "3")


def test_a_private_registry_takes_the_pull_secret_with_its_own_ca(
    pod: Pod, locked_registry: DockerRegistry, models: Path
) -> None:
    assert locked_registry.ca_file is not None
    image = ModelImage(pushed(locked_registry, "fetch/locked", models / "4"), "regcred")
    missing = pod.fetch(pod.task(of("v1", 1, image))).failure
    assert (missing.reason, missing.retryable) == ("SecretNotFound", False)
    assert "kubectl create secret docker-registry regcred" in missing.message
    docker_config(pod.pull_secret, locked_registry.host, USER, "wrong-canary")
    (pod.pull_secret / "ca.crt").write_bytes(locked_registry.ca_file.read_bytes())
    refused = pod.fetch(pod.task(of("v1", 1, image)))
    assert refused.failure.reason == "RegistryUnauthorized"
    assert "wrong-canary" not in repr(refused)
    docker_config(pod.pull_secret, locked_registry.host, USER, PASSWORD)
    assert pod.fetch(pod.task(of("v1", 1, image))).code == 0


def test_a_private_download_takes_the_download_secret(pod: Pod, host: FileHost) -> None:
    def guarded(handler: hosts.Handler, content: bytes) -> None:
        if handler.headers.get("authorization") == "Bearer t0ken":
            hosts.whole(handler, content)
        else:
            handler.send_error(401)

    url, digest = host.add("/m.onnx", b"model")
    host.faults["/m.onnx"] = guarded
    wanted = pod.task(version("v1", 1, url, digest, "dl"))
    assert "kubectl create secret generic dl" in pod.fetch(wanted).failure.message
    assert pod.fetch(pod.task(version("v1", 1, url, digest))).failure.reason == "DownloadForbidden"
    pod.download_secret.mkdir()
    (pod.download_secret / "token").write_text("t0ken\n")
    assert pod.fetch(wanted).code == 0


def hostile() -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        link = tarfile.TarInfo("model.onnx")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "sha256sum", "reason"),
    [
        pytest.param(b"model", "0" * 64, "ChecksumMismatch", id="a wrong checksum"),
        pytest.param(tar_of({"../../escaped": b"x"}), "", "ArchiveEscapes", id="an archive that escapes"),
        pytest.param(hostile(), "", "ArchiveHasLinks", id="an archive with links"),
        pytest.param(b"model", "abc", "ChecksumInvalid", id="no checksum"),
    ],
)
def test_what_cannot_be_trusted_is_refused_and_nothing_of_it_stays(
    pod: Pod, host: FileHost, content: bytes, sha256sum: str, reason: str
) -> None:
    url, digest = host.add("/m.tar", content)
    failure = pod.fetch(pod.task(version("v1", 1, url, sha256sum or digest))).failure
    assert (failure.reason, failure.retryable) == (reason, False)
    assert pod.files() == {}
    assert list(pod.run_folder.iterdir()) == []
    assert not (pod.folder / "escaped").exists()


def test_a_file_of_the_agents_own_container_is_no_model(pod: Pod) -> None:
    failure = pod.fetch(pod.task(version("v1", 1, "file:///etc/passwd"))).failure
    assert failure.reason == "DownloadPathForbidden"
    assert pod.files() == {}


def test_a_download_goes_on_after_cuts_and_in_the_next_attempt(pod: Pod, host: FileHost) -> None:
    content = os.urandom(600_000)
    url, digest = host.add("/m.onnx", content)
    host.faults["/m.onnx"] = hosts.slow(20_000, 0.05)
    task = pod.task(version("v1", 1, url, digest))
    process = pod.start_fetch(task)
    clients.wait_for(lambda: host.bytes_sent > 100_000, "a part to have come", DEADLINE_SECONDS)
    process.send_signal(signal.SIGTERM)
    assert pod.ended(process).failure.reason == "Interrupted"
    host.faults["/m.onnx"] = hosts.cut_after(200_000)
    assert pod.fetch(task).code == 0
    assert min(asked.start for asked in host.asked[1:]) > 0
    assert hashlib.sha256((pod.models / next(iter(pod.kept())) / "model/m.onnx").read_bytes()).hexdigest() == digest


def test_an_attempt_goes_on_after_faults_and_ends_with_the_reason_when_nothing_arrives_any_more(
    pod: Pod, host: FileHost
) -> None:
    def broken_at_first(handler: hosts.Handler, content: bytes) -> None:
        (hosts.unavailable if len(host.asked) < 6 else hosts.whole)(handler, content)

    one = version("v1", 1, *host.add("/1.onnx", os.urandom(1000)))
    host.faults["/1.onnx"] = broken_at_first
    ran = pod.fetch(pod.task(one))
    assert ran.code == 0
    assert any("DownloadUnavailable" in line and "trying again" in line for line in ran.lines)
    two = version("v2", 2, *host.add("/2.onnx", os.urandom(1000)))
    host.faults["/2.onnx"] = hosts.cut_after(0)
    failure = pod.fetch_impatiently(pod.task(two)).failure
    assert (failure.reason, failure.retryable) == ("DownloadCut", True)


def test_what_is_there_is_not_fetched_again_and_what_was_changed_is(pod: Pod, host: FileHost) -> None:
    url, digest = host.add("/m.onnx", b"model")
    task = pod.task(version("v1", 1, url, digest))
    assert pod.fetch(task).code == pod.fetch(task).code == 0
    assert len(host.asked) == 1
    file = pod.models / next(iter(pod.kept())) / "model/m.onnx"
    file.chmod(0o600)
    file.write_bytes(b"mode1")
    assert pod.fetch(task).code == 0
    assert (file.read_bytes(), len(host.asked)) == (b"model", 2)


def test_a_link_in_the_place_of_a_model_is_not_followed(pod: Pod, host: FileHost, tmp_path: Path) -> None:
    url, digest = host.add("/m.tar", tar_of({"model.onnx": b"x"}))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_bytes(b"1")
    (pod.models / f"file-{digest}").symlink_to(elsewhere)
    assert pod.fetch(pod.task(version("v1", 1, url, digest))).code == 0
    assert [path.name for path in elsewhere.iterdir()] == ["precious"]
    assert not (pod.models / f"file-{digest}").is_symlink()


def test_a_task_that_is_none_is_told(pod: Pod) -> None:
    assert pod.run("fetch", variables={TASK_VARIABLE: "{}"}).failure.reason == "TaskInvalid"
    wrong = pod.task(version("v1", 1, "http://127.0.0.1:1/"), default="v9")
    assert pod.fetch(msgspec.structs.replace(wrong, versions=())).failure.reason == "TaskInvalid"
