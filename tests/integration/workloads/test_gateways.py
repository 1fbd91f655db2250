"""Gateways: one process that takes up each change, and a folder that outlives it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from tests.integration.workloads.support import (
    OWNER,
    ask,
    command,
    hammering,
    left_running,
    of_data_dir,
    open_workloads,
    until_server,
)

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads
from modelwright.ports.errors import Invalid
from modelwright.ports.workloads import Gateway, Kept, Server

pytestmark = pytest.mark.anyio
replace = msgspec.structs.replace


def a_gateway(**fields: Any) -> Server:
    values: dict[str, Any] = {"name": "jis", "edge_url": "http://127.0.0.1:1/v1/models/e"} | fields
    return Server(name="gateway", owner=OWNER, program=Gateway(**values))


def gateways_of(data_dir: Path) -> list[psutil.Process]:
    return [process for process in of_data_dir(data_dir) if any("gateway_program" in word for word in command(process))]


def is_up(status: Any) -> bool:
    return bool(status.up_to_date)


async def test_a_gateway_is_told_all_that_is_wanted(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    wanted = a_gateway(
        cloud_url="http://127.0.0.1:2/v1/models/c",
        policy="margin",
        parameters={"threshold": 0.25},
        timeout_seconds=1.5,
        kept=Kept("default/jis"),
        keep_max_bytes=4096,
    )
    await workloads.apply(wanted)
    status = await until_server(workloads, is_up)
    folder = str(data_dir / "hard-examples" / "default" / "jis")
    assert ask(status.port)["config"] == {
        "name": "jis",
        "edge": {"url": "http://127.0.0.1:1/v1/models/e"},
        "cloud": {"url": "http://127.0.0.1:2/v1/models/c"},
        "policy": "margin",
        "parameters": {"threshold": 0.25},
        "timeoutSeconds": 1.5,
        "keepFolder": folder,
        "keepMaxBytes": 4096,
    }
    assert (status.replicas, status.ready_replicas, status.serving_version, status.versions) == (1, 1, "", ())
    assert (status.kept_path, status.kept_bytes, status.failure) == (folder, 0, None)
    assert (data_dir / "hard-examples" / "default" / "jis").stat().st_mode & 0o777 == 0o700


async def test_a_change_is_taken_up_by_the_running_gateway(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    await workloads.apply(a_gateway())
    port = (await until_server(workloads, is_up)).port
    before = gateways_of(data_dir)
    with hammering(port, "/", "/"):
        for number in range(3):
            await workloads.apply(a_gateway(cloud_url=f"http://127.0.0.1:{number + 2}/v1/models/c"))
            status = await until_server(workloads, is_up)
            assert ask(port)["config"]["cloud"]["url"].endswith(f":{number + 2}/v1/models/c")
    assert (status.port, status.restarts) == (port, 0)
    assert gateways_of(data_dir) == before


async def test_a_change_that_it_refuses_is_said_and_the_former_one_goes_on(workloads: EmbeddedWorkloads) -> None:
    await workloads.apply(a_gateway())
    port = (await until_server(workloads, is_up)).port
    await workloads.apply(a_gateway(policy="refused"))
    status = await until_server(workloads, lambda status: status.failure is not None)
    assert status.failure
    assert (status.failure.reason, status.failure.message) == ("ConfigInvalid", "there is no policy 'refused'")
    assert (status.up_to_date, status.ready_replicas) == (False, 1)
    assert ask(port)["config"]["policy"] == "confidence"
    await workloads.apply(a_gateway(policy="random"))
    status = await until_server(workloads, is_up)
    assert (status.failure, ask(port)["config"]["policy"]) == (None, "random")


async def test_a_killed_gateway_comes_back_on_its_port_with_the_latest_configuration(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    await workloads.apply(a_gateway())
    port = (await until_server(workloads, is_up)).port
    await workloads.apply(a_gateway(policy="margin"))
    await until_server(workloads, is_up)
    gateways_of(data_dir)[0].kill()
    status = await until_server(workloads, lambda status: status.restarts == 1 and status.up_to_date)
    assert (status.port, ask(port)["config"]["policy"]) == (port, "margin")


async def test_a_gateway_is_adopted_and_changed_by_the_next_program(data_dir: Path) -> None:
    async with left_running(data_dir) as workloads:
        await workloads.apply(a_gateway())
        port = (await until_server(workloads, is_up)).port
    (before,) = gateways_of(data_dir)
    async with open_workloads(data_dir) as workloads:
        with hammering(port, "/"):
            status = await until_server(workloads, is_up)
            assert status.port == port
            await workloads.apply(a_gateway(policy="margin"))
            await until_server(workloads, is_up)
            answer = ask(port)
            assert (answer["pid"], answer["config"]["policy"]) == (before.pid, "margin")
            assert gateways_of(data_dir) == [before]


async def test_a_folder_outlives_its_gateway_and_its_content_is_counted(data_dir: Path) -> None:
    folder = data_dir / "hard-examples" / "default" / "jis"
    server = a_gateway(kept=Kept("default/jis"), keep_max_bytes=4096)
    async with open_workloads(data_dir) as workloads:
        await workloads.apply(server)
        await until_server(workloads, is_up)
        (folder / "one.json").write_bytes(b"x" * 100)
        await workloads.apply(replace(server, replicas=0))
        await until_server(workloads, lambda status: status.up_to_date and status.replicas == 0)
    async with open_workloads(data_dir) as workloads:
        status = await until_server(workloads, is_up)
        assert (status.kept_path, status.kept_bytes) == (str(folder), 100)
        await workloads.apply(a_gateway(kept=Kept("default/jis"), keep_max_bytes=4096, policy="kept 250"))
        assert (await until_server(workloads, is_up)).kept_bytes == 250
        await workloads.remove(OWNER.uid, "gateway")
    assert (folder / "one.json").exists()


@pytest.mark.parametrize("name", ["", ".", "..", "a/..", "../a", "a/b/c", "/a", "a/", "A", "a\0", "x" * 300])
async def test_a_kept_folder_is_named_plainly(workloads: EmbeddedWorkloads, name: str) -> None:
    with pytest.raises(Invalid):
        await workloads.apply(a_gateway(kept=Kept(name)))


async def test_a_kept_folder_is_not_reached_over_a_link(
    workloads: EmbeddedWorkloads, data_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (data_dir / "hard-examples").mkdir()
    (data_dir / "hard-examples" / "default").symlink_to(tmp_path / "elsewhere")
    await workloads.apply(a_gateway(kept=Kept("default/jis"), keep_max_bytes=4096))
    status = await until_server(workloads, lambda status: status.failure is not None)
    assert status.failure
    assert (status.failure.reason, status.replicas) == ("StorageForbidden", 0)
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_nothing_of_a_removed_gateway_is_left(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    await workloads.apply(a_gateway())
    await until_server(workloads, is_up)
    await workloads.remove(OWNER.uid, "gateway")
    assert gateways_of(data_dir) == []
    assert not (data_dir / "run" / OWNER.uid).exists()
