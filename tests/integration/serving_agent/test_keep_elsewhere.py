"""`agent keep` on a full disk, without capabilities, from a registry, and beside servers that are not ours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
from tests.integration import clients
from tests.integration.images.conftest import DockerRegistry
from tests.integration.serving_agent import hosts
from tests.integration.serving_agent.beside import Beside
from tests.integration.serving_agent.hosts import FileHost
from tests.integration.serving_agent.pod import DEADLINE_SECONDS, of, of_model, tar_of, version
from tests.integration.serving_agent.test_fetch import pushed
from tests.integration.serving_agent.test_keep import SOON

from modelwright.ports.workloads import ModelImage

AS_AT_THE_EDGE = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
"""Root, with all capabilities dropped."""


def capless() -> tuple[str, ...]:
    """What makes a process so; nothing for a user who has no capabilities anyway."""
    return AS_AT_THE_EDGE if os.geteuid() == 0 and shutil.which("setpriv") else ()


def test_root_without_capabilities_keeps_switches_and_removes(
    beside: Beside, host: FileHost, docker_registry: DockerRegistry, models: Path
) -> None:
    one = of("v1", 1, ModelImage(pushed(docker_registry, "keep/times", models / "1")))
    beside.want(one)
    keeper = beside.keep(*capless())
    beside.serve()
    keeper.settled("v1")
    beside.want(of_model(host, models, 2))
    keeper.settled("v2")
    assert len(beside.pod.kept()) == 1
    (file,) = beside.pod.models.glob("*/model/model.onnx")
    if capless():
        file.chmod(0o644)
    keeper.kill()
    beside.keep(*capless()).settled("v2")


def test_a_keeper_that_is_told_to_end_does_so_and_the_next_goes_on_with_what_came(
    beside: Beside, host: FileHost
) -> None:
    content = tar_of({"m.bin": bytes(6_000_000)})
    host.faults["/m.tar"] = hosts.slow(500_000, 0.1)
    beside.want(version("v1", 1, *host.add("/m.tar", content)))
    keeper = beside.keep()
    clients.wait_for(lambda: host.bytes_sent > 1_500_000, "a part to come", DEADLINE_SECONDS)
    assert keeper.kill(15) == 0
    del host.faults["/m.tar"]
    beside.keep().until(lambda state: state.versions[0].phase == "Loading", "all to be there")
    assert host.asked[-1].start > 0


def test_a_child_ends_with_a_keeper_that_is_killed(beside: Beside, host: FileHost) -> None:
    host.faults["/m.onnx"] = hosts.stalls_after(1)
    beside.want(version("v1", 1, *host.add("/m.onnx", b"model")))
    keeper = beside.keep()
    clients.wait_for(lambda: host.asked, "the download to begin", DEADLINE_SECONDS)
    (child,) = psutil.Process(keeper.process.pid).children()
    keeper.kill()
    clients.wait_for(lambda: has_ended(child), "the child to end", DEADLINE_SECONDS)


def has_ended(process: psutil.Process) -> bool:
    """Whether it is gone, or was not taken up yet by whoever does so."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_full_disk_is_told_and_what_fits_is_brought_all_the_same(
    beside: Beside, host: FileHost, models: Path
) -> None:
    """On a small file system of its own; where none can be had, with files that may not grow over a limit."""
    files = {"big/model.onnx": (models / "2/model.onnx").read_bytes(), "big/ballast.bin": os.urandom(24_000_000)}
    beside.want(of_model(host, models, 1))
    limited = ("sh", "-c", 'ulimit -f 20000; exec "$@"', "sh")
    keeper = beside.keep(*(own_file_system(beside.pod.models) or limited), **SOON)
    keeper.until(lambda state: state.versions[0].phase == "Loading", "v1 to be there")
    beside.want(version("big", 2, *host.add("/big.tar", tar_of(files))))
    state = keeper.until(lambda state: getattr(state.versions[0].failure, "reason", "") == "DiskFull", "a full disk")
    assert state.versions[0].failure is not None
    assert state.versions[0].failure.retryable
    beside.want(of_model(host, models, 3))
    keeper.until(lambda state: state.versions[0].phase == "Loading", "what fits to be there")


def own_file_system(folder: Path) -> tuple[str, ...]:
    """Words to run a program with, for which the folder is a small file system of its own; none if that is refused."""
    mount = 'mount -t tmpfs -o size=16m tmpfs "$0" && exec "$@"'
    words = ("unshare", "--map-root-user", "--mount", "/bin/sh", "-c", mount, str(folder))
    try:
        tried = subprocess.run([*words, "true"], capture_output=True)
    except FileNotFoundError:
        return ()
    return words if tried.returncode == 0 else ()


class Numbered(BaseHTTPRequestHandler):
    """Answers for the versions that TensorFlow Serving's configuration lists, and whose folders hold a SavedModel."""

    config: Path

    def do_GET(self) -> None:
        text = self.config.read_text() if self.config.exists() else ""
        listed = re.findall(r"versions: (\d+)", text)
        base = re.search(r'base_path: "(.*)"', text)
        number = re.fullmatch(r"/v1/models/times/versions/(\d+)/metadata", self.path)
        loaded = number and base and number[1] in listed and Path(base[1], number[1], "saved_model.pb").is_file()
        self.send_response(200 if loaded else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Quiet."""


@contextmanager
def numbered_server(config: Path, port: int) -> Iterator[None]:
    handler = type("Configured", (Numbered,), {"config": config})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield
        server.shutdown()
        thread.join()


def test_tensorflow_serving_is_switched_by_its_configuration(beside: Beside, host: FileHost) -> None:
    one = version("a", 1, *host.add("/1.tar", tar_of({"saved_model.pb": b"1"})))
    two = version("b", 2, *host.add("/2.tar", tar_of({"x/saved_model.pb": b"2"})))
    run = beside.pod.run_folder
    rest = {"layout": "tensorflow", "ready_path": "/v1/models/times/versions/$(VERSION)/metadata"}
    beside.want(one, **rest)
    keeper = beside.keep()
    with numbered_server(run / "models.config", beside.port):
        keeper.settled("a")
        assert 'version_labels { key: "stable" value: 1 }' in (run / "models.config").read_text()
        beside.want(two, **rest)
        keeper.settled("b")
    text = (run / "models.config").read_text()
    assert 'version_labels { key: "stable" value: 2 }' in text
    assert re.findall(r"versions: (\d+)", text) == ["2"]
    assert [path.name for path in (run / "tensorflow").iterdir()] == ["2"]
    assert len(beside.pod.kept()) == 1


def test_a_server_with_one_folder_finds_the_wanted_version_there(beside: Beside, host: FileHost) -> None:
    one, two = host.add("/a.bin", b"1"), host.add("/b.bin", b"2")
    health = hosts.FileHost(beside.port)
    health.add("/health", b"ok")
    try:
        beside.want(version("a", 1, *one), layout="plain", ready_path="/health")
        keeper = beside.keep()
        keeper.settled("a")
        assert (beside.pod.run_folder / "model/a.bin").read_bytes() == b"1"
        beside.want(version("a", 1, *one), version("b", 2, *two), layout="plain", ready_path="/health")
        keeper.settled("b")
        assert (beside.pod.run_folder / "model/b.bin").read_bytes() == b"2"
    finally:
        health.close()
