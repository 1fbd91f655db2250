"""What comes over a real socket: heads without end, halves, smuggling, slow clients, and clients that leave."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Iterator

import pytest
from tests.integration import hostile
from tests.integration.gateway.conftest import EASY, HARD, Client, Site

BODY = json.dumps({"instances": [EASY]}).encode()
GOOD = b"POST /v1/models/joint:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)

POST = b"POST /v1/models/joint:predict HTTP/1.1\r\nHost: x\r\n"
BAD = [
    b"\r\n\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost x\r\n\r\n",
    b"GET / HTTP/1.1\r\n Host: x\r\n\r\n",
    b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    POST + b"Content-Length: x\r\n\r\n",
    POST + b"Content-Length: -5\r\n\r\nhello",
    POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    POST + b"Transfer-Encoding: gzip, chunked, x\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 300_000,
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 60_000,
    b"GET /" + b"a" * 300_000,
]


@contextlib.contextmanager
def dialled(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as found:
        yield found


def everything(peer: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while data := peer.recv(65536):
            parts.append(data)
    return b"".join(parts)


@pytest.fixture
def port(site: Site, shared: Callable[[str], int]) -> int:
    site.configure(shared("onnx-0"))
    return site.gateway().ready().port


def test_what_is_no_http_is_answered_with_a_4xx_or_the_end(port: int) -> None:
    for data in BAD:
        with dialled(port) as peer:
            with contextlib.suppress(OSError):  # it may have been cut off by now
                peer.sendall(data)
                peer.shutdown(socket.SHUT_WR)
            found = everything(peer)
            assert not found or found.startswith(b"HTTP/1.1 4"), (data[:60], found[:80])
    with Client(port) as client:
        assert client.predict(EASY).status == 200


def test_a_head_without_end_is_cut_off_before_it_has_come(port: int) -> None:
    with dialled(port) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n" + b"X-Filler: yyyyyyyyyyyyyyyy\r\n" * 4000)
        assert b" 431 " in peer.recv(65536)


def test_requests_one_behind_the_other_are_answered_in_order(port: int) -> None:
    with dialled(port) as peer:
        peer.sendall(GOOD * 5 + b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        found = everything(peer)
    assert found.count(b'{"predictions":[0]}') == 5
    assert found.endswith(b"ok\n")


def test_a_request_in_single_bytes_is_a_request(port: int) -> None:
    with dialled(port) as peer:
        for at in range(len(GOOD)):
            peer.sendall(GOOD[at : at + 1])
        assert peer.recv(65536).startswith(b"HTTP/1.1 200")


def test_clients_that_leave_do_no_harm(port: int) -> None:
    for end in (len(GOOD) // 2, len(GOOD)):
        for _ in range(50):
            with dialled(port) as peer:
                peer.sendall(GOOD[:end])
    with Client(port) as client:
        assert client.predict(EASY).status == 200
        text = client.ask("GET", "/metrics").body.decode()
    assert 'code="500"' not in text


def test_whom_a_client_means_to_speak_with_is_not_asked(port: int) -> None:
    with Client(port) as client:
        answer = client.ask("POST", "/v1/models/joint:predict", BODY, {"Host": "evil.example:1"})
        assert (answer.status, answer.by) == (200, "edge")


@pytest.mark.parametrize("cloud", ["onnx-100", ""])
def test_300_hostile_requests_are_refused_and_harm_nobody(site: Site, shared: Callable[[str], int], cloud: str) -> None:
    site.configure(shared("onnx-0"), shared(cloud) if cloud else "", maxRequestBytes=2_000_000)
    gateway = site.gateway().ready()
    gateway.shows(lambda state: state.edge.state == "ready", "the edge model to be known")

    def honest() -> None:
        with Client(gateway.port) as client:
            assert (client.predict(EASY).status, client.infer(HARD).status) == (200, 200)

    data = hostile.requests("/v1/models/joint:predict", "/v2/models/joint/infer", rows=[EASY])
    seen = hostile.assert_survived(gateway.port, gateway.server.popen.pid, data, honest)
    assert 400 in seen
    assert "Traceback" not in gateway.server.log.read_text()
