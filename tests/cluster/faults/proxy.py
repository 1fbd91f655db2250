"""A proxy between an operator and a kube-apiserver that does on purpose what networks and servers do by accident.

The operator speaks https to it with the kubeconfig that `kubeconfig` writes, and the proxy speaks https to the real
server; the token is passed through. It knows what each request is about (`Call`), and asks its faults before a request
is forwarded, once the server has done what was asked and before the operator hears of it, after the operator has
heard, and for each line of a watch.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from tests.cluster.faults.call import Call
from tests.cluster.faults.faults import Dropped, Fault
from tests.cluster.faults.wire import (
    BODILESS,
    LAST_CHUNK,
    Answer,
    Head,
    as_chunk,
    encode_head,
    end_to_end,
    lines,
    read_body,
    read_head,
)
from tests.contract.kube_apiserver import LOOPBACK, write_kubeconfig
from tests.contract.pki import Authority

LIMIT = 1 << 22
"""Bytes of a head or a line that are kept waiting for its end."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class FaultProxy:
    """Runs in the event loop that enters it. `faults` may change at any time; `calls` is all that was asked."""

    def __init__(self, url: str, ca_file: Path, folder: Path) -> None:
        self.faults: list[Fault] = []
        self.calls: list[Call] = []
        self._upstream = urlsplit(url)
        self._client_tls = ssl.create_default_context(cafile=str(ca_file))
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ca_file, self._server_tls = _own_certificate(folder)
        self._connections: set[asyncio.Task[None]] = set()
        self._watches: dict[asyncio.Task[None], Call] = {}

    async def __aenter__(self) -> FaultProxy:
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0, ssl=self._server_tls, limit=LIMIT)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    def kubeconfig(self, token: str) -> Path:
        """A kubeconfig that leads through this proxy."""
        path = self._folder / "kubeconfig"
        return write_kubeconfig(path, f"https://{LOOPBACK}:{self.port}", self._ca_file, token)

    def writes(self) -> list[Call]:
        """All that was asked to be changed, in order."""
        return [call for call in self.calls if call.write]

    def made(self) -> list[str]:
        """All that was really made, by resource, namespace and name, once for each time."""
        made = [call for call in self.calls if call.method == "POST" and call.status == HTTPStatus.CREATED]
        return [f"{call.of} {call.namespace}/{call.document['metadata']['name']}" for call in made]

    def watched(self) -> set[str]:
        """What is being watched now, by resource."""
        return {call.resource for call in self._watches.values()}

    def cut_watches(self, chosen: Callable[[Call], bool] = lambda _: True) -> int:
        """Drop the connections of these watches, in the middle of it; how many there were."""
        cut = [task for task, call in self._watches.items() if chosen(call)]
        for task in cut:
            task.cancel()
        return len(cut)

    # One connection -------------------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = _Upstream(self._upstream.hostname or "", self._upstream.port or 443, self._client_tls)
        try:
            while True:
                await self._exchange(await _read_call(reader), upstream, (reader, writer))
        except (Dropped, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # one of the two sides has gone: the other is let go too
        finally:
            upstream.close()
            writer.transport.abort()

    async def _exchange(self, call: Call, upstream: _Upstream, client: Streams) -> None:
        self.calls.append(call)
        faults = tuple(self.faults)
        try:
            await self._answer(call, faults, upstream, client)
        finally:
            for fault in faults:
                fault.ended(call)

    async def _answer(self, call: Call, faults: tuple[Fault, ...], upstream: _Upstream, client: Streams) -> None:
        for fault in faults:
            instead = await fault.before(call)
            if instead is not None:
                call.status = instead.status
                return await _write(client, instead.encode())
        head, reader = await upstream.send(call)
        call.status = head.status
        if call.watch and head.chunked:
            return await self._stream(call, head, reader, client)
        body = b"" if head.status in BODILESS else await read_body(reader, head)
        answer = Answer(head.status, end_to_end(head.headers), body)
        for fault in faults:
            answer = await fault.committed(call, answer)
        await _write(client, answer.encode())
        for fault in faults:
            await fault.replied(call)
        return None

    async def _stream(self, call: Call, head: Head, upstream: asyncio.StreamReader, client: Streams) -> None:
        """Pass on a watch until one of the sides ends it."""
        await _write(client, encode_head(head.status, {**end_to_end(head.headers), "transfer-encoding": "chunked"}))
        pump = asyncio.create_task(self._pump(call, upstream, client))
        gone = asyncio.create_task(client[0].read(1))
        self._watches[pump] = call
        try:
            await asyncio.wait((pump, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._watches[pump]
            for task in (pump, gone):
                task.cancel()
            ended = (await asyncio.gather(pump, gone, return_exceptions=True))[0]
        if ended is not None:
            raise Dropped from (ended if isinstance(ended, Exception) else None)

    async def _pump(self, call: Call, upstream: asyncio.StreamReader, client: Streams) -> None:
        async for line in lines(upstream):
            kept: bytes | None = line
            for fault in tuple(self.faults):
                kept = None if kept is None else await fault.line(call, kept)
            if kept is not None:
                await _write(client, as_chunk(kept))
        await _write(client, LAST_CHUNK)


class _Upstream:
    """The connection to the real server that belongs to one of the operator's; made when it is needed."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext) -> None:
        self._host, self._port, self._tls = host, port, tls
        self._streams: Streams | None = None

    async def send(self, call: Call) -> tuple[Head, asyncio.StreamReader]:
        """Send a request; the head of the answer, and where its body comes. Raises OSError, IncompleteReadError."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=LIMIT)
        reader, writer = self._streams
        headers = {**end_to_end(call.headers), "host": f"{self._host}:{self._port}"}
        headers["content-length"] = str(len(call.body))
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"{call.method} {call.target} HTTP/1.1\r\n{fields}\r\n".encode("latin-1") + call.body)
        await writer.drain()
        return await read_head(reader), reader

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()


async def _read_call(reader: asyncio.StreamReader) -> Call:
    head = await read_head(reader)
    method, target, _ = head.first.split(" ")
    return Call(method, target, head.headers, await read_body(reader, head))


async def _write(client: Streams, data: bytes) -> None:
    client[1].write(data)
    await client[1].drain()


def _own_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    authority = Authority(folder)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.issue("fault-proxy"))
    return authority.ca_file, tls
