"""What probes and Prometheus are told: /healthz, /readyz and /metrics over plain http."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from modelwright.http.asgi import Answer, Message, Receive, Send, send_answer
from modelwright.http.listening import authority, open_listener

TEXT = b"text/plain; charset=utf-8"
HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

log = logging.getLogger(__name__)


class Standing(msgspec.Struct, frozen=True):
    """How the process stands, in words, and whether all is as it should be."""

    ready: bool
    message: str


class Health:
    """Holds what was said last of how the process stands; `say` is also a line of the log when it is something new.

    `look`, where there is one, is asked at each probe instead: it sees what changes without being told.
    """

    def __init__(self) -> None:
        self._standing = Standing(ready=False, message="starting")
        self._look: Callable[[], Standing] | None = None

    @property
    def standing(self) -> Standing:
        """How the process stands now."""
        return self._look() if self._look is not None else self._standing

    def say(self, message: str, *, ready: bool = False, level: int = logging.INFO) -> None:
        """It stands like this from now on."""
        new, self._look = message != self._standing.message, None
        self._standing = Standing(ready, message)
        if new:
            log.log(level, "%s", message)

    def ask(self, look: Callable[[], Standing]) -> None:
        """Ask this at each probe, until something is said again."""
        self._look = look


class OperatorMetrics:
    """Metrics of the process beside the engine's, under the names that client-go and controller-runtime use."""

    def __init__(self, registry: CollectorRegistry, lease: str) -> None:
        self.registry = registry
        ProcessCollector(registry=registry)
        leader = Gauge(
            "leader_election_master_status", "Whether this process leads (1) or not", ["name"], registry=registry
        )
        self.leader = leader.labels(lease)
        self.renewals = Histogram(
            "modelwright_lease_renew_seconds",
            "How long each renewal of the lease took",
            buckets=SECONDS,
            registry=registry,
        )
        self.overdue = Histogram(
            "modelwright_lease_renew_late_seconds",
            "How much later than planned each renewal of the lease began",
            buckets=SECONDS,
            registry=registry,
        )
        self._requests = Counter(
            "rest_client_requests", "Requests to the API server", ["code", "method"], registry=registry
        )

    def answered(self, method: str, status: int) -> None:
        """One more answer of the API server."""
        self._requests.labels(str(status), method).inc()


class Pages:
    """The three pages as an ASGI application."""

    def __init__(self, health: Health, metrics: CollectorRegistry) -> None:
        self._health = health
        self._metrics = metrics

    async def __call__(self, scope: Message, _receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await send_answer(send, _text("use GET here\n", 405))
            return
        await send_answer(send, self._answer(scope["path"]))

    def _answer(self, path: str) -> Answer:
        match path:
            case "/healthz":
                return _text("ok\n")
            case "/readyz":
                standing = self._health.standing
                return _text(f"{standing.message}\n", 200 if standing.ready else 503)
            case "/metrics":
                return Answer(generate_latest(self._metrics), 200, HEADERS, CONTENT_TYPE_LATEST.encode())
        return _text("there are /healthz, /readyz and /metrics\n", 404)


def _text(text: str, status: int = 200) -> Answer:
    return Answer(text.encode(), status, HEADERS, TEXT)


@asynccontextmanager
async def served(app: Any, host: str, port: int) -> AsyncIterator[str]:
    """Serve at HOST:PORT, port 0 any; yields the URL. Raises Unavailable (PortTaken)."""
    from modelwright.http.server import HttpServer

    listener = open_listener(None, host, port)
    server = HttpServer(app)
    server.accept(listener)
    bound, number = listener.getsockname()[:2]
    try:
        yield f"http://{authority(bound, number)}"
    finally:
        server.announce_close()
        server.stop_accepting()
        await server.drain(0.0)
