"""300 hostile requests at a model server: open, behind a token, and behind TLS."""

from __future__ import annotations

import json
import socket
import ssl
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.contract.pki import Authority
from tests.integration import hostile
from tests.integration.clients import wait_for
from tests.integration.mounted_secret import Secret, pair, trusting
from tests.integration.serve.test_guards import Asker

PREDICT, INFER = "/v1/models/times:predict", "/v2/models/times/infer"


@pytest.mark.parametrize("guard", ["open", "with the token", "without the token", "tls"])
def test_a_model_server_survives_them(site: Any, tmp_path: Path, guard: str) -> None:
    secret, tls = Secret(tmp_path / "secret"), None
    site.write(1, maxRequestBytes=2_000_000)
    arguments: list[str] = []
    if guard == "tls":
        folder = tmp_path / "pki"
        folder.mkdir()
        authority = Authority(folder)
        secret.hold(**pair(authority, "server"))
        arguments, tls = ["--tls-folder", str(secret.folder)], trusting(authority)
    elif guard != "open":
        secret.hold(token=b"right")
        arguments = ["--token-file", str(secret / "token")]
    process = site.start(*arguments).ready()
    port = process.port
    extra = b"Authorization: Bearer right\r\n" if guard == "with the token" else b""

    def honest() -> None:
        with Asker(port, tls) as one:
            assert one.predict("Bearer right") == 200

    data = hostile.requests(PREDICT, INFER, extra)
    seen = hostile.assert_survived(port, process.popen.pid, data, honest, tls)
    assert 400 in seen or guard == "tls"
    assert 401 in seen or guard != "without the token"
    assert "Traceback" not in process.log.read_text()
    assert process.end() == 0


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"GET / HTTP/1.1\r\n" + b"X-Filler: yyyyyyyyyyyyyyyy\r\n" * 4000, 431),
        (b"POST /v1/models/times:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 2000001\r\n\r\n", 413),
        (b"POST /v1/models/times:predict HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n ", 400),
        (b"DELETE /v1/models/times:predict HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    ],
)
def test_what_is_too_long_or_wrong_is_told_before_it_has_come(site: Any, said: bytes, status: int) -> None:
    site.write(1, maxRequestBytes=2_000_000)
    process = site.start().ready()
    with socket.create_connection(("127.0.0.1", process.port), timeout=60) as peer:
        peer.sendall(said)
        answered = peer.recv(65536)
        while b"}" not in answered:
            answered += peer.recv(65536)
    head, _, body = answered.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d" % status)
    assert list(json.loads(body)) == ["error"]


def test_trailers_without_end_are_cut_off(site: Any) -> None:
    site.write(1)
    process = site.start().ready()
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n".encode()
    for trailer in (b"X-A: b\r\n" * 8192, b"X: " + b"y" * (1 << 16)):
        with socket.create_connection(("127.0.0.1", process.port), timeout=60) as peer:
            peer.sendall(head)
            assert sent_until_cut_off(peer, trailer) < 50_000_000


def test_requests_without_end_are_cut_off(site: Any) -> None:
    """Each waits for the answer to the one before it, and takes memory meanwhile."""
    site.write(1)
    process = site.start().ready()
    before = psutil.Process(process.popen.pid).memory_info().rss
    peers = [socket.create_connection(("127.0.0.1", process.port), timeout=60) for _ in range(20)]
    for peer in peers:
        assert sent_until_cut_off(peer, b"GET /v2 HTTP/1.1\r\n\r\n" * 20_000) < 50_000_000
        peer.close()
    assert psutil.Process(process.popen.pid).memory_info().rss - before < 150_000_000
    with Asker(process.port) as one:
        assert one.predict() == 200


def sent_until_cut_off(peer: socket.socket, data: bytes) -> int:
    """Bytes that could be sent before the other side had enough."""
    sent = 0
    try:
        while sent < 50_000_000:
            peer.sendall(data)
            sent += len(data)
    except OSError:
        pass
    return sent


def test_long_bodies_take_a_bounded_share_of_memory_together(site: Any) -> None:
    site.write(1, maxRequestBytes=4_000_000)
    process = site.start().ready()
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n".encode()
    peers = [socket.create_connection(("127.0.0.1", process.port), timeout=60) for _ in range(8)]
    for peer in peers:
        peer.sendall(head + b" " * 3_900_000)
    refused = wait_for(lambda: [peer for peer in peers if answered(peer)], "one to be refused", 60)
    assert all(answered(peer).startswith(b"HTTP/1.1 503") for peer in refused)
    with Asker(process.port) as one:
        assert one.predict() == 200
        assert one.ask("POST", PREDICT, None, " " * 500_000 + '{"instances": [[1, 0]]}')[0] == 200
    for peer in peers:
        peer.close()
    with Asker(process.port) as one:
        body = " " * 3_900_000 + '{"instances": [[1, 0]]}'
        wait_for(lambda: one.ask("POST", PREDICT, None, body)[0] == 200, "room again", 60)


def answered(peer: socket.socket) -> bytes:
    """What has come, which stays to be read."""
    peer.settimeout(0)
    try:
        return peer.recv(64, socket.MSG_PEEK)
    except BlockingIOError:
        return b""
    except (OSError, ssl.SSLError):
        return b""
    finally:
        peer.settimeout(60)
