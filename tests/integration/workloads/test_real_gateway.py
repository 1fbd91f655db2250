"""The gateway itself under the supervisor, before a model server that is too simple, and one that is gone."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest
from tests.integration.workloads.support import OWNER, QUICK, REGISTRY, command, of_data_dir, until, until_server

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads
from modelwright.ports.workloads import Gateway, Kept, Server

pytestmark = pytest.mark.anyio


class Model(BaseHTTPRequestHandler):
    """A model that is sure of nothing: TensorFlow Serving's REST, two classes, one score each."""

    def do_GET(self) -> None:
        self.answer({"model_version_status": [{"version": "1", "state": "AVAILABLE"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer({"predictions": [[0.5, 0.5] for _ in asked["instances"]]})

    def answer(self, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@contextmanager
def a_model() -> Iterator[str]:
    """The URL of a model that answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1/models/m"
        finally:
            server.shutdown()
            thread.join()


def joining(**fields: Any) -> Server:
    return Server(name="gateway", owner=OWNER, program=Gateway(name="jis", **fields))


def predict(port: int) -> tuple[str, Any]:
    """Who has answered, and what."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/models/jis:predict", json.dumps({"instances": [[1.0, 2.0]]}).encode()
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers["X-Served-By"], json.loads(answer.read())


def workloads_on(data_dir: Path) -> EmbeddedWorkloads:
    return EmbeddedWorkloads(data_dir, registry=(REGISTRY, data_dir / "images"), timing=QUICK)


async def test_the_gateway_is_changed_in_place_adopted_and_removed(data_dir: Path) -> None:
    kept = {"kept": Kept("default/jis"), "keep_max_bytes": 1 << 20}
    with a_model() as edge:
        async with workloads_on(data_dir) as workloads:
            await workloads.apply(joining(edge_url=edge))
            status = await until_server(workloads, lambda status: status.up_to_date)
            assert predict(status.port) == ("edge", {"predictions": [[0.5, 0.5]]})
            await workloads.apply(joining(edge_url=edge, cloud_url="http://127.0.0.1:9/v1/models/m", **kept))
            after = await until_server(workloads, lambda status: status.up_to_date)
            assert (after.port, after.restarts) == (status.port, 0)
            assert predict(status.port)[0] == "edge"
            await workloads.close(stop_servers=False)
        async with workloads_on(data_dir) as workloads:
            status = await until_server(workloads, lambda status: status.up_to_date and bool(status.asked))
            assert (status.port, status.restarts) == (after.port, 0)
            status = await until_server(workloads, lambda status: len(status.asked) == 2)
            assert [(asked.side, asked.failure is None) for asked in status.asked] == [("edge", True), ("cloud", False)]
            assert status.kept_path == str(data_dir / "hard-examples" / "default" / "jis")
            await workloads.apply(joining(edge_url=edge, policy="no such policy"))
            status = await until_server(workloads, lambda status: status.failure is not None)
            assert status.failure
            assert (status.failure.reason, status.ready_replicas) == ("ConfigInvalid", 1)
            assert predict(status.port)[0] == "edge"
            await workloads.remove(OWNER.uid, "gateway")
        assert of_data_dir(data_dir) == []


async def test_what_a_full_disk_kept_a_gateway_from_saying_is_said_once_there_is_room(data_dir: Path) -> None:
    with a_model() as edge:
        async with workloads_on(data_dir) as workloads:
            await workloads.apply(joining(edge_url=edge))
            await until_server(workloads, lambda status: status.up_to_date and bool(status.asked))
            (gateway,) = [process for process in of_data_dir(data_dir) if "modelwright.gateway" in command(process)]
            (_, hard) = gateway.rlimit(psutil.RLIMIT_FSIZE)
            gateway.rlimit(psutil.RLIMIT_FSIZE, (0, hard))
            await workloads.apply(joining(edge_url=edge, policy="margin"))
            log = data_dir / "run" / OWNER.uid / "gateway"
            await until(lambda: list(log.glob(".state-*")), "the vain attempt to say so")
            (status,) = await workloads.observe(OWNER.uid)
            assert not getattr(status, "up_to_date", True)
            gateway.rlimit(psutil.RLIMIT_FSIZE, (hard, hard))
            assert (await until_server(workloads, lambda status: status.up_to_date)).restarts == 0
