"""A gateway process from its start to its end, with models that come, go and change meanwhile."""

from __future__ import annotations

import hashlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.gateway.conftest import EASY, HARD, Client, Site, wait_for

from modelwright.gateway.state import GatewayState
from modelwright.http.handover import short_path

Shared = Callable[[str], int]


def test_a_gateway_starts_without_models_and_answers_when_they_come(site: Site, shared: Shared) -> None:
    site.configure()
    gateway = site.gateway().ready()
    assert gateway.state.config_digest == hashlib.sha256(site.config.read_bytes()).hexdigest()
    with Client(gateway.port) as client:
        assert client.ask("GET", "/v2/health/live").status == 200
        assert client.ask("GET", "/v2/health/ready").status == 503
        assert client.predict(EASY).status == 503
        site.configure(shared("onnx-0"))
        gateway.server.popen.send_signal(signal.SIGHUP)
        gateway.shows(lambda state: state.edge.state == "ready", "the edge model to be known")
        assert client.predict(EASY).by == "edge"
        assert client.ask("GET", "/v2/health/ready").status == 200


def test_a_changed_configuration_is_taken_over_in_place_without_a_failed_request(
    site: Site, shared: Shared, load: Any
) -> None:
    models = [shared(name) for name in ("onnx-0", "onnx-50", "onnx-100")]
    site.configure(models[0], models[2])
    gateway = site.gateway().ready()
    pid = gateway.state.pid
    with load(gateway.port) as running:
        for edge, cloud, threshold in ((1, 2, 0.9), (1, 0, 0.9), (1, 0, 0.1), (0, 2, 0.9)) * 2:
            running.more()
            site.configure(models[edge], models[cloud], parameters={"threshold": threshold})
            digest = hashlib.sha256(site.config.read_bytes()).hexdigest()
            gateway.shows(has_digest(digest), "the change in the state")
        running.more()
    assert running.faults == []
    assert {tuple(answer.json["predictions"]) for answer in running.answers} >= {(0, 101), (50, 101), (50, 1), (50, 51)}
    assert gateway.state.pid == pid


def has_digest(digest: str) -> Callable[[GatewayState], bool]:
    return lambda state: state.config_digest == digest


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "cannot be read"),
        ('{"name": "joint", "policy": "nope"}', "there is no policy"),
        ('{"name": "joint", "edge": {"url": "http://x"}}', "not of the form"),
    ],
)
def test_a_configuration_that_is_wrong_leaves_the_former_in_force(
    content: str, told: str, site: Site, shared: Shared
) -> None:
    site.configure(shared("onnx-0"))
    gateway = site.gateway().ready()
    before = gateway.state.config_digest
    site.config.write_text(content)
    state = gateway.shows(lambda state: state.reason, "the reason")
    assert (state.reason, state.config_digest, state.phase) == ("ConfigInvalid", before, "ready")
    assert told in state.message
    with Client(gateway.port) as client:
        assert client.predict(EASY).by == "edge"
    site.configure()
    gateway.shows(lambda state: not state.reason, "the reason to go")


def test_a_gateway_that_cannot_start_says_why(site: Site) -> None:
    site.configure(policy="nope")
    gateway = site.gateway()
    assert gateway.server.popen.wait(30) == 1
    assert (gateway.state.phase, gateway.state.reason) == ("failed", "ConfigInvalid")


def test_models_that_stop_are_replaced_by_the_other_and_come_back(site: Site, load: Any) -> None:
    edge, cloud = site.model("onnx-0"), site.model("onnx-100")
    ports = edge.port, cloud.port
    site.configure(*ports)
    gateway = site.gateway().ready()
    with load(gateway.port) as running:
        running.more()
        assert cloud.end() == 0
        gateway.shows(lambda state: state.cloud.state == "failing", "the cloud model to be missed")
        running.more()
        again = site.model("onnx-100", listen=f"127.0.0.1:{ports[1]}")
        gateway.shows(lambda state: state.cloud.state == "ready", "the cloud model to be back")
        running.more()
        edge.popen.kill()
        gateway.shows(lambda state: state.edge.state == "failing", "the edge model to be missed")
        running.more()
        assert again.port == ports[1]
    assert running.faults == []
    answers = [tuple(answer.json["predictions"]) for answer in running.answers]
    assert {(0, 101), (0, 1), (100, 101)} <= set(answers)


