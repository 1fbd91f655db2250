"""`python -m modelwright.serve`: the server process without the rest of the program."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from modelwright.serve.process import ServerOptions, run


def main(arguments: list[str] | None = None) -> int:
    """Parses the command line of `modelwright server` and serves."""
    parser = argparse.ArgumentParser(prog="modelwright server", description="Serve one model over HTTP.")
    parser.add_argument("--config", type=Path, help="what to serve (JSON); the file is watched")
    parser.add_argument("--model-dir", type=Path, help="serve the model in this folder, or its highest number")
    parser.add_argument("--name", default="", help="with --model-dir: the model's name")
    parser.add_argument(
        "--framework", default="", help="with --model-dir: onnx, sklearn, tensorflow or a plug-in's name"
    )
    parser.add_argument("--fd", type=int, help="an inherited listening socket")
    parser.add_argument("--listen", default="127.0.0.1:8501", metavar="HOST:PORT", help="where to listen (port 0: any)")
    parser.add_argument("--state", type=Path, help="where to write what is served (JSON)")
    parser.add_argument(
        "--allow-unsafe-formats", action="store_true", help="load pickles and SavedModels that may do anything"
    )
    parser.add_argument(
        "--drain-seconds", type=float, default=10.0, help="how long idle connections are kept at the end"
    )
    parsed = parser.parse_args(arguments)
    host, _, port = parsed.listen.rpartition(":")
    if not port.isdecimal():
        parser.error("--listen needs HOST:PORT")
    if (parsed.config is None) == (parsed.model_dir is None):
        parser.error("give either --config or --model-dir")
    return run(
        ServerOptions(
            config=parsed.config,
            fd=parsed.fd,
            host=host.strip("[]"),
            port=int(port),
            state=parsed.state,
            allow_unsafe_formats=parsed.allow_unsafe_formats,
            model_dir=parsed.model_dir,
            name=parsed.name,
            framework=parsed.framework,
            drain_seconds=parsed.drain_seconds,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
