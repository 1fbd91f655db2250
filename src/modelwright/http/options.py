"""How a server process is started, and the part of the command line that says so."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec


class ProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server process is started.

    `config` is a file that is watched. Either `fd` (a listening TCP socket that others share) or `host` and `port`
    (0: any free port). `drain_seconds`: how long an idle connection is kept after its last request once the process
    has been asked to end. With `stay` it does not end because there is nothing to serve, but waits for a configuration
    that can be. `report`: the state is printed as well. `termination_file` is where Kubernetes reads why it has ended.
    `token_file` holds the tokens of which a request must carry one; with `tls_certificate` and `tls_key` it speaks TLS.
    """

    config: Path | None = None
    fd: int | None = None
    host: str = "127.0.0.1"
    port: int = 0
    state: Path | None = None
    drain_seconds: float = 10.0
    stay: bool = False
    report: bool = False
    termination_file: Path | None = None
    token_file: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None


def add_arguments(parser: argparse.ArgumentParser, port: int) -> None:
    """What every server process can be told; `port` is where it listens if nothing is said."""
    where = parser.add_argument_group("where to listen (one of them)")
    where.add_argument(
        "--listen", metavar="HOST:PORT", help=f"port 0 is any free one, [::] every address (127.0.0.1:{port})"
    )
    where.add_argument("--host", help="an address of this machine, or :: for all; with --port")
    where.add_argument("--port", type=int, help="the port; with --host")
    where.add_argument("--fd", type=int, help="an inherited listening socket")
    parser.set_defaults(default_port=port)
    life = parser.add_argument_group("its life")
    life.add_argument("--state", type=Path, metavar="FILE", help="where to write how it is doing (JSON)")
    life.add_argument("--report", action="store_true", help="print that on stdout, too: a line of JSON for each change")
    life.add_argument("--termination-file", type=Path, metavar="FILE", help="where to write why it had to end (JSON)")
    life.add_argument(
        "--stay", action="store_true", help="with nothing to serve, wait for another configuration; do not end"
    )
    life.add_argument(
        "--drain-seconds", type=float, default=10.0, metavar="N", help="how long idle connections are kept at the end"
    )


def add_guards(parser: argparse.ArgumentParser) -> None:
    """What a server process may ask of its clients, and show them."""
    guards = parser.add_argument_group("who may ask (all of them are watched)")
    guards.add_argument("--token-file", type=Path, metavar="FILE", help="ask for a token that stands in this file")
    guards.add_argument("--tls-folder", type=Path, metavar="DIR", help="speak TLS with tls.crt and tls.key in it")
    guards.add_argument("--tls-cert", type=Path, metavar="FILE", help="speak TLS with this certificate; with --tls-key")
    guards.add_argument("--tls-key", type=Path, metavar="FILE", help="its key; with --tls-cert")


def process_options(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> dict[str, Any]:
    """The fields of ProcessOptions that the command line says; ends the program where it makes no sense."""
    host, port = _address(parser, parsed)
    certificate, key = _certificate(parser, parsed)
    return {
        "config": parsed.config,
        "fd": parsed.fd,
        "host": host,
        "port": port,
        "state": parsed.state,
        "drain_seconds": parsed.drain_seconds,
        "stay": parsed.stay,
        "report": parsed.report,
        "termination_file": parsed.termination_file,
        "token_file": getattr(parsed, "token_file", None),
        "tls_certificate": certificate,
        "tls_key": key,
    }


def _address(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> tuple[str, int]:
    if parsed.listen is not None and (parsed.host is not None or parsed.port is not None):
        parser.error("give either --listen, or --host and --port")
    if parsed.listen is not None:
        host, _, port = parsed.listen.rpartition(":")
        if not port.isdecimal():
            parser.error("--listen needs HOST:PORT")
    else:
        host = "127.0.0.1" if parsed.host is None else parsed.host
        port = parsed.default_port if parsed.port is None else parsed.port
    if not 0 <= int(port) <= 65535:
        parser.error("a port is a number from 0 to 65535")
    return host.strip("[]"), int(port)


def _certificate(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> tuple[Path | None, Path | None]:
    folder, certificate, key = (getattr(parsed, name, None) for name in ("tls_folder", "tls_cert", "tls_key"))
    if folder is not None and certificate is None and key is None:
        return folder / "tls.crt", folder / "tls.key"
    if folder is not None or (certificate is None) != (key is None):
        parser.error("give either --tls-folder, or --tls-cert and --tls-key")
    return certificate, key
