"""However a task in a Job ends, its report says so."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from tests.integration.jobs.support import Agent, task

from modelwright.ports.job import BuildTask


@pytest.fixture
def wanted(tmp_path: Path) -> BuildTask:
    return task("r.example.com/m", tmp_path)


def test_an_error_that_nobody_expected_is_told_by_its_type_and_place_alone(agent: Agent, wanted: BuildTask) -> None:
    """Its text may hold anything, such as an address with a password in it."""
    ran = agent.ended(agent.start_work("password = 'canary'\nraise LookupError(password)", wanted))
    assert (ran.failure.reason, ran.failure.retryable) == ("InternalError", True)
    assert "LookupError" in ran.failure.message
    assert "in work" in ran.errors
    assert "canary" not in ran.everything


def test_too_little_memory_is_told(agent: Agent, wanted: BuildTask) -> None:
    failure = agent.ended(agent.start_work("bytearray(1 << 62)", wanted)).failure
    assert (failure.reason, failure.retryable) == ("OOMKilled", True)


def test_what_the_system_refuses_is_told_and_tried_again(agent: Agent, wanted: BuildTask, tmp_path: Path) -> None:
    failure = agent.ended(agent.start_work(f"open({str(tmp_path / 'missing')!r})", wanted)).failure
    assert (failure.reason, failure.retryable) == ("SystemError", True)
    assert str(tmp_path / "missing") in failure.message


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_being_told_to_end_is_told_even_while_a_system_call_blocks(
    agent: Agent, wanted: BuildTask, sent: signal.Signals, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    lines = f"import os\nreader, _ = os.pipe()\nopen({str(ready)!r}, 'w').close()\nos.read(reader, 1)"
    process = agent.start_work(lines, wanted)
    while not ready.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(sent)
    ran = agent.ended(process)
    assert (ran.failure.reason, ran.failure.retryable) == ("Interrupted", True)


def test_a_report_that_is_written_stays_though_the_end_comes_after(agent: Agent, wanted: BuildTask) -> None:
    """A signal between the report and the end of the process changes neither."""
    lines = (
        "import atexit, os, signal, time\n"
        "from modelwright.ports.workloads import BuildResult\n"
        "atexit.register(lambda: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(0.2)))\n"
        "return BuildResult('sha256:' + '0' * 64, 'v1', 'r', 1)"
    )
    ran = agent.ended(agent.start_work(lines, wanted))
    assert ran.result.tag == "v1"
    assert ran.lines == []