def test_a_cloud_that_hangs_costs_the_timeout_at_most_until_it_is_left_alone(
    site: Site, shared: Shared, load: Any
) -> None:
    cloud = site.model("onnx-100")
    site.configure(shared("onnx-0"), cloud.port, timeoutSeconds=3)
    gateway = site.gateway().ready()
    with Client(gateway.port) as client, load(gateway.port) as running:
        assert client.predict(EASY, HARD).json == {"predictions": [0, 101]}
        cloud.popen.send_signal(signal.SIGSTOP)
        found = {client.predict(HARD).headers["X-Fallback"] for _ in range(20)}
        assert found <= {"cloud TimedOut", "cloud BreakerOpen"}
        running.more()
        cloud.popen.send_signal(signal.SIGCONT)
        wait_for(lambda: client.predict(HARD).by == "cloud", "the cloud model to be asked again")
    assert running.faults == []


def test_generations_on_one_socket_follow_each_other_without_a_failed_request(
    site: Site, shared: Shared, listener: socket.socket, load: Any
) -> None:
    kept = site.folder / "kept"
    site.configure(shared("onnx-0"), shared("onnx-100"), keepFolder=str(kept), keepMaxBytes=10_000_000)
    old = site.gateway(fd=listener.fileno()).ready()
    with load(listener.getsockname()[1]) as running:
        for _ in range(2):
            running.more()
            new = site.gateway(fd=listener.fileno()).ready()
            assert old.server.end() == 0
            old = new
        running.more()
    assert running.faults == []
    assert old.server.end() == 0
    lines = [line for path in kept.glob("hard-*.jsonl") for line in path.read_text().splitlines()]
    assert len(lines) == len([answer for answer in running.answers if answer.by == "mixed"])
    assert all(json.loads(line)["cloud"]["outputs"]["label"] == 101 for line in lines)
    assert list(kept.glob(".hard-*")) == []


def test_the_socket_is_offered_to_a_supervisor_that_was_started_anew(site: Site, listener: socket.socket) -> None:
    path = site.folder / "handover.sock"
    site.configure()
    gateway = site.gateway(fd=listener.fileno(), MODELWRIGHT_HANDOVER=str(path)).ready()
    wait_for(path.exists, "the offer")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer, short_path(path) as address:
        peer.connect(address)
        _, descriptors, _, _ = socket.recv_fds(peer, 1, 1)
    with socket.socket(fileno=descriptors[0]) as got:
        assert got.getsockname() == listener.getsockname()
    assert gateway.server.end() == 0


def test_by_hand_everything_is_said_on_the_command_line(site: Site, shared: Shared) -> None:
    urls = [f"http://127.0.0.1:{shared(name)}/v1/models/m" for name in ("onnx-0", "onnx-100")]
    options = ["--edge", urls[0], "--cloud", urls[1], "--name", "joint", "--policy", "margin", "--threshold", "0.5"]
    more = ["--timeout", "30", "--keep-folder", str(site.folder / "k"), "--listen", "127.0.0.1:0"]
    gateway = site.start("modelwright", "gateway", *options, *more)
    with Client(gateway.port) as client:
        assert client.predict(EASY, HARD).by == "mixed"
    assert gateway.end(signal.SIGINT) == 0
    assert len(list((site.folder / "k").glob("hard-*.jsonl"))) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "give either --config, or --edge and --cloud"),
        (["--edge", "http://h/v1/models/m"], "--edge URL and --cloud URL"),
        (["--edge", "x", "--cloud", "y"], "not of the form"),
        (["--config", "x", "--edge", "y"], "give either"),
        (["--config", "x", "--listen", "here"], "--listen needs HOST:PORT"),
        (["--edge", "x", "--cloud", "y", "--parameter", "a"], "--parameter"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], told: str) -> None:
    command = [sys.executable, "-m", "modelwright", "gateway", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode in (1, 2)
    assert told in done.stderr


def test_the_process_loads_no_framework_and_no_model_server() -> None:
    code = "import sys, modelwright.gateway.app, modelwright.gateway.process; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert not {"numpy", "onnxruntime", "sklearn", "modelwright.serve", "modelwright.engine"} & loaded
