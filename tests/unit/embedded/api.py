"""The API server without a network: requests go straight into the application, as a server would pass them on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from modelwright.adapters.embedded.apiserver.asgi import App, Message, Scope

JSON = dict[str, Any]
TOKEN = "a-token-of-the-tests-0123456789abcdef"
MODELS = "/apis/model.kubedl.io/v1alpha1/namespaces/default/models"
VERSIONS = "/apis/model.kubedl.io/v1alpha1/namespaces/default/modelversions"
DEADLINE_SECONDS = 30.0


@dataclass
class Answer:
    """A complete response."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def scope_of(method: str, url: str, headers: dict[str, str] | None = None, **query: str) -> Scope:
    parts = urlsplit(url)
    given = {"host": "127.0.0.1:6443", "authorization": f"Bearer {TOKEN}", **(headers or {})}
    return {
        "type": "http",
        "scheme": "https",
        "method": method,
        "path": parts.path,
        "query_string": (urlencode(query) or parts.query).encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()],
    }


class Client:
    """Asks one application."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def ask(
        self, method: str, url: str, body: Any = None, headers: dict[str, str] | None = None, **query: str
    ) -> Answer:
        content: bytes = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        answer = Answer()
        waiting: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]
        never = asyncio.Event()

        async def receive() -> Message:
            if waiting:
                return waiting.pop()
            await never.wait()
            raise AssertionError("nothing more comes")

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
            answer.body += message.get("body", b"")

        await asyncio.wait_for(self.app(scope_of(method, url, headers, **query), receive, send), DEADLINE_SECONDS)
        return answer

    async def get(self, url: str, **query: str) -> Answer:
        return await self.ask("GET", url, None, None, **query)

    async def make(self, name: str, url: str = MODELS, **metadata: Any) -> JSON:
        """Create a Model; it must succeed."""
        kind = {"apiVersion": "model.kubedl.io/v1alpha1", "kind": "Model"}
        answer = await self.ask("POST", url, {**kind, "metadata": {"name": name, **metadata}, "spec": {}})
        assert answer.status == 201, answer.body
        value: JSON = answer.json
        return value

    async def merge(self, url: str, patch: JSON, **query: str) -> Answer:
        return await self.ask("PATCH", url, patch, {"content-type": "application/merge-patch+json"}, **query)

    @asynccontextmanager
    async def watch(self, url: str, headers: dict[str, str] | None = None, **query: str) -> AsyncIterator[Watching]:
        """A watch; leaving the block hangs up."""
        watching = Watching()
        scope = scope_of("GET", url, headers, watch="true", **query)
        task = asyncio.ensure_future(self.app(scope, watching.receive, watching.send))
        task.add_done_callback(lambda _: watching.lines.put_nowait(None))
        try:
            await asyncio.wait_for(watching.began.wait(), DEADLINE_SECONDS)
            yield watching
        finally:
            watching.gone.set()
            await asyncio.wait_for(task, DEADLINE_SECONDS)


class Watching:
    """What a watch has sent."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.gone = asyncio.Event()
        self.lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._rest = b""
        self._asked = False

    async def receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200
            self.began.set()
            return
        *lines, self._rest = (self._rest + message.get("body", b"")).split(b"\n")
        for line in lines:
            self.lines.put_nowait(line)
        if not message.get("more_body") and self._rest:
            self.lines.put_nowait(self._rest)

    async def event(self) -> JSON:
        """The next event."""
        line = await asyncio.wait_for(self.lines.get(), DEADLINE_SECONDS)
        assert line is not None, "the watch has ended"
        value: JSON = json.loads(line)
        return value

    async def events(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next events."""
        found = [await self.event() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in found]

    async def end(self) -> None:
        """The watch must end without another event."""
        assert await asyncio.wait_for(self.lines.get(), DEADLINE_SECONDS) is None
