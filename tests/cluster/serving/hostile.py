"""300 requests of somebody who means harm, the same in every run: for model servers and gateways alike."""

from __future__ import annotations

import json
import random
import socket
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

COUNT = 300
TOO_LARGE = 65 << 20
"""Bytes of a body that no server of ours takes."""
WORDS = ("instances", "inputs", "outputs", "shape", "datatype", "data", "parameters", "signature_name", "b64", "id", "")
PATHS = ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/v1/models/%00", "//", "/v1/models/" + "a" * 9000, "*", "")
METHODS = ("BREW", "get", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "HEAD", "G\x00T")


def requests(url: str) -> list[bytes]:
    """The bytes of each, for the model at this URL (`http://HOST:PORT/v1/models/NAME`)."""
    chance = random.Random(6)
    path = urlsplit(url).path
    name = path.rpartition("/")[2]
    targets = (f"{path}:predict", f"/v2/models/{name}/infer", f"{path}/versions/99999999999999999999:predict")
    found = list(_fixed(targets))
    while len(found) < COUNT:
        kind = chance.randrange(3)
        target = chance.choice(targets)
        if kind == 0:
            found.append(post(target, json.dumps(_value(chance, 4)).encode()))
        elif kind == 1:
            found.append(post(target, chance.randbytes(chance.randrange(400))))
        else:
            found.append(_damaged(chance, post(target, b'{"instances": [[0.0, 1.0]]}')))
    return found[:COUNT]


def post(target: str, body: bytes, *headers: str) -> bytes:
    """A request with this body; with `headers` instead of its length."""
    lines = [f"POST {target} HTTP/1.1", "Host: model", *(headers or [f"Content-Length: {len(body)}"])]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def send(url: str) -> Counter[int]:
    """Send all, each over a connection of its own; how often each status was answered, 0 for a closed connection.

    Raises TimeoutError if one is neither answered nor closed within a minute after the client has said its last word.
    """
    parts = urlsplit(url)
    address = (str(parts.hostname), int(parts.port or 80))
    return Counter(_status(address, request) for request in requests(url))


def _status(address: tuple[str, int], request: bytes) -> int:
    with socket.create_connection(address, timeout=60) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            words = connection.recv(64).split(b" ", 2)
        except TimeoutError:
            raise
        except OSError:  # it has hung up, also before the last word: that is ENOTCONN
            return 0
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _fixed(targets: tuple[str, ...]) -> Iterator[bytes]:
    small = b'{"instances": [[0.0, 1.0]]}'
    for target in targets:
        yield from (post(target, body) for body in _bodies())
        yield post(target, b"", f"Content-Length: {TOO_LARGE}")
        yield post(target, small, "Content-Length: -1")
        yield post(target, small, "Content-Length: 27", "Content-Length: 5")
        yield post(target, small, "Content-Length: 5", "Transfer-Encoding: chunked")
        yield post(target, b"ffffffffffffffffff\r\nx\r\n0\r\n\r\n", "Transfer-Encoding: chunked")
        yield post(target, b"zz\r\n", "Transfer-Encoding: chunked")
        yield post(target, small[:9], f"Content-Length: {len(small)}")
        yield post(target, small, "Content-Length: 27", "Content-Type: text/html", "Authorization: Bearer x")
        yield post(target, small, "Content-Length: 27", "Inference-Header-Content-Length: 99999999999")
        yield post(target, small, "Content-Length: 27", "Inference-Header-Content-Length: -5")
        yield post(target, small, "Content-Length: 27", *(f"X-{number}: y" for number in range(2000)))
        yield post(target, small, "Content-Length: 27", "X-Long: " + "y" * 200_000)
        yield post(target, small, "Content-Length: 27", "Content-Encoding: gzip")
    yield from (f"{method} {targets[0]} HTTP/1.1\r\nHost: model\r\n\r\n".encode() for method in METHODS)
    yield from (f"GET {path} HTTP/1.1\r\nHost: model\r\n\r\n".encode() for path in PATHS)
    yield from (b"", b"\r\n" * 50, b"\x16\x03\x01\x02\x00" + bytes(200), b"GET / HTTP/9.9\r\n\r\n", b"GET /\r\n")


def _bodies() -> Iterator[bytes]:
    yield from (b"", b"null", b"[]", b"{}", b"{", b"\xff\xfe", b"\x00" * 100, b'{"instances": ', b'{"instances": null}')
    yield b"[" * 100_000
    yield b'{"a":' * 50_000
    yield b'{"instances": [[1e999, -1e999]]}'
    yield b'{"instances": [[' + b"9" * 5_000 + b", 1]]}"
    for rows in ('[["a", "b"]]', "[[1]]", "[[1, 2, 3]]", "[[[1, 2]]]", "[[1, 2], [3]]", "[{}]", '[{"b64": "?"}]', "7"):
        yield f'{{"instances": {rows}}}'.encode()
    for shape in ("[1000000000000, 2]", "[-1, 2]", "[0, 2]", '["1", 2]', "[]", "[1, 2, 3]", "[9223372036854775808]"):
        tensor = f'{{"name": "x", "shape": {shape}, "datatype": "FP32", "data": [0, 1]}}'
        yield f'{{"inputs": [{tensor}]}}'.encode()
    for kind in ("FP33", "BYTES", "", "INT64"):
        tensor = f'{{"name": "x", "shape": [1, 2], "datatype": "{kind}", "data": ["a", 1]}}'
        yield f'{{"inputs": [{tensor}]}}'.encode()


def _value(chance: random.Random, depth: int) -> object:
    kind = chance.randrange(7 if depth else 5)
    if kind == 5:
        return [_value(chance, depth - 1) for _ in range(chance.randrange(5))]
    if kind == 6:
        return {chance.choice(WORDS): _value(chance, depth - 1) for _ in range(chance.randrange(1, 5))}
    return (None, True, chance.randrange(-(2**70), 2**70), chance.random() * 10**300, chance.choice(WORDS))[kind]


def _damaged(chance: random.Random, request: bytes) -> bytes:
    """The same with some bytes changed, or cut off."""
    changed = bytearray(request)
    for _ in range(chance.randrange(1, 6)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed[: chance.randrange(1, len(changed))] if chance.random() < 0.3 else changed)
