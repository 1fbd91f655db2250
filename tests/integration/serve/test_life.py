"""A server process from its start to its end, alone and beside others on one socket."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def test_generations_on_one_socket_follow_each_other_without_a_failed_request(
    site: Any, listener: socket.socket, load: Any
) -> None:
    site.write(1)
    old = site.start(fd=listener.fileno()).ready()
    with load(listener.getsockname()[1]) as running:
        for number in (2, 3, 4):
            running.more()
            site.config = site.folder / f"config-{number}.json"
            site.write(number)
            new = site.start(fd=listener.fileno()).ready()
            running.more()
            assert old.end() == 0
            running.more()
            old = new
    assert running.faults == []
    assert running.answers[-1] == 4


def test_nothing_is_accepted_before_a_model_is_loaded(site: Any, listener: socket.socket, client: Any) -> None:
    """A generation that cannot load leaves every connection to the one that can."""
    site.write(1)
    site.start(fd=listener.fileno()).ready()
    site.config = site.folder / "bad.json"
    site.write(2, modelName="other", frameworkType="caffe")
    bad = site.start(fd=listener.fileno())
    assert bad.exit() == 1
    assert bad.state.phase == "failed"
    for _ in range(20):
        with client(listener.getsockname()[1]) as one:
            assert one.times() == 1


def test_a_drained_process_answers_what_is_still_open_and_says_close(
    site: Any, listener: socket.socket, client: Any, until: Any
) -> None:
    site.write(1)
    process = site.start("--drain-seconds", "1000", fd=listener.fileno()).ready()
    port = listener.getsockname()[1]
    with client(port) as probe, client(port) as idle, socket.create_connection(("127.0.0.1", port)) as upload:
        assert probe.ask("GET", "/v2/health/ready")[0] == 200
        assert idle.times() == 1
        body = b'{"instances": [[1, 0]]}'
        head = f"POST /v1/models/times:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        upload.sendall(head.encode() + body[:5])
        process.popen.send_signal(signal.SIGTERM)
        process.shows(lambda state: state.phase == "draining", "the drain to begin")
        status, headers, answer = probe.ask("GET", "/v2/health/ready")
        assert (status, answer, headers["Connection"]) == (503, {"ready": False}, "close")
        upload.sendall(body[5:])
        with upload.makefile("rb") as answers:
            whole = answers.read()
        assert whole.startswith(b"HTTP/1.1 200 ")
        assert whole.endswith(b'{"predictions":[[1.0,0.0]]}')
        _, headers, answer = idle.ask("POST", "/v1/models/times:predict", {"instances": [[1, 0]]})
        assert (headers["Connection"], answer) == ("close", {"predictions": [[1.0, 0.0]]})
    assert process.exit() == 0
    assert process.state.phase == "draining"


def test_an_idle_connection_does_not_hold_a_drained_process_for_ever(site: Any, client: Any) -> None:
    site.write(1)
    process = site.start("--drain-seconds", "0.3").ready()
    with client(process.port) as idle:
        assert idle.times() == 1
        assert process.end() == 0
        assert idle.connection.sock.recv(1) == b""


def test_a_process_with_a_socket_of_its_own_accepts_for_a_while_after_it_was_asked_to_end(
    site: Any, client: Any
) -> None:
    site.write(1)
    process = site.start("--drain-seconds", "1000").ready()
    process.popen.send_signal(signal.SIGTERM)
    process.shows(lambda state: state.phase == "draining", "the drain to begin")
    with client(process.port) as late:
        assert late.times() == 1


def test_a_second_signal_ends_at_once(site: Any, client: Any) -> None:
    site.write(1)
    process = site.start("--drain-seconds", "1000").ready()
    with client(process.port) as idle:
        assert idle.times() == 1
        process.popen.send_signal(signal.SIGTERM)
        process.shows(lambda state: state.phase == "draining", "the drain to begin")
        assert process.end() == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("change", "reason", "message"),
    [
        ({"versions": [{"version": "v1", "number": 1, "path": "/nowhere"}]}, "ModelNotFound", "no model folder"),
        ({"frameworkType": "caffe"}, "FrameworkUnavailable", "Convert the model to ONNX"),
        ({"frameworkType": "sklearn"}, "ModelNotFound", "holds no *.skops file"),
    ],
)
def test_a_process_that_can_load_nothing_says_why_and_ends(
    site: Any, change: dict[str, Any], reason: str, message: str
) -> None:
    site.write(1, **change)
    process = site.start()
    assert process.exit() == 1
    state = process.state
    assert (state.phase, state.default_version) == ("failed", None)
    assert state.config_digest
    assert (state.versions[0].state, state.versions[0].reason) == ("failed", reason)
    assert message in state.versions[0].message


def test_a_configuration_that_makes_no_sense_at_the_start_is_reported(site: Any) -> None:
    site.write(1, defaultVersion="v7")
    process = site.start()
    assert process.exit() == 1
    assert (process.state.phase, process.state.reason) == ("failed", "ConfigInvalid")
    assert "'v7' is not listed" in process.state.message


@pytest.mark.parametrize(("library", "extra"), [("onnxruntime", "onnx"), ("skops", "sklearn"), ("tensorflow",) * 2])
def test_a_missing_library_names_the_extra(site: Any, library: str, extra: str) -> None:
    broken = site.folder / "site" / library
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text(f"raise ImportError('{library} is not installed')\n")
    site.write(1, frameworkType=extra)
    process = site.start(env={"PYTHONPATH": str(broken.parent)})
    assert process.exit() == 1
    version = process.state.versions[0]
    assert version.reason == "FrameworkUnavailable"
    assert f'pip install "modelwright[{extra}]"' in version.message


def test_the_start_of_the_program_does_not_load_numpy() -> None:
    code = "import sys, modelwright.serve.process; sys.exit('numpy' in sys.modules or 'uvicorn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Canary:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (os.mkdir, (self.path,))


def test_a_pickle_is_refused_and_its_code_does_not_run(site: Any) -> None:
    canary = site.folder / "canary"
    folder = site.folder / "pickled"
    folder.mkdir()
    (folder / "model.pkl").write_bytes(pickle.dumps(Canary(str(canary))))
    site.write(1, frameworkType="sklearn", versions=[{"version": "v1", "number": 1, "path": str(folder)}])
    process = site.start()
    assert process.exit() == 1
    assert process.state.versions[0].reason == "UnsafeFormat"
    assert not canary.exists()


def test_an_address_that_is_taken_ends_the_start(site: Any, listener: socket.socket) -> None:
    site.write(1)
    process = site.start("--listen", f"127.0.0.1:{listener.getsockname()[1]}")
    assert process.exit() == 1
    assert "choose another port" in process.log.read_text()
    assert (process.state.phase, process.state.reason) == ("failed", "PortInUse")


def test_a_server_outlives_its_parent(site: Any, listener: socket.socket, client: Any, until: Any) -> None:
    site.write(1)
    state = site.folder / "state.json"
    command = [sys.executable, "-m", "modelwright.serve", "--config", str(site.config), "--state", str(state)]
    parent_code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(sys.argv[2:], pass_fds=[int(sys.argv[1])], stderr=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(1000)\n"
    )
    fd = str(listener.fileno())
    with subprocess.Popen(
        [sys.executable, "-c", parent_code, fd, *command, "--fd", fd],
        stdout=subprocess.PIPE,
        pass_fds=[listener.fileno()],
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            with client(listener.getsockname()[1]) as one:
                assert one.times() == 1
                parent.kill()
                parent.wait()
                site.write(2)
                until(lambda: one.times() == 2, "the orphan to follow its configuration")
        finally:
            os.kill(child, signal.SIGKILL)
            until(lambda: not alive(child), "the orphan to end")


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


def test_the_socket_is_offered_to_a_new_supervisor(
    site: Any, listener: socket.socket, until: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("h") / "s"
    site.write(1)
    site.start(fd=listener.fileno(), env={"MODELWRIGHT_HANDOVER": str(path)}).ready()
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(path))
        _, descriptors, _, _ = socket.recv_fds(peer, 1, 1)
    with socket.socket(fileno=descriptors[0]) as received:
        assert received.getsockname() == listener.getsockname()
