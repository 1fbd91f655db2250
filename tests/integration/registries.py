"""The registry of `modelwright up`, by itself on a port of this machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from modelwright.oci.server import create_registry_app
from modelwright.oci.storage import ImageStorage

TOKEN = "embedded-canary"
"""The password that pushing takes."""


@contextmanager
def embedded_registry(storage: Path) -> Iterator[str]:
    """Host and port of a registry that keeps its images in this folder."""
    app = Starlette(routes=[Mount("/v2", create_registry_app(ImageStorage(storage), secret=TOKEN))])
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, http="httptools", log_level="error", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listener.close()
