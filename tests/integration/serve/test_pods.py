"""A server as a Pod runs it: its configuration comes later, its end is reported, its state is read from its log."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelwright.ports.job import TERMINATION_LIMIT, Report
from modelwright.ports.workloads import Failure
from modelwright.serve.state import ServerState


def ended(site: Any, *arguments: str, place: tuple[str, ...] = ()) -> Failure:
    """Why a server could not be started, by its termination message; its log says the same."""
    file = site.folder / "termination"
    process = site.start("--termination-file", str(file), *arguments, *place)
    assert process.exit() == 1
    content = file.read_bytes()
    assert len(content) <= TERMINATION_LIMIT
    report = msgspec.json.decode(content, type=Report)
    assert report.result is None
    assert report.failure is not None
    assert report.failure.reason in process.log.read_text()
    return report.failure


def test_a_configuration_that_is_not_there_yet_is_waited_for(site: Any, client: Any) -> None:
    process = site.start()
    with client(process.early_port) as one:
        assert one.ask("GET", "/v2/health/live")[0] == 200
        assert one.ask("GET", "/v2/health/ready")[0] == 503
        assert one.ask("GET", "/v2/models/times/ready")[0] == 404
        status, _, answer = one.ask("POST", "/v1/models/times:predict", {"instances": [[1, 0]]})
        assert (status, list(answer)) == (404, ["error"])
        assert (process.state.phase, process.state.reason) == ("loading", "")
        site.write(1)
        process.ready()
        assert one.times() == 1
        assert one.ask("GET", "/v2/health/ready")[0] == 200
    assert process.port == process.early_port


def test_a_server_that_still_waits_ends_when_it_is_asked_to(site: Any, client: Any) -> None:
    process = site.start()
    with client(process.early_port) as idle:
        assert idle.ask("GET", "/v2/health/ready")[0] == 503
        assert process.end() == 0


def test_a_shared_socket_is_not_waited_with(site: Any, listener: socket.socket) -> None:
    process = site.start(fd=listener.fileno())
    assert process.exit() == 1
    assert (process.state.phase, process.state.reason) == ("failed", "ConfigInvalid")


def test_a_model_that_cannot_be_loaded_is_told_in_the_termination_message(site: Any) -> None:
    site.write(1, 2, default=2, frameworkType="sklearn")
    failure = ended(site)
    assert (failure.reason, failure.retryable) == ("ModelNotFound", False)
    assert failure.message.startswith("version v2: ")


def test_a_wrong_configuration_is_told_in_the_termination_message(site: Any) -> None:
    site.config.write_text("{")
    assert ended(site).reason == "ConfigInvalid"


def test_a_port_in_use_is_told_in_the_termination_message(site: Any, listener: socket.socket) -> None:
    site.write(1)
    failure = ended(site, "--listen", f"127.0.0.1:{listener.getsockname()[1]}")
    assert (failure.reason, failure.retryable) == ("PortInUse", True)
    assert "choose another port" in failure.message


def test_a_state_file_that_cannot_be_written_is_told_in_the_termination_message(site: Any) -> None:
    site.write(1)
    assert ended(site, "--state", str(site.folder / "nowhere" / "state.json")).reason == "CannotStart"


def test_a_message_without_end_fits(site: Any) -> None:
    site.write(1, defaultVersion="é\x01" * 20_000)
    failure = ended(site)
    assert failure.reason == "ConfigInvalid"
    assert failure.message.endswith("…")


def test_a_termination_file_that_is_there_already_is_written_in_place(site: Any) -> None:
    """It is a mount: nothing can be renamed over it."""
    file = site.folder / "termination"
    file.write_bytes(b"x" * 5000)
    inode = file.stat().st_ino
    site.config.write_text("{")
    assert ended(site).reason == "ConfigInvalid"
    assert file.stat().st_ino == inode


@pytest.mark.parametrize("content", ["{", "{}", '{"modelName": "x"}'])
def test_at_the_edge_a_configuration_that_makes_no_sense_is_no_end(site: Any, client: Any, content: str) -> None:
    site.config.write_text(content)
    process = site.start("--stay")
    state = process.shows(lambda state: state.reason, "the reason")
    assert (state.phase, state.reason, state.default_version) == ("loading", "ConfigInvalid", None)
    with client(process.early_port) as one:
        assert one.ask("GET", "/v2/health/live")[0] == 200
        assert one.ask("GET", "/v2/health/ready")[0] == 503
        site.write(1)
        assert process.ready().state.reason == ""
        assert one.times() == 1


def test_at_the_edge_a_model_that_cannot_be_loaded_is_no_end(site: Any, client: Any) -> None:
    site.write(1, frameworkType="caffe")
    process = site.start("--stay")
    state = process.shows(lambda state: state.config_digest, "the configuration to be applied")
    assert (state.phase, state.versions[0].state) == ("loading", "failed")
    assert state.versions[0].reason == "FrameworkUnavailable"
    with client(process.early_port) as one:
        assert one.ask("POST", "/v1/models/times:predict", {"instances": [[1, 0]]})[0] == 503
    site.write(2)
    assert process.ready().state.default_version == "v2"
    assert process.end() == 0


def test_a_port_of_every_address_is_given_apart(site: Any, client: Any) -> None:
    site.write(1)
    process = site.start("--host", "::", "--port", "0", listen=False)
    with client(process.port) as one:
        assert one.times() == 1
    assert "ready http://[::]:" in process.out.read_text()


def test_every_state_is_printed_and_the_log_ends_with_the_last(site: Any, until: Any) -> None:
    site.write(1)
    process = site.start("--report", "--drain-seconds", "0.2").ready()
    site.write(2)

    def settled(state: ServerState) -> bool:  # the digest comes after the versions, the former one's end after both
        return state.config_digest == site.digest and [each.version for each in state.versions] == ["v2"]

    state = process.shows(settled, "the other version alone")

    def printed() -> bool:
        return bool(process.reports) and process.reports[-1] == state

    until(printed, "the last state on stdout")
    assert process.end() == 0
    assert process.reports[-1] == process.state
    assert process.reports[-1].phase == "draining"
    told = [report for place, report in enumerate(process.reports) if place and report == process.reports[place - 1]]
    assert told == []


def test_a_failure_is_the_last_thing_that_is_printed(site: Any) -> None:
    site.config.write_text("{")
    process = site.start("--report")
    assert process.exit() == 1
    assert process.reports[-1].phase == "failed"
    assert process.reports[-1].reason == "ConfigInvalid"


def test_what_a_client_sends_cannot_pass_for_a_line_of_the_log(site: Any) -> None:
    """Who reads states from a log must not read one that a request, or a file's name, has smuggled in."""
    name = 'v1\n{"pid": 1, "phase": "ready", "defaultVersion": "forged"}\n'
    site.write(1, versions=[{"version": name, "number": 1, "path": "/nowhere"}], defaultVersion=name)
    process = site.start("--stay", "--report")
    process.shows(lambda state: state.config_digest, "the configuration to be applied")
    assert "forged" in process.log.read_text()
    for file in (process.log, process.out):
        for line in file.read_text().splitlines():
            with contextlib.suppress(ValueError):
                assert json.loads(line).get("defaultVersion") != "forged"


