"""Servers: started, changed without a lost request, kept alive, and ended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import msgspec
import psutil
import pytest
from tests.integration.workloads.support import (
    DEADLINE,
    OWNER,
    QUICK,
    SERVER,
    a_server,
    ask,
    hammering,
    left_running,
    of_data_dir,
    open_workloads,
    place_model,
    server_status,
    servers_of,
    until,
    until_server,
)

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads
from modelwright.ports.errors import Terminal
from modelwright.ports.workloads import Command, Container, Resources, Server

pytestmark = pytest.mark.anyio
replace = msgspec.structs.replace


async def test_a_server_becomes_ready_and_answers(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    await workloads.apply(a_server(data_dir, "v1"))
    status = await until_server(workloads, lambda status: status.up_to_date)
    assert (status.replicas, status.ready_replicas, status.serving_version) == (1, 1, "v1")
    assert [version.phase for version in status.versions] == ["Ready"]
    assert ask(status.port)["text"] == "v1"


async def test_the_same_value_again_changes_nothing(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    server = a_server(data_dir, "v1")
    await workloads.apply(server)
    status = await until_server(workloads, lambda status: status.up_to_date)
    (before,) = servers_of(data_dir)
    await workloads.apply(server)
    assert await server_status(workloads) == status
    assert servers_of(data_dir) == [before]


async def test_replicas_come_and_go_on_one_port_without_touching_the_others(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    server = a_server(data_dir, "v1")
    await workloads.apply(server)
    port = (await until_server(workloads, lambda status: status.up_to_date)).port
    (first,) = servers_of(data_dir)
    with hammering(port):
        for replicas in (3, 2, 1):
            await workloads.apply(replace(server, replicas=replicas))
            status = await until_server(workloads, lambda status: status.up_to_date)
            assert (status.port, status.ready_replicas) == (port, replicas)
            assert len(servers_of(data_dir)) == replicas
            assert first.is_running()


async def test_with_no_replicas_nothing_runs_and_the_port_comes_back(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    server = a_server(data_dir, "v1")
    await workloads.apply(server)
    port = (await until_server(workloads, lambda status: status.up_to_date)).port
    await workloads.apply(replace(server, replicas=0))
    status = await until_server(workloads, lambda status: status.up_to_date and status.replicas == 0)
    assert status.port == port
    assert servers_of(data_dir) == []
    with pytest.raises(ConnectionRefusedError):
        ask(port)
    await workloads.apply(server)
    status = await until_server(workloads, lambda status: status.up_to_date and status.replicas == 1)
    assert status.port == port
    assert ask(port)["text"] == "v1"


async def test_a_new_version_replaces_the_old_without_a_failed_request(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    await workloads.apply(a_server(data_dir, "v1", replicas=2))
    port = (await until_server(workloads, lambda status: status.up_to_date)).port
    with hammering(port) as hammer:
        await workloads.apply(a_server(data_dir, "v2", replicas=2))
        status = await until_server(workloads, lambda status: status.up_to_date)
        await until(lambda: "v2" in hammer.answers[-5:], "an answer of the new version")
    assert (status.serving_version, status.port) == ("v2", port)
    assert len(servers_of(data_dir)) == 2
    assert "v1" in hammer.answers


async def test_while_a_new_version_cannot_be_loaded_the_old_one_serves(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    await workloads.apply(a_server(data_dir, "v1"))
    port = (await until_server(workloads, lambda status: status.up_to_date)).port
    (old,) = servers_of(data_dir)
    with hammering(port) as hammer:
        await workloads.apply(a_server(data_dir, "broken"))
        status = await until_server(workloads, lambda status: status.restarts >= 3)
    assert set(hammer.answers) == {"v1"}
    assert (status.up_to_date, status.serving_version, status.ready_replicas) == (False, "v1", 1)
    (version,) = status.versions
    assert (version.phase, version.failure and version.failure.reason) == ("Failed", "ModelInvalid")
    assert version.failure
    assert "says that it is broken" in version.failure.message
    assert old.is_running()
    await workloads.apply(a_server(data_dir, "v3"))
    assert (await until_server(workloads, lambda status: status.up_to_date)).serving_version == "v3"


async def test_a_candidate_that_loads_all_but_its_default_is_refused(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    await workloads.apply(a_server(data_dir, "v1"))
    await until_server(workloads, lambda status: status.up_to_date)
    await workloads.apply(a_server(data_dir, "v2", "broken"))
    status = await until_server(workloads, lambda status: any(version.phase == "Failed" for version in status.versions))
    assert status.serving_version == "v1"
    assert not status.up_to_date


async def test_an_old_replica_is_restarted_while_the_new_version_is_broken(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    await workloads.apply(a_server(data_dir, "v1"))
    await until_server(workloads, lambda status: status.up_to_date)
    (old,) = servers_of(data_dir)
    await workloads.apply(a_server(data_dir, "broken"))
    await until_server(workloads, lambda status: status.restarts >= 1)
    old.kill()
    port = (await until_server(workloads, lambda status: status.serving_version == "")).port
    await until_server(workloads, lambda status: status.serving_version == "v1")
    assert ask(port)["text"] == "v1"


async def test_a_version_is_switched_in_place_by_the_same_process(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    await workloads.apply(a_server(data_dir, "v1", in_place=True))
    port = (await until_server(workloads, lambda status: status.up_to_date)).port
    (before,) = servers_of(data_dir)
    with hammering(port):
        await workloads.apply(a_server(data_dir, "v1", "v2", in_place=True))
        status = await until_server(workloads, lambda status: status.up_to_date)
        assert status.serving_version == "v2"
        await workloads.apply(a_server(data_dir, "v3", in_place=True))
        status = await until_server(workloads, lambda status: status.up_to_date)
    assert status.serving_version == "v3"
    assert servers_of(data_dir) == [before]


async def test_in_place_the_old_version_outlives_a_crash_while_the_new_one_is_broken(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    await workloads.apply(a_server(data_dir, "v1", in_place=True))
    await until_server(workloads, lambda status: status.up_to_date)
    await workloads.apply(a_server(data_dir, "broken", in_place=True))
    status = await until_server(workloads, lambda status: status.versions[0].phase == "Failed")
    assert (status.serving_version, status.up_to_date) == ("v1", False)
    (before,) = servers_of(data_dir)
    before.kill()
    await until_server(workloads, lambda status: status.restarts == 1 and status.serving_version == "v1")
    await workloads.apply(a_server(data_dir, "v2", in_place=True))
    assert (await until_server(workloads, lambda status: status.up_to_date)).serving_version == "v2"


async def test_a_change_of_port_opens_the_new_one_before_the_old_is_closed(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        wanted = probe.getsockname()[1]
    await workloads.apply(a_server(data_dir, "v1"))
    before = await until_server(workloads, lambda status: status.up_to_date)
    await workloads.apply(a_server(data_dir, "v1", port=wanted))
    after = await until_server(workloads, lambda status: status.up_to_date)
    assert (after.port, ask(wanted)["text"]) == (wanted, "v1")
    with pytest.raises(ConnectionRefusedError):
        ask(before.port)


async def test_a_port_that_another_program_has_is_said_and_taken_once_it_is_free(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        await workloads.apply(a_server(data_dir, "v1", port=port))
        status = await until_server(workloads, lambda status: status.failure is not None)
        assert status.failure
        assert (status.failure.reason, status.failure.retryable) == ("PortTaken", True)
        assert str(port) in status.failure.message
    status = await until_server(workloads, lambda status: status.up_to_date)
    assert (status.port, status.failure) == (port, None)


async def test_a_crashing_server_is_started_again_after_growing_pauses(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    await workloads.apply(a_server(data_dir, "crash"))
    status = await until_server(workloads, lambda status: status.restarts >= 3 and status.failure is not None)
    assert status.failure
    assert status.failure.reason == "CrashLoopBackOff"
    assert "about to crash" in status.failure.message
    assert "code 3" in status.failure.message


async def test_a_killed_replica_is_replaced(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    await workloads.apply(a_server(data_dir, "v1", replicas=2))
    port = (await until_server(workloads, lambda status: status.up_to_date)).port
    servers_of(data_dir)[0].kill()
    status = await until_server(workloads, lambda status: status.restarts == 1 and status.up_to_date)
    assert (status.port, len(servers_of(data_dir))) == (port, 2)


async def test_a_server_over_its_memory_limit_is_ended(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    server = a_server(data_dir, "eat 200", resources=Resources(limits={"memory": "128Mi"}))
    await workloads.apply(server)
    status = await until_server(workloads, lambda status: status.failure is not None)
    assert status.failure
    assert "OOMKilled" in (status.failure.reason, *status.failure.message.split("(")[-1:][0].split(")"))
    await workloads.apply(replace(server, resources=Resources(limits={"memory": "1Gi"})))
    status = await until_server(workloads, lambda status: status.up_to_date)
    assert status.failure is None


async def test_what_is_removed_leaves_nothing(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    await workloads.apply(a_server(data_dir, "v1", replicas=2))
    port = (await until_server(workloads, lambda status: status.up_to_date)).port
    assert await workloads.owners() == {OWNER}
    await workloads.remove(OWNER.uid, "server")
    assert servers_of(data_dir) == []
    assert await workloads.observe(OWNER.uid) == ()
    assert await workloads.owners() == frozenset()
    assert not (data_dir / "run" / OWNER.uid).exists()
    assert list((data_dir / "models").iterdir()) == []
    with pytest.raises(ConnectionRefusedError):
        ask(port)
    await workloads.remove(OWNER.uid, "server")


async def test_models_go_once_no_server_names_them(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    await workloads.apply(a_server(data_dir, "v1"))
    await until_server(workloads, lambda status: status.up_to_date)
    await workloads.apply(a_server(data_dir, "v2"))
    await until_server(workloads, lambda status: status.up_to_date)
    kept = place_model(data_dir, "v2").image.rpartition(":")[2]
    await until(lambda: len(list((data_dir / "models").iterdir())) == 1, "one model to be left")
    assert [folder.name for folder in (data_dir / "models").iterdir()] == [f"image-sha256-{kept}"]


async def test_the_end_of_the_program_ends_its_servers_after_their_requests(data_dir: Path) -> None:
    async with open_workloads(data_dir) as workloads:
        await workloads.apply(a_server(data_dir, "v1"))
        port = (await until_server(workloads, lambda status: status.up_to_date)).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"}")
        writer.write(b"GET /slow HTTP/1.1\r\n\r\n")
        await writer.drain()
    assert b"200 OK" in await reader.read()
    writer.close()
    await writer.wait_closed()
    assert of_data_dir(data_dir) == []


async def test_what_was_served_is_served_again_on_the_same_port_after_a_stop(data_dir: Path) -> None:
    async with open_workloads(data_dir) as workloads:
        await workloads.apply(a_server(data_dir, "v1"))
        port = (await until_server(workloads, lambda status: status.up_to_date)).port
        await workloads.apply(a_server(data_dir, "broken"))
        await until_server(workloads, lambda status: status.restarts >= 1)
    async with open_workloads(data_dir) as workloads:
        status = await until_server(workloads, lambda status: status.serving_version == "v1")
        assert status.port == port
        assert ask(port)["text"] == "v1"


async def test_a_running_server_is_adopted_with_its_socket(data_dir: Path) -> None:
    async with left_running(data_dir) as workloads:
        await workloads.apply(a_server(data_dir, "v1", replicas=2))
        port = (await until_server(workloads, lambda status: status.up_to_date)).port
    before = servers_of(data_dir)
    assert len(before) == 2
    with hammering(port):
        async with left_running(data_dir) as workloads:
            status = await until_server(workloads, lambda status: status.up_to_date)
            assert (status.port, servers_of(data_dir)) == (port, before)
            await workloads.apply(a_server(data_dir, "v2", replicas=3))
            status = await until_server(workloads, lambda status: status.up_to_date)
            assert (status.port, status.ready_replicas, status.serving_version) == (port, 3, "v2")
        assert len(servers_of(data_dir)) == 3
    async with left_running(data_dir) as workloads:
        await until_server(workloads, lambda status: status.up_to_date)
        await workloads.remove(OWNER.uid, "server")
    assert of_data_dir(data_dir) == []


async def test_processes_that_died_unseen_are_replaced(data_dir: Path) -> None:
    async with left_running(data_dir) as workloads:
        await workloads.apply(a_server(data_dir, "v1", replicas=2))
        port = (await until_server(workloads, lambda status: status.up_to_date)).port
    first, second = servers_of(data_dir)
    first.kill()
    await until(lambda: servers_of(data_dir) == [second], "the end of the process")
    async with left_running(data_dir) as workloads:
        status = await until_server(workloads, lambda status: status.up_to_date)
        assert status.port == port
        assert second in servers_of(data_dir)
        await workloads.remove(OWNER.uid, "server")


async def test_a_process_of_this_data_directory_that_no_record_knows_is_ended(data_dir: Path) -> None:
    async with left_running(data_dir) as workloads:
        await workloads.apply(a_server(data_dir, "v1"))
        await until_server(workloads, lambda status: status.up_to_date)
    (stray,) = servers_of(data_dir)
    (data_dir / "run" / OWNER.uid / "server" / "record.json").unlink()
    async with left_running(data_dir) as workloads:
        await until(lambda: not psutil.pid_exists(stray.pid) or stray not in servers_of(data_dir), "its end")
        assert await workloads.owners() == frozenset()


async def test_logs_hold_what_servers_print_and_are_followed_to_the_end(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    server = a_server(data_dir, "v1")
    await workloads.apply(server)
    await until_server(workloads, lambda status: status.up_to_date)
    assert b"serving v1" in b"".join([chunk async for chunk in workloads.logs(OWNER.uid, "server")])

    async def follow() -> bytes:
        return b"".join([chunk async for chunk in workloads.logs(OWNER.uid, "server", follow=True)])

    following = asyncio.create_task(follow())
    await workloads.apply(a_server(data_dir, "v2"))
    await until_server(workloads, lambda status: status.up_to_date)
    await workloads.remove(OWNER.uid, "server")
    async with asyncio.timeout(DEADLINE):
        assert b"serving v1" in await following


async def test_changes_name_the_owner(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    changes = workloads.changes()
    await workloads.apply(a_server(data_dir, "v1"))
    async with asyncio.timeout(DEADLINE):
        async for owner in changes:
            assert owner == OWNER
            if (await server_status(workloads)).up_to_date:
                break


async def test_a_command_serves_on_the_socket_that_it_is_given(
    workloads: EmbeddedWorkloads, data_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "answer.txt").write_text("by command")
    version = {"version": "v", "number": 1, "path": str(tmp_path / "m")}
    (tmp_path / "config.json").write_bytes(msgspec.json.encode({"versions": [version], "defaultVersion": "v"}))
    words = ("--config", "$(CONFIG)", "--fd", "$(MODELWRIGHT_FD)", "--state", "$(MODELWRIGHT_STATE)")
    program = Command(command=SERVER, args=words, env={"CONFIG": str(tmp_path / "config.json")})
    await workloads.apply(Server(name="server", owner=OWNER, program=program, replicas=2))
    status = await until_server(workloads, lambda status: status.up_to_date)
    assert ask(status.port)["text"] == "by command"
    with pytest.raises(Terminal) as refused:
        await workloads.apply(Server(name="server", owner=OWNER, program=Command(command=("sleep", "600"))))
    assert refused.value.reason == "NeedsSocket"


async def test_a_container_is_refused_with_what_to_do(workloads: EmbeddedWorkloads) -> None:
    with pytest.raises(Terminal) as refused:
        await workloads.apply(Server(name="server", owner=OWNER, program=Container(image="tensorflow/serving")))
    assert refused.value.reason == "NeedsContainers"


async def test_a_server_that_does_not_drain_is_ended_once_patience_is_over(data_dir: Path) -> None:
    async with open_workloads(data_dir, replace(QUICK, drain=0.3)) as workloads:
        await workloads.apply(a_server(data_dir, "v1"))
        await until_server(workloads, lambda status: status.up_to_date)
        (server,) = servers_of(data_dir)
        os.kill(server.pid, signal.SIGSTOP)
        await workloads.remove(OWNER.uid, "server")
        assert servers_of(data_dir) == []
