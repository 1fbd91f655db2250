"""What nobody honest sends: 300 requests that a server answers with 4xx or the end of the connection, and survives."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import psutil

EXPECTED = {100, 200, 400, 401, 404, 405, 413, 415, 431}
PATIENCE = 0.2
_SEED = 6


def requests(path: str, infer: str, extra: bytes = b"", rows: object = None) -> list[bytes]:
    """Hostile requests for a model whose `:predict` is at `path` and whose Open Inference Protocol is at `infer`.

    `extra` are header lines that each of them carries; `rows` is a body that would be answered.
    """
    good = json.dumps({"instances": rows or [[1, 0]]}).encode()
    post = f"POST {path} HTTP/1.1\r\nHost: x\r\n".encode() + extra
    v2 = f"POST {infer} HTTP/1.1\r\nHost: x\r\n".encode() + extra
    found = [*_heads(extra), *_framing(post, good)]
    found += [_with_body(post, body) for body in _bodies(b"instances")]
    found += [_with_body(v2, body) for body in _tensors()]
    found += [
        v2 + b"Inference-Header-Content-Length: " + size + b"\r\nContent-Length: 2\r\n\r\n{}"
        for size in (b"-1", b"x", b"99999999999999999999", b"3", b"", b"1e3", b"0x2")
    ]
    found += list(_mangled(_with_body(post, good), 300 - len(found)))
    return found[:300]


def _heads(extra: bytes) -> Iterator[bytes]:
    host = b"Host: x\r\n" + extra
    yield b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield b"\x00" * 4096
    yield b"\r\n" * 50_000
    for line in (
        b"GET",
        b"GET ",
        b"GET /",
        b"GET / HTTP/9.9",
        b"GET / HTTP/1.1 x",
        b"get / HTTP/1.1",
        b"G\x00T / HTTP/1.1",
    ):
        yield line + b"\r\n" + host + b"\r\n"
    for target in (
        b"//",
        b"*",
        b"http://",
        b"http://[::1/",
        b"/\xff\xfe",
        b"/%",
        b"/%zz%00",
        b"/v1/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        b"/v1/models/../../etc/passwd",
        b"/v1/models/" + b"%41" * 20_000,
        b"/v1/models/x/versions/" + b"9" * 5_000,
        b"/v2/models/%0d%0aX:%20y",
        b"/v1/models/x%0a{%22phase%22:%22ready%22}:predict",
        b"/" * 60_000,
        b"/?" + b"a=b&" * 15_000,
        b"/" + b"a" * 300_000,
    ):
        yield b"GET " + target + b" HTTP/1.1\r\n" + host + b"\r\n"
    for method in (b"CONNECT", b"TRACE", b"DELETE", b"PUT", b"PATCH", b"OPTIONS", b"PURGE", b"M-SEARCH", b"BREW"):
        yield method + b" /v2/health/ready HTTP/1.1\r\n" + host + b"\r\n"
    for header in (
        b"X: " + b"a" * 300_000,
        b"X" * 300_000 + b": a",
        b"X: y\r\n" * 60_000 + b"X: y",
        b"Host x",
        b" folded: x",
        b"X: y\r\n z",
        b": empty",
        b"X\x00: y",
        b"X: y\x00z",
        b"X: \xff\xfe",
        b"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Key: x",
        b"Upgrade: h2c\r\nConnection: upgrade, HTTP2-Settings\r\nHTTP2-Settings: x",
        b"Expect: 100-continue",
        b"Expect: the-unexpected",
        b"Connection: close, keep-alive, \x01",
    ):
        yield b"POST /v1/models/x:predict HTTP/1.1\r\n" + host + header + b"\r\n\r\n"
    yield b"GET /v2 HTTP/1.1\r\n" * 1000 + b"\r\n"
    yield b"GET /nothing HTTP/1.1\r\n\r\n" * 10_000


def _framing(post: bytes, good: bytes) -> Iterator[bytes]:
    for length in (
        b"x",
        b"-5",
        b"+5",
        b"5 5",
        b"5, 5",
        b"0x10",
        b"1e9",
        b"",
        b"9" * 18,
        b"9" * 40,
        b"5\r\nContent-Length: 6",
    ):
        yield post + b"Content-Length: " + length + b"\r\n\r\n" + good
    for coding in (b"gzip", b"chunked, gzip", b"gzip, chunked, x", b"\x0bchunked", b"chunked\r\nContent-Length: 5"):
        yield post + b"Transfer-Encoding: " + coding + b"\r\n\r\n" + b"5\r\nhello\r\n0\r\n\r\n"
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n"
    for chunks in (
        b"zz\r\n",
        b"-1\r\n",
        b"ffffffffffffffff\r\nx",
        b"fffffffffffffffff\r\nx",
        b"5\r\nhello",
        b"5\r\nhelloworld\r\n",
        b"5;" + b"x=y;" * 200_000,
        b"1\r\nx\r\n" * 20_000 + b"z",
        b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 300_000,
        b"2\r\n{}\r\n0\r\nX: " + b"y" * 2_000_000,
        b"0\r\n\r\n",
        b"5\nhello\n0\n\n",
    ):
        yield chunked + chunks
    yield post + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\n\x1f\x8b\x08\x00\x00"
    yield post + b"Content-Length: 1000000000000\r\n\r\n" + good
    yield post + b"Content-Length: 10000000\r\n\r\n" + b" " * 10_000_000


def _bodies(name: bytes) -> Iterator[bytes]:
    quoted = b'{"' + name + b'": '
    yield from (b"", b"\x00", b"{", b"}", b"[]", b"null", b"1", b'""', b"{}", b"nope", b"\xff\xfe", b"\xef\xbb\xbf{}")
    yield from (b"[" * 200_000, b'{"a":' * 100_000, quoted + b"[" * 200_000, b"[" * 900 + b"]" * 900)
    for value in (
        b"null",
        b"true",
        b"1",
        b'"x"',
        b"{}",
        b"[]",
        b"[[]]",
        b"[[], []]",
        b"[1, [2]]",
        b'[["x", "y"]]',
        b"[[null, null]]",
        b"[[true, false]]",
        b"[[1e999, -1e999]]",
        b"[[1, 0, 0, 0, 0, 0, 0]]",
        b"[[1, 0], [1]]",
        b"[{}]",
        b'[{"nothing": 1}]',
        b'[{"b64": "***"}]',
        b'[{"b64": 1}]',
        b"[[" + b"9" * 5_000 + b", 1]]",
        b"[[" + b"9" * 400 + b", 1]]",
        b"[[1, 0]], " + quoted[1:] + b"[[1, 0, 3]]",
        b"[[[[[[[[[[1]]]]]]]]]]",
        b'[["' + b"x" * 100_000 + b'", 1]]',
        b"[[1, 0]]} trailing {",
    ):
        yield quoted + value + b"}"
    for signature in (b"1", b'"nothing"', b"null", b"[]", b'"' + b"s" * 50_000 + b'"'):
        yield quoted + b'[[1, 0, 3, 4, 5]], "signature_name": ' + signature + b"}"


def _tensors() -> Iterator[bytes]:
    huge = ([1 << 62, 1 << 62], [2, 1 << 63], [1] * 1000)
    shapes: tuple[Any, ...] = ([-1, 2], [0], [1], [], ["x"], None, [1.5, 2], [1, 2, 3], *huge)
    kinds = ("FP32", "FP64", "BYTES", "NOPE", "", None, 3)
    for shape in shapes:
        yield json.dumps({"inputs": [{"name": "x", "shape": shape, "datatype": "FP32", "data": [1]}]}).encode()
    for kind in kinds:
        yield json.dumps({"inputs": [{"name": "x", "shape": [1, 9], "datatype": kind, "data": ["a"]}]}).encode()
    wrong: tuple[Any, ...] = ([], {}, None, [None], [[]], [{}], [{"name": "x"}], [{"name": "x", "shape": [1]}], "x", 1)
    for inputs in wrong:
        yield json.dumps({"inputs": inputs}).encode()
    tensor = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2, 3]}
    yield json.dumps({"inputs": [tensor, tensor]}).encode()
    yield json.dumps({"inputs": [tensor] * 1000}).encode()
    yield json.dumps({"inputs": [tensor], "outputs": [{"name": "nothing"}]}).encode()
    yield json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": -1}}]}).encode()
    yield json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": 1 << 60}}]}).encode()


def _with_body(head: bytes, body: bytes) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _mangled(good: bytes, count: int) -> Iterator[bytes]:
    """An honest request with some bytes changed, left out or doubled."""
    die = random.Random(_SEED)
    for _ in range(count):
        data = bytearray(good)
        for _ in range(die.randint(1, 4)):
            at = die.randrange(len(data))
            match die.randrange(4):
                case 0:
                    data[at] = die.randrange(256)
                case 1:
                    del data[at : at + die.randint(1, 20)]
                case 2:
                    data[at:at] = data[at : at + 20]
                case _:
                    data[at:at] = bytes([die.choice((0, 10, 13, 32, 58, 127, 255))])
            data = data or bytearray(b"x")
        yield bytes(data)


def thrown(port: int, data: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """All that is answered to this and nothing more, until the other side closes or the client loses patience."""
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        if tls is not None:
            peer = stack.enter_context(tls.wrap_socket(peer, server_hostname="127.0.0.1"))
        with contextlib.suppress(OSError):  # it may have been cut off by now
            peer.sendall(data)
            if tls is None:
                peer.shutdown(socket.SHUT_WR)
            else:  # which has no half of a connection
                peer.settimeout(PATIENCE)
        return _everything(peer)


def _everything(peer: socket.socket) -> bytes:
    parts = []
    with contextlib.suppress(OSError):
        while data := peer.recv(65536):
            parts.append(data)
    return b"".join(parts)


def statuses(answered: bytes) -> set[int]:
    """The status of each answer in it."""
    return {int(rest[:3]) for rest in answered.split(b"HTTP/1.1 ")[1:]}


def assert_survived(
    port: int, pid: int, data: list[bytes], honest: Callable[[], None], tls: ssl.SSLContext | None = None
) -> set[int]:
    """Nothing is answered with an error of the server's own, honest requests are answered, and memory is bounded.

    The statuses of all answers.
    """
    assert len(data) == 300
    process, seen = psutil.Process(pid), set[int]()
    honest()
    before = process.memory_info().rss
    for place, each in enumerate(data):
        answered = thrown(port, each, tls)
        found = statuses(answered)
        assert found <= EXPECTED, (each[:200], answered[:200])
        seen |= found
        if place % 20 == 0:
            honest()
    honest()
    assert process.memory_info().rss - before < 150_000_000
    return seen
