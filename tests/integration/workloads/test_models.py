"""Models on this machine: pulled, downloaded, verified, shared, and verified again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.integration.workloads.support import (
    OWNER,
    ask,
    open_workloads,
    serving_folder,
    until_server,
    until_task,
)

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads
from modelwright.ports.workloads import (
    BuildImage,
    Download,
    HostPath,
    ModelImage,
    ModelServer,
    ModelSource,
    ServedVersion,
    Server,
    Task,
)

pytestmark = pytest.mark.anyio
replace = msgspec.structs.replace


def serving(source: ModelSource, version: str = "v1", **fields: bool) -> Server:
    versions = (ServedVersion(version, 1, source),)
    program = ModelServer(model_name="m", framework="onnx", versions=versions, default=version, **fields)
    return Server(name="server", owner=OWNER, program=program)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address at which it can be downloaded."""
    root = tmp_path / "site"
    root.mkdir()
    with serving_folder(root) as address:
        yield root, address


async def test_what_was_built_is_served(workloads: EmbeddedWorkloads, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "answer.txt").write_text("from an image")
    action = BuildImage(source=HostPath(str(tmp_path / "model")), repository="hub/m", tags=("v1",))
    await workloads.apply(Task(name="build", owner=replace(OWNER, uid="mv"), action=action))
    result = (await until_task(workloads, "mv")).result
    assert result
    await workloads.apply(serving(ModelImage(result.resolved)))
    status = await until_server(workloads, lambda status: status.up_to_date)
    assert ask(status.port)["text"] == "from an image"


async def test_a_download_is_verified_and_served(workloads: EmbeddedWorkloads, site: tuple[Path, str]) -> None:
    root, address = site
    (root / "answer.txt").write_text("downloaded")
    sha256 = hashlib.sha256(b"downloaded").hexdigest()
    await workloads.apply(serving(Download(f"{address}/answer.txt", sha256)))
    status = await until_server(workloads, lambda status: status.up_to_date)
    assert ask(status.port)["text"] == "downloaded"


async def test_a_download_that_fails_is_tried_again_and_the_old_version_serves(
    workloads: EmbeddedWorkloads, site: tuple[Path, str]
) -> None:
    root, address = site
    (root / "answer.txt").write_text("first")
    await workloads.apply(serving(Download(f"{address}/answer.txt")))
    port = (await until_server(workloads, lambda status: status.up_to_date)).port
    await workloads.apply(serving(Download(f"{address}/second/answer.txt"), "v2"))
    status = await until_server(workloads, lambda status: status.versions[0].phase == "Failed")
    assert status.versions[0].failure
    assert not status.versions[0].failure.retryable
    assert (status.serving_version, ask(port)["text"]) == ("v1", "first")
    (root / "second").mkdir()
    (root / "second" / "answer.txt").write_text("second")
    await until_server(workloads, lambda status: status.up_to_date)
    assert ask(port)["text"] == "second"


async def test_a_download_that_is_not_what_was_promised_is_not_served(
    workloads: EmbeddedWorkloads, site: tuple[Path, str]
) -> None:
    root, address = site
    (root / "answer.txt").write_text("other")
    await workloads.apply(serving(Download(f"{address}/answer.txt", "0" * 64)))
    status = await until_server(workloads, lambda status: status.versions[0].phase == "Failed")
    assert status.versions[0].failure
    assert status.versions[0].failure.reason == "ChecksumMismatch"
    assert status.replicas == 0


async def test_after_a_restart_a_model_is_used_again_without_its_source(data_dir: Path, site: tuple[Path, str]) -> None:
    root, address = site
    (root / "answer.txt").write_text("kept")
    server = serving(Download(f"{address}/answer.txt"), in_place=True)
    async with open_workloads(data_dir) as workloads:
        await workloads.apply(server)
        await until_server(workloads, lambda status: status.up_to_date)
    (root / "answer.txt").unlink()
    async with open_workloads(data_dir) as workloads:
        status = await until_server(workloads, lambda status: status.up_to_date)
        assert ask(status.port)["text"] == "kept"


async def test_a_model_that_was_changed_on_the_disk_is_not_served(data_dir: Path, site: tuple[Path, str]) -> None:
    root, address = site
    (root / "answer.txt").write_text("true")
    async with open_workloads(data_dir) as workloads:
        await workloads.apply(serving(Download(f"{address}/answer.txt")))
        await until_server(workloads, lambda status: status.up_to_date)
    (kept,) = (data_dir / "models").glob("*/model/answer.txt")
    kept.chmod(0o644)
    kept.write_text("evil")
    async with open_workloads(data_dir) as workloads:
        status = await until_server(workloads, lambda status: status.up_to_date)
        assert ask(status.port)["text"] == "true"


async def test_the_data_directory_is_not_served_by_a_file_address(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    await workloads.apply(serving(Download(f"file://{data_dir}/run/id")))
    status = await until_server(workloads, lambda status: status.versions[0].phase == "Failed")
    assert status.versions[0].failure
    assert status.versions[0].failure.reason == "DownloadPathForbidden"


async def test_a_secret_that_is_missing_is_named(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    await workloads.apply(serving(Download("http://127.0.0.1:9/x", secret="mine")))
    status = await until_server(workloads, lambda status: status.versions[0].phase == "Failed")
    assert status.versions[0].failure
    assert status.versions[0].failure.reason == "SecretNotFound"
    assert str(data_dir / "secrets" / "default" / "mine") in status.versions[0].failure.message
