"""The registry on a real socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from modelwright.oci.server import create_registry_app
from modelwright.oci.storage import ImageStorage

TOKEN = "s3cret-token"


class RunningRegistry:
    """A registry's address, storage, and a client that is logged in."""

    def __init__(self, host: str, storage: ImageStorage, client: httpx2.Client) -> None:
        self.host = host
        self.storage = storage
        self.http = client
        self.token = TOKEN

    @property
    def port(self) -> int:
        return int(self.host.rpartition(":")[2])


@contextmanager
def running_registry(root: Path, *, max_blob_bytes: int = 1 << 40) -> Iterator[RunningRegistry]:
    storage = ImageStorage(root)
    registry = create_registry_app(
        storage, authenticate=lambda _user, password: password == TOKEN, max_blob_bytes=max_blob_bytes
    )
    listener = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=[Mount("/v2", registry)])
    server = uvicorn.Server(uvicorn.Config(app, http="httptools", log_level="error", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    try:
        with httpx2.Client(base_url=f"http://{host}/v2/", auth=("me", TOKEN), trust_env=False, timeout=60) as client:
            yield RunningRegistry(host, storage, client)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


StartRegistry = Callable[..., AbstractContextManager[RunningRegistry]]


@pytest.fixture
def start_registry() -> StartRegistry:
    """To be used as `with start_registry(folder, max_blob_bytes=...)`."""
    return running_registry


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path / "registry") as running:
        yield running
