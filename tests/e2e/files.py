"""A file server on loopback whose every answer a test can see, and archives of models for it."""

from __future__ import annotations

import contextlib
import functools
import http.server
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Tests read what matters from the control plane."""


@contextlib.contextmanager
def file_server(folder: Path) -> Iterator[str]:
    """Serves a folder; yields its URL."""
    handler = functools.partial(_Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def tar_gz(model: Path, archive: Path, top: str = "model") -> Path:
    """The model folder as a tar.gz with one top folder."""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(model / "model.skops", f"{top}/model.skops")
    return archive


def zip_file(model: Path, archive: Path) -> Path:
    """The model folder as a zip, the model at its root."""
    with zipfile.ZipFile(archive, "w") as file:
        file.write(model / "model.skops", "model.skops")
    return archive


def hostile_tar(archive: Path, name: str, type_: bytes = tarfile.REGTYPE, link: str = "") -> Path:
    """An archive with one entry that must not be unpacked."""
    with tarfile.open(archive, "w") as tar:
        entry = tarfile.TarInfo(name)
        entry.type = type_
        entry.linkname = link
        tar.addfile(entry)
    return archive
