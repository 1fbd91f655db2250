"""A client that speaks ASGI to the server's application without a socket."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any, NamedTuple

from modelwright.serve.app import App
from modelwright.serve.loaded import InferencePool
from modelwright.serve.registry import Registry


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Speaks ASGI to an App; `registry` and `pool` are the ones behind it."""

    def __init__(self, registry: Registry, pool: InferencePool | None = None) -> None:
        self.registry = registry
        self.pool = pool or InferencePool()
        self.app = App(registry, self.pool)

    async def ask(
        self, method: str, path: str, body: Any = b"", chunks: int = 1, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        size = max(1, -(-len(data) // chunks))
        parts = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        sized = [*headers, (b"content-length", str(len(data)).encode())]
        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": sized}
        await self.app(scope, receive, send)
        names = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], names, sent[1]["body"])

    async def get(self, path: str) -> Answer:
        return await self.ask("GET", path)

    async def post(self, path: str, body: Any) -> Answer:
        return await self.ask("POST", path, body)
