"""A gateway whose application is spoken to without a socket, before model servers on real ones."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any, NamedTuple

import pytest
from tests.unit.gateway.models import SmallModel

from modelwright.gateway.app import App
from modelwright.gateway.config import GatewayConfig, ModelConfig

EASY = [9.0, 0.0, 0.0]
HARD = [1.0, 1.1, 0.0]


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def by(self) -> str:
        return self.headers.get("x-served-by", "")


class Client:
    """Speaks ASGI to a gateway named `joint`; `app` is it."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def ask(
        self, method: str, path: str, body: Any = b"", headers: dict[str, str] | None = None, chunks: int = 1
    ) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        size = max(1, -(-len(data) // chunks))
        parts = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        given = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
        given.append((b"content-length", str(len(data)).encode()))
        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": given}
        await self.app(scope, receive, send)
        names = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], names, sent[1]["body"])

    async def get(self, path: str) -> Answer:
        return await self.ask("GET", path)

    async def predict(self, *rows: Any, **rest: Any) -> Answer:
        return await self.ask("POST", "/v1/models/joint:predict", {"instances": list(rows), **rest})

    async def infer(self, *rows: list[float], datatype: str = "FP32", **rest: Any) -> Answer:
        flat = [value for row in rows for value in row]
        tensor = {"name": "x", "shape": [len(rows), len(rows[0])], "datatype": datatype, "data": flat}
        return await self.ask("POST", "/v2/models/joint/infer", {"inputs": [tensor], **rest})

    async def ask_rows(self, protocol: str, *rows: list[float]) -> Answer:
        """The same question in either protocol."""
        return await (self.predict(*rows) if protocol == "v1" else self.infer(*rows))

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        text = (await self.get("/metrics")).body.decode()
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        lines = [line for line in text.splitlines() if line.partition("{")[0] == f"modelwright_gateway_{name}"]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(each in line for each in wanted))


class Stage(NamedTuple):
    """Two model servers and the gateway before them."""

    edge: SmallModel
    cloud: SmallModel
    client: Client


Open = Callable[..., contextlib.AbstractAsyncContextManager[Stage]]


@contextlib.asynccontextmanager
async def opened(
    edge: SmallModel | None = None, cloud: SmallModel | None = None, **config: Any
) -> AsyncIterator[Stage]:
    """The gateway before two model servers; the cloud model's labels are those of the edge model plus 100."""
    edge, cloud = edge or SmallModel(), cloud or SmallModel(offset=100, name="big", version="7")
    async with edge.serving(), cloud.serving():
        app = App(lambda: None)
        values = {"timeout_seconds": 30.0} | config
        app.configure(GatewayConfig(name="joint", edge=ModelConfig(edge.url), cloud=ModelConfig(cloud.url), **values))
        try:
            yield Stage(edge, cloud, Client(app))
        finally:
            await app.aclose()


@pytest.fixture
def stage() -> Open:
    return opened
