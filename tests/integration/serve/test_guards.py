"""A server that asks for a token, and one that speaks TLS; on both event loops."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.pki import Authority
from tests.integration.mounted_secret import Secret, pair, trusting

from modelwright.serve.state import ServerState

BODY = json.dumps({"instances": [[1, 0]]})
OPEN = ("/v2/health/live", "/v2/health/ready", "/healthz")
CLOSED = (
    "/metrics",
    "/v2",
    "/v2/models/times",
    "/v2/models/times/ready",
    "/v1/models/times",
    "/v1/models/times/metadata",
    "/",
    "/nothing",
    "/v2/health/live/",
    "/v2/health/../models/times",
)


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    return Secret(tmp_path / "secret")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    folder = tmp_path / "pki"
    folder.mkdir()
    return Authority(folder)


@pytest.fixture(params=["uvloop", "asyncio"])
def event_loop_of(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """What makes a server use this event loop: without uvloop it uses asyncio's."""
    if request.param == "uvloop":
        return {}
    hidden = tmp_path / "without" / "uvloop"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('hidden')\n")
    return {"PYTHONPATH": os.pathsep.join([str(hidden.parent), os.environ.get("PYTHONPATH", "")])}


class Asker:
    """One connection, that stays."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.connection = (
            http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            if tls is None
            else http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=tls)
        )

    def ask(self, method: str, path: str, token: str | None = None, body: str | None = None) -> tuple[int, Any, bytes]:
        headers = {} if token is None else {"Authorization": token}
        self.connection.request(method, path, body, headers)
        response = self.connection.getresponse()
        return response.status, response.headers, response.read()

    def predict(self, token: str | None = None) -> int:
        return self.ask("POST", "/v1/models/times:predict", token, BODY)[0]

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()


# Tokens -------------------------------------------------------------------------------------------------------------


def test_without_the_token_only_health_is_answered(site: Any, secret: Secret) -> None:
    secret.hold(token=b"right-token\n")
    site.write(1)
    process = site.start("--token-file", str(secret / "token")).ready()
    with Asker(process.port) as one:
        assert [one.ask("GET", path)[0] for path in OPEN] == [200] * 3
        for token in (
            None,
            "Bearer wrong",
            "Bearer ",
            "Bearer right-toke",
            "Basic right-token",
            "right-token",
            "Bearer",
        ):
            for path in CLOSED:
                status, headers, body = one.ask("GET", path, token)
                assert (status, list(json.loads(body))) == (401, ["error"]), (token, path)
                assert headers["WWW-Authenticate"].startswith('Bearer realm="modelwright"')
                assert ("invalid_token" in headers["WWW-Authenticate"]) == (token is not None)
            assert one.predict(token) == 401
        assert one.predict("Bearer right-token") == 200
        assert one.predict("bearer  right-token ") == 200
        assert one.ask("GET", "/metrics", "Bearer right-token")[0] == 200
        assert one.ask("GET", "/nothing", "Bearer right-token")[0] == 404
    for file in (process.log, process.out, process.state_path):
        assert "right-token" not in file.read_text()


def test_two_tokens_in_one_request_are_none(site: Any, secret: Secret) -> None:
    secret.hold(token=b"right")
    site.write(1)
    process = site.start("--token-file", str(secret / "token")).ready()
    with socket.create_connection(("127.0.0.1", process.port), timeout=60) as peer:
        peer.sendall(b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer right\r\nAuthorization: Bearer x\r\n\r\n")
        assert peer.recv(4096).startswith(b"HTTP/1.1 401")


def test_a_token_that_is_exchanged_counts_soon(site: Any, secret: Secret, until: Any) -> None:
    secret.hold(token=b"old")
    site.write(1)
    process = site.start("--token-file", str(secret / "token")).ready()
    with Asker(process.port) as one:
        assert one.predict("Bearer old") == 200
        secret.hold(token=b"old\nnew\n")
        until(lambda: one.predict("Bearer new") == 200, "the second token to count")
        assert one.predict("Bearer old") == 200
        secret.hold(token=b"new")
        until(lambda: one.predict("Bearer old") == 401, "the first token to count no more")
        assert one.predict("Bearer new") == 200


@pytest.mark.parametrize("content", [None, b"", b" \n\n", b"two words", b"caf\xc3\xa9", b"x" * 5000])
def test_without_a_token_of_its_own_nothing_but_health_is_answered(
    site: Any, secret: Secret, until: Any, content: bytes | None
) -> None:
    secret.hold(token=content)
    site.write(1)
    process = site.start("--token-file", str(secret / "token")).ready()
    state: ServerState = process.state
    assert (state.reason, state.default_version) == ("TokenNotUsable", "v1")
    given = ["Bearer", "Bearer ", "Bearer x", "Bearer two words"]
    with Asker(process.port) as one:
        assert [one.ask("GET", path)[0] for path in OPEN] == [200, 503, 200]
        for token in (None, *given):
            assert one.predict(token) == 503
        secret.hold(token=b"x")
        until(lambda: one.predict("Bearer x") == 200, "the token to count")
        process.shows(lambda state: not state.reason, "the reason to go")
        assert one.ask("GET", "/v2/health/ready")[0] == 200
        secret.hold(token=content)
        until(lambda: one.predict("Bearer x") == 503, "the token to be missed")
        assert process.shows(lambda state: state.reason, "the reason").reason == "TokenNotUsable"


# TLS ----------------------------------------------------------------------------------------------------------------


def test_it_speaks_tls_and_nothing_else(
    site: Any, secret: Secret, authority: Authority, event_loop_of: dict[str, str]
) -> None:
    secret.hold(token=b"right", **pair(authority, "one"))
    site.write(1)
    guards = ("--tls-folder", str(secret.folder), "--token-file", str(secret / "token"))
    process = site.start(*guards, env=event_loop_of).ready()
    assert process.port
    assert "ready https://127.0.0.1:" in process.out.read_text()
    with Asker(process.port, trusting(authority)) as one:
        assert one.ask("GET", "/v2/health/ready")[0] == 200
        assert [one.predict(token) for token in (None, "Bearer right")] == [401, 200]
    with Asker(process.port) as plain, pytest.raises((http.client.HTTPException, OSError)):
        plain.predict("Bearer right")
    with Asker(process.port, ssl.create_default_context()) as stranger, pytest.raises(ssl.SSLCertVerificationError):
        stranger.predict("Bearer right")
    old = trusting(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with Asker(process.port, old) as one:
        assert one.predict("Bearer right") == 200
    assert "Traceback" not in process.log.read_text()
    assert process.end() == 0


def test_another_certificate_is_shown_to_new_connections_and_old_ones_stay(
    site: Any, secret: Secret, authority: Authority, until: Any, event_loop_of: dict[str, str]
) -> None:
    secret.hold(**pair(authority, "one"))
    site.write(1)
    process = site.start("--tls-folder", str(secret.folder), env=event_loop_of).ready()
    trust = trusting(authority)
    with Asker(process.port, trust) as kept:
        assert kept.predict() == 200
        secret.hold(**pair(authority, "two"))
        until(lambda: shown(process.port, trust) == "two", "the other certificate")
        secret.hold(tls_crt=pair(authority, "three")["tls_crt"], tls_key=b"no key")
        state = process.shows(lambda state: state.reason, "the reason")
        assert (state.reason, state.phase) == ("CertificateNotUsable", "ready")
        assert shown(process.port, trust) == "two"
        secret.hold(**pair(authority, "four"))
        until(lambda: shown(process.port, trust) == "four", "the last certificate")
        process.shows(lambda state: not state.reason, "the reason to go")
        assert kept.predict() == 200


def shown(port: int, trust: ssl.SSLContext) -> str:
    """The common name in the certificate that a new connection is shown."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        trust.wrap_socket(plain, server_hostname="127.0.0.1") as peer,
    ):
        subject: Any = (peer.getpeercert() or {})["subject"]
    return str(dict(part[0] for part in subject)["commonName"])


