"""HTTP itself: bodies, connections and what is no HTTP."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression

BODY = b'{"instances": [[1, 0]]}'


def request(body: bytes = BODY, headers: str = "", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return (
        f"POST /v1/models/times:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n{headers}\r\n".encode() + body
    )


def read_answer(stream: Any) -> tuple[int, dict[str, str], bytes]:
    status = int(stream.readline().split()[1])
    headers = {}
    while line := stream.readline().strip():
        name, _, value = line.decode().partition(": ")
        headers[name.lower()] = value
    return status, headers, stream.read(int(headers["content-length"]))


@pytest.fixture
def connection(site: Any) -> Any:
    site.write(1, maxRequestBytes=2_000_000)
    process = site.start().ready()
    with socket.create_connection(("127.0.0.1", process.port), timeout=30) as found, found.makefile("rb") as stream:
        yield found, stream


def test_requests_in_one_packet_are_answered_in_order(connection: Any) -> None:
    found, stream = connection
    found.sendall(request(b'{"instances": [[1, 0]]}') + request(b"{}") + request(b'{"instances": [[3, 0]]}'))
    answers = [read_answer(stream) for _ in range(3)]
    assert [answer[0] for answer in answers] == [200, 400, 200]
    assert json.loads(answers[2][2]) == {"predictions": [[3.0, 0.0]]}


def test_a_chunked_body_and_expect_continue_are_taken(connection: Any) -> None:
    found, stream = connection
    head = "POST /v1/models/times:predict HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
    found.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
    assert stream.readline().startswith(b"HTTP/1.1 100")
    assert stream.readline() == b"\r\n"
    for part in (BODY[:7], BODY[7:]):
        found.sendall(f"{len(part):x}\r\n".encode() + part + b"\r\n")
    found.sendall(b"0\r\n\r\n")
    assert read_answer(stream)[0] == 200


def test_a_body_above_the_limit_is_refused_and_the_connection_goes_on(connection: Any) -> None:
    found, stream = connection
    found.sendall(request(b" " * 2_000_001))
    status, _, body = read_answer(stream)
    assert (status, "2000000 bytes" in json.loads(body)["error"]) == (413, True)
    found.sendall(request())
    assert read_answer(stream)[0] == 200


def test_a_large_body_within_the_limit_is_answered(connection: Any) -> None:
    found, stream = connection
    rows = [[float(index), 0.5] for index in range(50_000)]
    found.sendall(request(json.dumps({"instances": rows}).encode()))
    status, _, body = read_answer(stream)
    assert (status, json.loads(body)["predictions"]) == (200, rows)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/models/times:predict HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/models/times:predict HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    ],
)
def test_what_is_no_http_is_refused_and_the_connection_closed(connection: Any, nonsense: bytes) -> None:
    found, stream = connection
    found.sendall(nonsense)
    assert stream.readline().startswith(b"HTTP/1.1 400")
    assert stream.read() is not None


def test_a_client_that_leaves_early_does_no_harm(connection: Any, site: Any, client: Any, until: Any) -> None:
    found, _ = connection
    found.sendall(request(length=1000))
    found.shutdown(socket.SHUT_RDWR)
    with client(site.processes[0].port) as one:

        def metrics() -> bytes:
            one.connection.request("GET", "/metrics")
            text: bytes = one.connection.getresponse().read()
            return text

        until(lambda: b'code="499"' in metrics(), "the broken request to be counted")
        assert one.times() == 1
    assert "Traceback" not in site.processes[0].log.read_text()


def test_a_scikit_learn_model_is_served_by_hand(site: Any, client: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 2))
    estimator = LogisticRegression().fit(rows, np.where(rows[:, 0] > 0, "right", "left"))
    skops.io.dump(estimator, site.folder / "side.skops")
    command = [sys.executable, "-m", "modelwright.serve", "--model-dir", str(site.folder), "--name", "side"]
    with subprocess.Popen(
        [*command, "--framework", "sklearn", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().decode().rpartition(":")[2])
            with client(port) as one:
                answer = one.ask("POST", "/v1/models/side:predict", {"instances": [[5, 0], [-5, 0]]})[2]
                assert answer == {"predictions": ["right", "left"]}
                body = {"inputs": [{"name": "input", "shape": [1, 2], "datatype": "FP32", "data": [5, 0]}]}
                outputs = one.ask("POST", "/v2/models/side/infer", body)[2]["outputs"]
                assert [output["datatype"] for output in outputs] == ["BYTES", "FP64"]
        finally:
            process.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--config", "a", "--model-dir", "b"],
        ["--config", "a", "--listen", "nowhere"],
        ["--config", "a", "--fd", "x"],
    ],
)
def test_a_wrong_command_line_is_a_usage_error(arguments: list[str]) -> None:
    result = subprocess.run([sys.executable, "-m", "modelwright.serve", *arguments], capture_output=True, check=False)
    assert result.returncode == 2
