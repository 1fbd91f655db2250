"""`python -m modelwright.gateway`: the gateway process without the rest of the program."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from modelwright.gateway.options import GatewayOptions
from modelwright.gateway.process import run


def main(arguments: list[str] | None = None) -> int:
    """Parses the command line of `modelwright gateway` and serves."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    host, _, port = parsed.listen.rpartition(":")
    if not port.isdecimal():
        parser.error("--listen needs HOST:PORT")
    if (parsed.config is None) == (parsed.edge is None and parsed.cloud is None):
        parser.error("give either --config, or --edge and --cloud")
    parameters = {"threshold": parsed.threshold, "probability": parsed.probability}
    return run(
        GatewayOptions(
            config=parsed.config,
            fd=parsed.fd,
            host=host.strip("[]"),
            port=int(port),
            state=parsed.state,
            drain_seconds=parsed.drain_seconds,
            edge=parsed.edge or "",
            cloud=parsed.cloud or "",
            name=parsed.name,
            policy=parsed.policy,
            parameters={name: value for name, value in parameters.items() if value is not None}
            | dict(parsed.parameter),
            timeout_seconds=parsed.timeout,
            scores=parsed.scores,
            keep_folder=str(parsed.keep_folder.absolute()) if parsed.keep_folder else "",
            keep_max_bytes=parsed.keep_max_bytes,
        )
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="modelwright gateway", description="Let an edge model and a cloud model answer as one."
    )
    parser.add_argument("--config", type=Path, help="which models to join, and how (JSON); the file is watched")
    parser.add_argument("--edge", metavar="URL", help="the model asked first: http://HOST:PORT/v1/models/NAME")
    parser.add_argument("--cloud", metavar="URL", help="the model asked for hard rows")
    parser.add_argument("--name", default="", help="the name to answer to (the edge model's)")
    parser.add_argument(
        "--policy", default="confidence", help="confidence, margin, crossEntropy, random or a plug-in's name"
    )
    parser.add_argument("--threshold", type=float, help="of confidence, margin and crossEntropy")
    parser.add_argument("--probability", type=float, help="of random")
    parser.add_argument(
        "--parameter", type=_pair, action="append", default=[], metavar="NAME=NUMBER", help="of a plug-in's policy"
    )
    parser.add_argument("--timeout", type=float, default=2.0, help="seconds to wait for a model (2)")
    parser.add_argument("--scores", default="", metavar="OUTPUT", help="the edge model's output with its scores")
    parser.add_argument("--keep-folder", type=Path, metavar="DIR", help="keep hard examples here")
    parser.add_argument("--keep-max-bytes", type=int, default=100_000_000, metavar="N", help="how many bytes of them")
    parser.add_argument("--fd", type=int, help="an inherited listening socket")
    parser.add_argument("--listen", default="127.0.0.1:8500", metavar="HOST:PORT", help="where to listen (port 0: any)")
    parser.add_argument("--state", type=Path, help="where to write how it is doing (JSON)")
    parser.add_argument(
        "--drain-seconds", type=float, default=10.0, help="how long idle connections are kept at the end"
    )
    return parser


def _pair(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    return name, float(value)


if __name__ == "__main__":
    sys.exit(main())