def test_a_server_without_a_certificate_does_not_start(site: Any, secret: Secret, authority: Authority) -> None:
    site.write(1)
    process = site.start("--tls-folder", str(secret.folder))
    assert process.exit() == 1
    assert process.state.reason == "CertificateNotUsable"
    key = pair(authority, "one")["tls_key"]
    secret.hold(tls_crt=pair(authority, "two")["tls_crt"], tls_key=key)
    process = site.start("--tls-folder", str(secret.folder))
    assert process.exit() == 1
    assert process.state.reason == "CertificateNotUsable"


def test_at_the_edge_a_certificate_that_comes_later_is_waited_for(
    site: Any, secret: Secret, authority: Authority, until: Any
) -> None:
    site.write(1)
    process = site.start("--tls-folder", str(secret.folder), "--stay").ready()
    assert process.state.reason == "CertificateNotUsable"
    with Asker(process.port) as plain, pytest.raises((http.client.HTTPException, OSError)):
        plain.predict()
    secret.hold(**pair(authority, "one"))
    process.shows(lambda state: not state.reason, "the certificate to be found")
    with Asker(process.port, trusting(authority)) as one:
        assert one.predict() == 200


@contextlib.contextmanager
def dialled(port: int, *said: bytes) -> Iterator[list[socket.socket]]:
    """Connections on which this has been said, and nothing else is."""
    peers = []
    try:
        for what in said:
            peer = socket.create_connection(("127.0.0.1", port), timeout=60)
            peers.append(peer)
            with contextlib.suppress(OSError):
                peer.sendall(what)
        yield peers
    finally:
        for peer in peers:
            peer.close()


