"""`python -m modelwright.serve`: the server process without the rest of the program."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from modelwright.http.options import add_arguments, add_guards, process_options
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
    parser.add_argument(
        "--allow-unsafe-formats", action="store_true", help="load pickles and SavedModels that may do anything"
    )
    add_arguments(parser, 8501)
    add_guards(parser)
    parsed = parser.parse_args(arguments)
    if (parsed.config is None) == (parsed.model_dir is None):
        parser.error("give either --config or --model-dir")
    return run(
        ServerOptions(
            **process_options(parser, parsed),
            allow_unsafe_formats=parsed.allow_unsafe_formats,
            model_dir=parsed.model_dir,
            name=parsed.name,
            framework=parsed.framework,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
