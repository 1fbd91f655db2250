"""What runs for an object, as `modelwright logs` asks for it: from its beginning to its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.workloads.support import DEADLINE, a_server, open_workloads, until_server, until_task
from tests.unit.embedded.api import Client, Watching

from modelwright.adapters.embedded.apiserver.app import ApiServer
from modelwright.adapters.embedded.apiserver.logs import Logs, is_done
from modelwright.adapters.embedded.store import EmbeddedStore
from modelwright.adapters.embedded.workloads import EmbeddedWorkloads
from modelwright.api.kinds import KINDS
from modelwright.ports.workloads import Command, Owner, Task

pytestmark = pytest.mark.anyio
TRAININGS = "/apis/sedna.io/v1alpha1/namespaces/default/trainingmodels"
TRAINING = {
    "apiVersion": "sedna.io/v1alpha1",
    "kind": "TrainingModel",
    "metadata": {"name": "t"},
    "spec": {
        "modelName": "m",
        "command": ["true"],
        "storage": {"localStorage": {"path": "/tmp/m", "nodeName": "n"}},
        "imageRepo": "hub/m",
    },
}


class Stage:
    """A store, workloads, and the API in front of them."""

    def __init__(self, store: EmbeddedStore, workloads: EmbeddedWorkloads) -> None:
        self.workloads = workloads
        self.api = Client(Logs(ApiServer(store.resources, KINDS), store.resources, workloads))
        self.uid = ""

    async def train(self) -> None:
        """Make the object that tasks run for."""
        answer = await self.api.ask("POST", TRAININGS, TRAINING)
        assert answer.status == 201, answer.body
        self.uid = answer.json["metadata"]["uid"]

    async def say(self, **conditions: str) -> None:
        """Set conditions of the object."""
        since = "2026-01-01T00:00:00Z"
        found = [
            {"type": name, "status": status, "reason": "Because", "message": "", "lastTransitionTime": since}
            for name, status in conditions.items()
        ]
        answer = await self.api.merge(f"{TRAININGS}/t/status", {"status": {"conditions": found}})
        assert answer.status == 200, answer.body

    async def run(self, name: str, script: str) -> None:
        owner = Owner(
            api_version="sedna.io/v1alpha1", kind="TrainingModel", namespace="default", name="t", uid=self.uid
        )
        action = Command(command=("/bin/sh", "-c", script))
        await self.workloads.apply(Task(name=name, owner=owner, action=action))

    async def log(self, **query: str) -> tuple[int, str]:
        answer = await self.api.get(f"{TRAININGS}/t/log", **query)
        return answer.status, answer.body.decode()

    @asynccontextmanager
    async def following(self) -> AsyncIterator[Watching]:
        async with self.api.watch(f"{TRAININGS}/t/log", follow="true") as seen:
            yield seen


@asynccontextmanager
async def opened(data_dir: Path, tmp_path: Path) -> AsyncIterator[Stage]:
    store = await EmbeddedStore.open(tmp_path / "store")
    try:
        async with open_workloads(data_dir) as workloads:
            yield Stage(store, workloads)
    finally:
        await store.close()


@pytest.fixture
async def stage(data_dir: Path, tmp_path: Path) -> AsyncIterator[Stage]:
    async with opened(data_dir, tmp_path) as found:
        yield found


async def line_of(seen: Watching) -> str:
    line = await asyncio.wait_for(seen.lines.get(), DEADLINE)
    assert line is not None, "the log has ended"
    return line.decode()


async def test_a_log_that_is_followed_goes_on_through_attempts_to_the_end(stage: Stage, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    await stage.train()
    async with stage.following() as seen:
        await stage.run("train-1", "echo first; exit 1")
        assert await line_of(seen) == "first"
        await until_task(stage.workloads, stage.uid)
        await stage.say(Succeeded="Unknown", Ready="False")
        await stage.workloads.remove(stage.uid, "train-1")
        await stage.run("train-2", f"echo second; read line < {go}; echo done")
        assert await line_of(seen) == "second"
        await asyncio.to_thread(go.write_text, "\n")
        assert await line_of(seen) == "done"
        await until_task(stage.workloads, stage.uid)
        await stage.say(Succeeded="True", Ready="False")
        assert await asyncio.wait_for(seen.lines.get(), DEADLINE) is None


async def test_attempts_are_shown_in_the_order_in_which_they_ran(stage: Stage) -> None:
    await stage.train()
    for number, name in enumerate(("z", "a", "m")):
        await stage.run(name, f"echo {number}")
        await wait_for(stage, name)
    assert await stage.log() == (200, "0\n1\n2\n")
    await stage.say(Succeeded="False")
    assert await stage.log(follow="true") == (200, "0\n1\n2\n")


async def wait_for(stage: Stage, name: str) -> None:
    async with asyncio.timeout(DEADLINE):
        while not any(
            status.name == name and getattr(status, "phase", "") == "Succeeded"
            for status in await stage.workloads.observe(stage.uid)
        ):
            await asyncio.sleep(0.01)


async def test_several_that_run_are_followed_at_once_in_whole_lines(stage: Stage) -> None:
    await stage.train()
    for name in ("a", "b"):
        await stage.run(name, f"for i in 1 2 3 4 5; do printf {name}; sleep 0.05; echo {name}; done")
    await stage.say(Succeeded="True")
    status, text = await stage.log(follow="true")
    assert status == 200
    assert sorted(text.splitlines()) == ["aa"] * 5 + ["bb"] * 5


async def test_a_kept_task_gives_its_log_after_a_restart(data_dir: Path, tmp_path: Path) -> None:
    async with opened(data_dir, tmp_path) as stage:
        await stage.train()
        await stage.run("train-1", "echo kept")
        await until_task(stage.workloads, stage.uid)
    async with opened(data_dir, tmp_path) as again:
        assert await again.log() == (200, "kept\n")


async def test_without_anything_that_runs_only_a_follower_waits_until_that_is_over(stage: Stage) -> None:
    await stage.train()
    status, text = await stage.log()
    assert (status, "conditions and Events" in text) == (404, True)
    async with stage.following() as seen:
        await stage.say(Succeeded="False", Stalled="True")
        assert await asyncio.wait_for(seen.lines.get(), DEADLINE) is None
    assert (await stage.log(follow="true"))[0] == 404
    assert (await stage.api.get(f"{TRAININGS}/nobody/log")).status == 404


async def test_who_follows_is_let_go_when_the_object_is_deleted(stage: Stage) -> None:
    await stage.train()
    async with stage.following() as seen:
        assert (await stage.api.ask("DELETE", f"{TRAININGS}/t")).status == 200
        assert await asyncio.wait_for(seen.lines.get(), DEADLINE) is None


async def test_logs_of_a_server_are_there_while_it_runs(stage: Stage, data_dir: Path) -> None:
    await stage.train()
    owner = Owner(api_version="sedna.io/v1alpha1", kind="TrainingModel", namespace="default", name="t", uid=stage.uid)
    await stage.workloads.apply(msgspec.structs.replace(a_server(data_dir, "v1"), owner=owner))
    await until_server(stage.workloads, lambda status: status.up_to_date, stage.uid)
    async with stage.following() as seen:
        assert "serving v1" in await line_of(seen)


@pytest.mark.parametrize(
    ("conditions", "done"),
    [
        ({}, False),
        ({"Succeeded": "Unknown", "Ready": "True"}, False),
        ({"Succeeded": "Unknown", "Stalled": "True"}, True),
        ({"Succeeded": "True"}, True),
        ({"Succeeded": "False"}, True),
        ({"Ready": "False", "Reconciling": "True"}, False),
        ({"Ready": "True"}, True),
        ({"Stalled": "True"}, True),
    ],
)
def test_conditions_say_whether_more_is_to_come(conditions: dict[str, str], *, done: bool) -> None:
    value: dict[str, Any] = {"status": {"conditions": [{"type": k, "status": v} for k, v in conditions.items()]}}
    assert is_done(msgspec.json.encode(value)) is done
    assert not is_done(b"{}")