def hello(trust: ssl.SSLContext) -> bytes:
    """The first message of a client that wants to speak TLS."""
    out = ssl.MemoryBIO()
    client = trust.wrap_bio(ssl.MemoryBIO(), out, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


def test_clients_that_do_not_finish_their_handshake_harm_nobody(
    site: Any, secret: Secret, authority: Authority, until: Any, event_loop_of: dict[str, str]
) -> None:
    secret.hold(**pair(authority, "one"))
    site.write(1)
    process = site.start("--tls-folder", str(secret.folder), "--drain-seconds", "60", env=event_loop_of).ready()
    trust = trusting(authority)
    begun = hello(trust)
    silent = [b"", begun, begun[: len(begun) // 2], begun[:3]] * 25
    other = [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\x00" * 1000, begun + b"garbage" * 9]
    with dialled(process.port, *silent, *other * 10) as peers:
        with Asker(process.port, trust) as one:
            assert [one.predict() for _ in range(20)] == [200] * 20
        for peer in peers:  # nobody is waited for without end
            with contextlib.suppress(ConnectionError):
                while peer.recv(65536):
                    pass
    assert "Traceback" not in process.log.read_text()
    with dialled(process.port, b"", begun), Asker(process.port, trust) as late:
        assert late.predict() == 200
        process.popen.send_signal(signal.SIGTERM)
        process.shows(lambda state: state.phase == "draining", "the drain to begin")
        assert late.ask("GET", "/v2/health/ready")[0] == 503
        late.connection.close()
        assert process.exit() == 0


def test_certificates_and_versions_change_together(
    site: Any, secret: Secret, authority: Authority, until: Any, event_loop_of: dict[str, str]
) -> None:
    secret.hold(**pair(authority, "c0"))
    site.write(1)
    process = site.start("--tls-folder", str(secret.folder), env=event_loop_of).ready()
    trust = trusting(authority)
    for number in (1, 2, 3):
        secret.hold(**pair(authority, f"c{number}"))
        site.write(number)
        until(lambda number=number: asked_anew(process.port, trust) == f"c{number}", "the next certificate")
        with Asker(process.port, trust) as one:
            assert one.predict() == 200


def asked_anew(port: int, trust: ssl.SSLContext) -> str:
    """Who answers a request on a new connection."""
    with Asker(port, trust) as one:
        assert one.predict() == 200
    return shown(port, trust)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--tls-cert", "a"],
        ["--tls-key", "a"],
        ["--tls-folder", "a", "--tls-cert", "b", "--tls-key", "c"],
        ["--host", "a"],
        ["--port", "70000"],
    ],
)
def test_options_that_do_not_go_together_are_a_usage_error(site: Any, arguments: list[str]) -> None:
    assert site.start(*arguments, listen="--port" not in arguments).exit() == 2
