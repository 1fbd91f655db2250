"""How a server process is started."""

from __future__ import annotations

from pathlib import Path

from modelwright.http.options import ProcessOptions
from modelwright.ports.errors import Invalid
from modelwright.serve.config import ServerConfig, VersionConfig


class ServerOptions(ProcessOptions, frozen=True, kw_only=True):
    """The command line of `modelwright server`.

    Either `config` (a file that is watched) or `model_dir`, `name` and `framework` (one version, for use by hand).
    """

    allow_unsafe_formats: bool = False
    model_dir: Path | None = None
    name: str = ""
    framework: str = ""


def config_by_hand(options: ServerOptions) -> ServerConfig:
    """The configuration that `--model-dir`, `--name` and `--framework` describe; raises Invalid."""
    if options.model_dir is None or not options.name or not options.framework:
        raise Invalid(
            "say what to serve: --config FILE, or --model-dir DIR with --name NAME and --framework FRAMEWORK",
            reason="ConfigInvalid",
        )
    version = VersionConfig(version="1", number=1, path=str(options.model_dir.absolute()))
    return ServerConfig(
        model_name=options.name, framework_type=options.framework, versions=(version,), default_version="1"
    )
