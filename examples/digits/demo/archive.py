"""Hand a model to the edge as an archive on a file server, as the maintainer of a model does."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import pathlib
import tarfile
import threading
from collections.abc import Iterator
from typing import Any


def pack(folder: pathlib.Path, archive: pathlib.Path) -> str:
    """Pack the files of a folder, and return the archive's SHA-256."""
    with tarfile.open(archive, "w") as tar:
        tar.add(folder, arcname=folder.name)
    return hashlib.sha256(archive.read_bytes()).hexdigest()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """The demo prints its own lines only."""


@contextlib.contextmanager
def file_server(folder: pathlib.Path) -> Iterator[str]:
    """Serve a folder on a free port of this machine, until the end of the block; yields its URL."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