def test_requests_while_the_process_drains_are_answered_and_told_to_go(site: Any, client: Any) -> None:
    """The kubelet sends SIGTERM after the preStop sleep, and some balancer has still not heard of it."""
    site.write(1)
    process = site.start("--drain-seconds", "1000").ready()
    port = process.port
    with client(port) as kept:
        assert kept.times() == 1
        process.popen.send_signal(signal.SIGTERM)
        process.shows(lambda state: state.phase == "draining", "the drain to begin")
        for _ in range(3):
            with client(port) as late:
                status, headers, _ = late.ask("POST", "/v1/models/times:predict", {"instances": [[1, 0]]})
                assert (status, headers["Connection"]) == (200, "close")
        status, headers, _ = kept.ask("POST", "/v1/models/times:predict", {"instances": [[1, 0]]})
        assert (status, headers["Connection"]) == (200, "close")
    assert process.exit() == 0


def test_the_options_are_those_of_the_program_too(site: Any, tmp_path: Path) -> None:
    file = tmp_path / "termination"
    command = [sys.executable, "-m", "modelwright", "server", "--config", str(site.config)]
    site.config.write_text("{")
    place = ["--host", "127.0.0.1", "--port", "0", "--termination-file", str(file)]
    done = subprocess.run([*command, *place], capture_output=True, check=False)
    assert done.returncode == 1
    failure = msgspec.json.decode(file.read_bytes(), type=Report).failure
    assert failure is not None
    assert failure.reason == "ConfigInvalid"
