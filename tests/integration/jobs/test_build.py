"""`modelwright agent build` as the process in a Job, against a real registry."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.images.conftest import (
    PASSWORD,
    USER,
    DockerRegistry,
    Handler,
    ScriptedRegistry,
)
from tests.integration.jobs.support import PROVENANCE, Agent, docker_config, task

from modelwright.agent.build import LocalRegistry, build
from modelwright.lineage import statement
from modelwright.oci import digests
from modelwright.oci.client import RegistryRepository, connect
from modelwright.oci.credentials import Credentials
from modelwright.oci.reference import parse
from modelwright.oci.referrers import attached
from modelwright.oci.session import Options
from modelwright.ports.workloads import BuildImage, HostPath


def fresh(host: str) -> str:
    return f"{host}/hub/{uuid.uuid4().hex[:12]}"


def test_it_pushes_and_reports_what_the_registry_has(
    agent: Agent, model: Path, docker_registry: DockerRegistry
) -> None:
    repository = fresh(docker_registry.host)
    result = agent.run("build", task(repository, model)).result
    with connect(parse(repository)) as images:
        found = images.resolve("v1")
        assert found is not None
        stated = attached(images, digests.parse(result.digest), statement.MEDIA_TYPE, 1 << 20)
    assert (result.digest, result.tag) == (found.digest, "v1")
    assert result.resolved == f"{repository}@{found.digest}"
    assert (result.files, result.metrics, result.metrics_ignored) == (7, {"accuracy": 0.93}, "")
    assert result.size_bytes > 9_000_000
    [document] = stated.documents
    assert json.loads(document)["predicate"]["runDetails"]["metadata"]["invocationId"] == PROVENANCE.uid


def test_the_same_files_have_the_same_digest_as_on_one_machine(
    agent: Agent, model: Path, docker_registry: DockerRegistry, tmp_path: Path
) -> None:
    here = LocalRegistry("127.0.0.1:1", tmp_path / "images")
    action = BuildImage(source=HostPath(str(model)), repository="hub/m", tags=("v1",))
    embedded = build(action, here, forbidden=(), credentials=None, report=lambda _done, _total: None).result
    result = agent.run("build", task(fresh(docker_registry.host), model)).result
    assert result.digest == embedded.digest
    assert (result.size_bytes, result.files, result.metrics) == (embedded.size_bytes, embedded.files, embedded.metrics)


def test_progress_runs_to_the_end_between_lines_for_people(
    agent: Agent, model: Path, docker_registry: DockerRegistry
) -> None:
    ran = agent.run("build", task(fresh(docker_registry.host), model))
    assert [each.bytes_done for each in ran.progress] == sorted(each.bytes_done for each in ran.progress)
    last = ran.progress[-1]
    assert last.bytes_done == last.bytes_total == ran.result.size_bytes
    assert "the NFS export nfs.example.com:/models/resnet" in ran.lines[0]
    assert ran.lines[-1].startswith("pushed ")
    assert ran.errors == ""


def test_doing_it_again_finds_the_same_image(agent: Agent, model: Path, docker_registry: DockerRegistry) -> None:
    wanted = task(fresh(docker_registry.host), model)
    assert agent.run("build", wanted).result == agent.run("build", wanted).result


def test_a_locked_registry_takes_it_with_the_secret_and_its_ca(
    agent: Agent, model: Path, locked_registry: DockerRegistry, tmp_path: Path
) -> None:
    assert locked_registry.ca_file is not None
    secret = docker_config(tmp_path / "secret", locked_registry.host, USER, PASSWORD)
    (secret / "ca.crt").write_bytes(locked_registry.ca_file.read_bytes())
    repository = fresh(locked_registry.host)
    ran = agent.run("build", task(repository, model, push_secret="regcred", secret=str(secret)))
    options = Options(ca_file=locked_registry.ca_file, credentials=Credentials(USER, PASSWORD))
    with connect(parse(repository), options) as images:
        found = images.resolve("v1")
    assert found is not None and found.digest == ran.result.digest
    assert PASSWORD not in ran.everything


def test_a_wrong_password_is_told_without_it(
    agent: Agent, model: Path, locked_registry: DockerRegistry, tmp_path: Path
) -> None:
    assert locked_registry.ca_file is not None
    secret = docker_config(tmp_path / "secret", locked_registry.host, USER, "wr0ng-canary")
    (secret / "ca.crt").write_bytes(locked_registry.ca_file.read_bytes())
    ran = agent.run("build", task(fresh(locked_registry.host), model, push_secret="regcred", secret=str(secret)))
    assert (ran.failure.reason, ran.failure.retryable) == ("RegistryUnauthorized", False)
    assert f"the pushSecret regcred has credentials for {locked_registry.host}" in ran.failure.message
    assert "wr0ng-canary" not in ran.everything


def test_credentials_of_the_containers_own_home_are_not_used(
    agent: Agent, model: Path, locked_registry: DockerRegistry, tmp_path: Path
) -> None:
    assert locked_registry.ca_file is not None
    docker_config(agent.folder / "home" / ".docker", locked_registry.host, USER, PASSWORD, "config.json")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "ca.crt").write_bytes(locked_registry.ca_file.read_bytes())
    wanted = task(fresh(locked_registry.host), model, push_secret="ca-only", secret=str(secret))
    ran = agent.run("build", wanted, DOCKER_CONFIG=str(agent.folder / "home" / ".docker"))
    assert ran.failure.reason == "RegistryUnauthorized"
    assert "the pushSecret ca-only has credentials for no registry" in ran.failure.message


def test_a_private_ca_is_never_passed_over(
    agent: Agent, model: Path, locked_registry: DockerRegistry, tmp_path: Path
) -> None:
    secret = docker_config(tmp_path / "secret", locked_registry.host, USER, PASSWORD)
    ran = agent.run("build", task(fresh(locked_registry.host), model, push_secret="regcred", secret=str(secret)))
    assert ran.failure.reason == "RegistryCertificateInvalid"
    assert "the key ca.crt of the pushSecret regcred" in ran.failure.message


def test_a_secret_that_is_not_there_is_told_with_the_command(
    agent: Agent, model: Path, docker_registry: DockerRegistry, tmp_path: Path
) -> None:
    wanted = task(fresh(docker_registry.host), model, push_secret="regcred", secret=str(tmp_path / "empty"))
    failure = agent.run("build", wanted).failure
    assert (failure.reason, failure.retryable) == ("SecretNotFound", False)
    command = "kubectl create secret docker-registry regcred -n vision "
    assert f"{command}--docker-server={docker_registry.host} " in failure.message


def test_plain_http_is_for_listed_hosts_alone(agent: Agent, model: Path, docker_registry: DockerRegistry) -> None:
    """The name is another one for this machine, and not one of those that can only mean this machine."""
    host = docker_registry.host.replace("127.0.0.1", "127.1")
    failure = agent.run("build", task(fresh(host), model, plain_http=(docker_registry.host,))).failure
    assert (failure.reason, failure.retryable) == ("RegistryNotTLS", False)
    assert "registry.plainHTTP" in failure.message
    assert "--plain-http HOST[:PORT]" in failure.message
    assert agent.run("build", task(fresh(host), model, plain_http=(host,))).result.resolved.startswith(host)


def test_a_base_image_is_taken_over(agent: Agent, model: Path, docker_registry: DockerRegistry, tmp_path: Path) -> None:
    base = fresh(docker_registry.host)
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "shell").write_text("#!")
    below = agent.run("build", task(base, tmp_path / "base")).result
    result = agent.run("build", task(fresh(docker_registry.host), model, base_image=f"{base}:v1")).result
    assert result.digest != below.digest
    assert result.files == 7


def test_a_taken_tag_is_refused(agent: Agent, model: Path, docker_registry: DockerRegistry) -> None:
    wanted = task(fresh(docker_registry.host), model)
    first = agent.run("build", wanted).result
    (model / "config.json").write_text('{"other": 1}')
    assert agent.run("build", wanted).failure.reason == "ImageTagTaken"
    with connect(parse(wanted.action.repository)) as images:
        assert digest_of_tag(images) == first.digest


def digest_of_tag(images: RegistryRepository) -> str:
    found = images.resolve("v1")
    assert found is not None
    return found.digest


def test_metrics_that_are_too_long_to_report_are_said(
    agent: Agent, model: Path, docker_registry: DockerRegistry
) -> None:
    numbers = {f"{number:03}{'m' * 120}": 0.5 for number in range(64)}
    (model / ".modelwright/metrics.json").write_text(json.dumps(numbers))
    result = agent.run("build", task(fresh(docker_registry.host), model)).result
    assert (result.metrics, result.files) == ({}, 7)
    assert "64 metrics do not fit" in result.metrics_ignored


class Held:
    """An upload that the registry never answers, so that a build is in the midst of it for as long as a test needs."""

    def __init__(self, registry: ScriptedRegistry) -> None:
        self.reader, self._writer = os.pipe()
        self.repository = f"{registry.host}/hub/m"
        for method in ("PATCH", "PUT"):
            registry.on(method, "uploads", self._hold, times=99)

    def wait(self) -> None:
        """Until there is one."""
        assert os.read(self.reader, 1) == b"."

    def close(self) -> None:
        os.close(self.reader)
        os.close(self._writer)

    def _hold(self, handler: Handler) -> bool:
        os.write(self._writer, b".")
        handler.rfile.read()  # to the end of the connection, which is that of the agent
        handler.unread, handler.close_connection = 0, True
        return True


@pytest.fixture
def held(scripted: ScriptedRegistry) -> Iterator[Held]:
    made = Held(scripted)
    yield made
    made.close()


def test_a_termination_while_it_pushes_is_reported_at_once(agent: Agent, model: Path, held: Held) -> None:
    process = agent.start("build", task(held.repository, model))
    held.wait()
    process.send_signal(signal.SIGTERM)
    ran = agent.ended(process)
    assert (ran.failure.reason, ran.failure.retryable) == ("Interrupted", True)


def test_a_termination_is_heard_by_the_first_process_of_a_container(agent: Agent, model: Path, held: Held) -> None:
    """The kernel keeps signals from process 1 that it has not asked for."""
    own_processes = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork"]
    process = agent.start("build", task(held.repository, model), *own_processes)
    held.wait()
    [first] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(first), signal.SIGTERM)
    ran = agent.ended(process)
    assert (ran.failure.reason, ran.failure.retryable) == ("Interrupted", True)


def test_no_report_is_half_written_where_the_disk_is_full(agent: Agent, model: Path, held: Held) -> None:
    process = agent.start("build", task(held.repository, model), MODELWRIGHT_TERMINATION_FILE="/dev/full")
    held.wait()
    process.send_signal(signal.SIGTERM)
    ran = agent.ended(process)
    assert (ran.code, ran.report) == (1, None)
