"""`python -m modelwright.gateway`: the gateway process without the rest of the program."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from modelwright.gateway.config import ModelConfig
from modelwright.gateway.options import GatewayOptions
from modelwright.gateway.process import run
from modelwright.http.options import add_arguments, process_options


def main(arguments: list[str] | None = None) -> int:
    """Parses the command line of `modelwright gateway` and serves."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if (parsed.config is None) == (parsed.edge is None and parsed.cloud is None):
        parser.error("give either --config, or --edge and --cloud")
    parameters = {"threshold": parsed.threshold, "probability": parsed.probability}
    return run(
        GatewayOptions(
            **process_options(parser, parsed),
            edge=_model(parsed, "edge"),
            cloud=_model(parsed, "cloud"),
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
    for side in ("edge", "cloud"):
        parser.add_argument(f"--{side}-token-file", default="", metavar="FILE", help="the token that it asks for")
        parser.add_argument(f"--{side}-ca-file", default="", metavar="FILE", help="whom to trust (the system's)")
        parser.add_argument(
            f"--{side}-server-name", default="", metavar="NAME", help="the name in its certificate (the URL's host)"
        )
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
    add_arguments(parser, 8500)
    return parser


def _model(parsed: argparse.Namespace, side: str) -> ModelConfig:
    said = vars(parsed)
    return ModelConfig(
        url=said[side] or "",
        token_file=said[f"{side}_token_file"],
        ca_file=said[f"{side}_ca_file"],
        server_name=said[f"{side}_server_name"],
    )


def _pair(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    return name, float(value)


if __name__ == "__main__":
    sys.exit(main())
