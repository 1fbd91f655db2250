"""`modelwright server`: the model server, by hand or for a supervisor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("server")(server)


def server(
    config: Annotated[Path | None, typer.Option(help="What to serve (JSON); the file is watched.")] = None,
    model_dir: Annotated[Path | None, typer.Option(help="Serve the model in this folder instead.")] = None,
    name: Annotated[str, typer.Option(help="With --model-dir: the model's name.")] = "",
    framework: Annotated[str, typer.Option(help="With --model-dir: onnx, sklearn or a plug-in's name.")] = "",
    fd: Annotated[int | None, typer.Option(help="An inherited listening socket.")] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0: any.")] = "127.0.0.1:8501",
    state: Annotated[Path | None, typer.Option(help="Where to write what is served (JSON).")] = None,
    allow_unsafe_formats: Annotated[
        bool, typer.Option("--allow-unsafe-formats", help="Load joblib and pickle, which run code.")
    ] = False,
    drain_seconds: Annotated[float, typer.Option(help="How long idle connections are kept at the end.")] = 10.0,
) -> None:
    """Serve one model: Open Inference Protocol v2, and TensorFlow Serving's REST."""
    from modelwright.serve.process import ServerOptions, run

    host, _, port = listen.rpartition(":")
    if not port.isdecimal():
        raise typer.BadParameter("give HOST:PORT", param_hint="--listen")
    if (config is None) == (model_dir is None):
        raise typer.BadParameter("give either --config or --model-dir", param_hint="--config")
    options = ServerOptions(
        config=config,
        fd=fd,
        host=host.strip("[]"),
        port=int(port),
        state=state,
        allow_unsafe_formats=allow_unsafe_formats,
        model_dir=model_dir,
        name=name,
        framework=framework,
        drain_seconds=drain_seconds,
    )
    raise typer.Exit(run(options))
