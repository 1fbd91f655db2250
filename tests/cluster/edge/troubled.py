"""A server in the cloud in trouble: it answers every request with an error, with nonsense, or not at all."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

Trouble = Literal["error", "nonsense", "silence", "half"]


class Troubled:
    """Listens at an address of this machine; `trouble` can change at any time."""

    def __init__(self, address: str) -> None:
        self.trouble: Trouble = "error"
        self.asked = 0
        self.ended = threading.Event()
        self._server = _Server((address, 0), _Handler)
        self._server.troubled = self
        self.host = f"{address}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Troubled:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    troubled: Troubled

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no fault of the test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer()

    def _answer(self) -> None:
        troubled = self.server.troubled
        troubled.asked += 1
        if troubled.trouble == "silence":
            troubled.ended.wait(60)
            self.close_connection = True
            return
        body = b'{"predictions": [[101' if troubled.trouble == "nonsense" else b"it is broken"
        self.send_response(500 if troubled.trouble == "error" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) * (2 if troubled.trouble == "half" else 1)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = troubled.trouble == "half"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Nothing is printed."""
