"""The gateway as a plain ASGI application."""

from __future__ import annotations

from modelwright.gateway.address import parse_url
from modelwright.gateway.config import GatewayConfig
from modelwright.gateway.upstream import Failed, Upstream
from modelwright.http import asgi
from modelwright.http.asgi import Answer, Message, Receive, RequestError, Send
from modelwright.http.routes import route_of


class App:
    """Answers requests as its configuration says; it can be given another one at any time."""

    def __init__(self, config: GatewayConfig) -> None:
        self.draining = False
        self.configure(config)

    def configure(self, config: GatewayConfig) -> None:
        self.config = config
        self.edge = Upstream(parse_url(config.edge.url)) if config.edge.url else None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(scope, receive)
        except RequestError as error:
            answer = asgi.json_answer({"error": error.message}, error.status, error.headers)
        except Failed as error:
            answer = asgi.json_answer({"error": error.message}, 503, ((b"retry-after", b"1"),))
        await asgi.send_answer(send, answer)

    async def _answer(self, scope: Message, receive: Receive) -> Answer:
        route = route_of(scope["raw_path"])
        if route is None:
            raise RequestError(f"there is nothing at {scope['path']}", 404)
        if route.verb in ("healthz", "live"):
            return asgi.json_answer({"live": True})
        if route.verb == "ready":
            return asgi.json_answer({"ready": not self.draining}, 503 if self.draining else 200)
        if self.edge is None:
            raise Failed("NoUrl", "neither model is known yet")
        body = await asgi.read_body(scope, receive, self.config.max_request_bytes)
        path = (
            scope["raw_path"]
            .decode("ascii")
            .replace(f"/models/{self.config.name}", f"/models/{self.edge.address.quoted}")
        )
        response = await self.edge.ask(scope["method"], path, self.config.timeout_seconds, (), body)
        headers = ((b"x-served-by", b"edge"),)
        return Answer(response.body, response.status, headers, response.headers.get("content-type", "").encode())
