"""What a build in a Job says of the folder that it was given."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.integration.images.conftest import DockerRegistry
from tests.integration.jobs.support import Agent, task

from modelwright.ports.job import TASK_VARIABLE, Report

WHERE = "the NFS export nfs.example.com:/models/resnet"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _folder: None, "StoragePathNotFound"),
        (lambda folder: folder.mkdir(), "StorageEmpty"),
        (lambda folder: folder.write_bytes(b"weights"), "StorageNotFolder"),
    ],
)
def test_what_is_no_model_folder_is_told_for_good(
    agent: Agent, docker_registry: DockerRegistry, tmp_path: Path, make: object, reason: str
) -> None:
    make(tmp_path / "model")  # type: ignore[operator]
    failure = agent.run("build", task(f"{docker_registry.host}/hub/none", tmp_path / "model")).failure
    assert (failure.reason, failure.retryable) == (reason, False)
    assert WHERE in failure.message


def test_a_link_is_refused_with_its_name(agent: Agent, model: Path, docker_registry: DockerRegistry) -> None:
    (model / "link").symlink_to("weights.bin")
    failure = agent.run("build", task(f"{docker_registry.host}/hub/none", model)).failure
    assert failure.reason == "StorageNotPlain"
    assert str(model / "link") in failure.message
    assert WHERE in failure.message


def test_a_task_of_another_version_is_told(agent: Agent, model: Path) -> None:
    failure = agent.run("build", task("r.example.com/m", model), **{TASK_VARIABLE: '{"folder": 3}'}).failure
    assert (failure.reason, failure.retryable) == ("TaskInvalid", False)


def test_a_repository_without_a_registry_is_told(agent: Agent, model: Path) -> None:
    assert agent.run("build", task("hub/m", model)).failure.reason == "NoRegistry"


def test_a_report_that_cannot_be_written_fails_the_build(
    agent: Agent, model: Path, docker_registry: DockerRegistry, tmp_path: Path
) -> None:
    wanted = task(f"{docker_registry.host}/hub/unreported", model)
    ran = agent.run("build", wanted, MODELWRIGHT_TERMINATION_FILE=str(tmp_path / "missing" / "log"))
    assert (ran.code, ran.report) == (1, None)
    assert "cannot be written down" in ran.lines[-1]


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users can enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


AS_USER = """
import os, sys
from modelwright.agent import advice, job_build, registries  # before the right to read them goes

import encodings.idna, modelwright.oci.client
from modelwright.agent import job
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65531); os.setuid(65532)
sys.exit(job.build())
"""


def test_a_file_that_the_user_of_builds_cannot_read_is_told_with_the_setting(
    public_folder: Path, docker_registry: DockerRegistry
) -> None:
    model, log = public_folder / "model", public_folder / "log"
    model.mkdir()
    (model / "weights.bin").write_bytes(b"w")
    (model / "weights.bin").chmod(0)
    log.touch()
    log.chmod(0o666)
    wanted = msgspec.json.encode(task(f"{docker_registry.host}/hub/unreadable", model)).decode()
    variables = {TASK_VARIABLE: wanted, "MODELWRIGHT_TERMINATION_FILE": str(log), "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", AS_USER], env=variables, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    failure = msgspec.json.decode(log.read_bytes(), type=Report).failure
    assert failure is not None
    assert failure.reason == "FileUnreadable", failure
    assert str(model / "weights.bin") in failure.message
    user, group = (65532, 65531) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    assert f"as user {user} and group {group}" in failure.message
    assert "build.runAsUser and build.runAsGroup" in failure.message
    assert WHERE in failure.message


def test_the_folder_may_be_read_only(agent: Agent, model: Path, docker_registry: DockerRegistry) -> None:
    before = {path: path.stat() for path in model.rglob("*")}
    for path in [model, *(each for each in before if each.is_dir())]:
        path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert agent.run("build", task(f"{docker_registry.host}/hub/read-only", model)).result.files == 7
    finally:
        for path in [model, *(each for each in before if each.is_dir())]:
            path.chmod(0o755)
