"""A registry that lets nobody push, as the distribution specification has it be told."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.contract.pki import Authority


class ReadOnlyRegistry:
    """Speaks TLS at an address of this machine; it has nothing, and whoever asks for an upload is told 403 DENIED.

    https://github.com/opencontainers/distribution-spec/blob/main/spec.md#error-codes
    """

    def __init__(self, address: str, folder: Path) -> None:
        authority = Authority(folder)
        certificate, key = authority.issue("registry", hosts=(address,))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.ca_file = authority.ca_file
        self._server = _Server((address, 0), _Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.host = f"{address}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> ReadOnlyRegistry:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no fault of the test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        if self.path == "/v2/":
            self._answer(200, {})
        else:
            self._answer(404, {"errors": [{"code": "NAME_UNKNOWN", "message": "there is nothing here"}]})

    do_HEAD = do_GET  # noqa: N815 - names that the base class looks for

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(403, {"errors": [{"code": "DENIED", "message": "you may not push here"}]})

    do_PUT = do_PATCH = do_POST  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Nothing is printed."""

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Docker-Distribution-API-Version", "registry/2.0")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
