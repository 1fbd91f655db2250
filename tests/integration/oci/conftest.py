"""The registry on a real socket."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from modelwright.oci.server import create_registry_app
from modelwright.oci.storage import ImageStorage

TOKEN = "s3cret-token"
TLS = ssl.create_default_context()
"""Made once: loading the system's CAs takes longer than a test."""


class Client(httpx2.Client):
    """Addresses without a leading slash are below `/v2/`."""

    def request(self, method: str, url: httpx2.URL | str, **arguments: Any) -> httpx2.Response:
        return super().request(method, url if str(url).startswith("/") else f"/v2/{url}", **arguments)


class RunningRegistry:
    """A registry's address, storage, and a client that is logged in."""

    def __init__(self, host: str, storage: ImageStorage, client: httpx2.Client) -> None:
        self.host = host
        self.storage = storage
        self.http = client
        self.token = TOKEN

    def stranger(self) -> httpx2.Client:
        """A client that is not logged in."""
        return Client(base_url=f"http://{self.host}", trust_env=False, timeout=60, verify=TLS)

    @property
    def port(self) -> int:
        return int(self.host.rpartition(":")[2])


class Switch:
    """The application of the test that is running: starting a server for each would take most of the time."""

    def __init__(self) -> None:
        self.host = ""
        self.app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.app is not None
        await self.app(scope, receive, send)


@pytest.fixture(scope="module")
def switch() -> Iterator[Switch]:
    switch = Switch()
    listener = socket.create_server(("127.0.0.1", 0))
    switch.host = f"127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(switch, http="httptools", log_level="error", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield switch
    server.should_exit = True
    thread.join()
    listener.close()


StartRegistry = Callable[..., AbstractContextManager[RunningRegistry]]


@pytest.fixture
def start_registry(switch: Switch) -> StartRegistry:
    """To be used as `with start_registry(folder, max_blob_bytes=..., clock=...)`."""

    @contextmanager
    def start(
        root: Path, *, max_blob_bytes: int = 1 << 40, clock: Callable[[], float] = time.time
    ) -> Iterator[RunningRegistry]:
        storage = ImageStorage(root)
        registry = create_registry_app(storage, secret=TOKEN, max_blob_bytes=max_blob_bytes, clock=clock)
        switch.app = Starlette(routes=[Mount("/v2", registry)])
        with Client(
            base_url=f"http://{switch.host}", auth=("me", TOKEN), trust_env=False, timeout=60, verify=TLS
        ) as client:
            yield RunningRegistry(switch.host, storage, client)

    return start


@pytest.fixture
def registry(start_registry: StartRegistry, tmp_path: Path) -> Iterator[RunningRegistry]:
    with start_registry(tmp_path / "registry") as running:
        yield running
