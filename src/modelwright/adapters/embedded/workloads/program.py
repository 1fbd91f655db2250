"""What a server's processes are told to run, as a pure function of what is applied and which models are here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from modelwright.adapters.embedded.workloads import amounts, kept
from modelwright.ports.errors import Terminal
from modelwright.ports.workloads import Command, Container, Gateway, ModelServer, ServedVersion, Server

CONFIG = "$(MODELWRIGHT_CONFIG)"
_OPTIONS = ("--config", CONFIG, "--fd", "$(MODELWRIGHT_FD)", "--state", "$(MODELWRIGHT_STATE)")


class ServerConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The file given to a model server by --config (`serve.config` is the other side)."""

    model_name: str
    framework_type: str
    versions: tuple[VersionConfig, ...]
    default_version: str
    threads: int = 0


class VersionConfig(msgspec.Struct, frozen=True, rename="camel"):
    version: str
    number: int
    path: str
    labels: tuple[str, ...] = ()


class Upstream(msgspec.Struct, frozen=True, rename="camel"):
    """A model that a gateway asks; no URL while that is not known."""

    url: str = ""


class GatewayConfig(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The file given to a gateway by --config (`gateway.config` is the other side)."""

    name: str
    edge: Upstream
    cloud: Upstream
    policy: str
    parameters: dict[str, float]
    timeout_seconds: float
    keep_folder: str
    keep_max_bytes: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`key` tells generations apart; `config` is the file's content, empty for a command."""

    key: str
    argv: tuple[str, ...]
    env: dict[str, str] = {}
    config: bytes = b""
    default: str = ""
    versions: tuple[ServedVersion, ...] = ()


def check(server: Server) -> None:
    """Raises Terminal for what cannot run here, Invalid for a quantity that is none."""
    program = server.program
    if isinstance(program, Container) or (isinstance(program, Command) and program.image):
        raise Terminal(
            f"{server.name} needs the container image {program.image}, and there are no containers on this machine: "
            "serve a model by manifest or modelVersion, or use the Kubernetes mode",
            reason="NeedsContainers",
        )
    if isinstance(program, Command):
        words = (*program.command, *program.args, *program.env.values())
        if not any("$(MODELWRIGHT_FD)" in word for word in words):
            raise Terminal(
                f"{server.name}: a command that serves takes its listening socket from $(MODELWRIGHT_FD) "
                "and writes its state to $(MODELWRIGHT_STATE)",
                reason="NeedsSocket",
            )
        if program.mounts:
            raise Terminal(f"{server.name}: a command that serves cannot have mounts here", reason="MountNotSupported")
    if isinstance(program, Gateway) and program.kept is not None:
        kept.check(program.kept.name)
    amounts.memory_limit(server.resources)
    amounts.threads(server.resources)


def plan_models(
    server: Server,
    program: ModelServer,
    *,
    port: int,
    folders: Mapping[str, Path],
    served: ServedVersion | None,
    command: Sequence[str],
) -> Plan | None:
    """What to run with the models that are in `folders` (by version); None while there is nothing to serve.

    A server that loads in place also keeps what it `served` last, until the new default is served.
    Otherwise nothing new is started before the wanted default is here.
    """
    versions = [version for version in program.versions if version.version in folders]
    default = program.default if program.default in folders else ""
    if program.in_place and served is not None and served.version in folders:
        if served.version not in {version.version for version in versions}:
            versions.append(_numbered(served, versions))
        default = default or served.version
    if not default:
        return None
    config = msgspec.json.encode(
        ServerConfig(
            model_name=program.model_name,
            framework_type=program.framework,
            versions=tuple(
                VersionConfig(version.version, version.number, str(folders[version.version])) for version in versions
            ),
            default_version=default,
            threads=amounts.threads(server.resources),
        )
    )
    same = (program.model_name, program.framework) if program.in_place else (config,)
    return Plan(
        key=_key("model", program.in_place, port, *same),
        argv=(*command, *_OPTIONS),
        config=config,
        default=default,
        versions=tuple(versions),
    )


def _numbered(served: ServedVersion, others: Sequence[ServedVersion]) -> ServedVersion:
    """With a number of its own: the new versions may use the one that it had."""
    taken = {version.number for version in others}
    number = served.number
    while number in taken:
        number += 1
    return msgspec.structs.replace(served, number=number)


def plan_command(program: Command, port: int) -> Plan:
    """What to run for a command."""
    argv = (*program.command, *program.args)
    return Plan(key=_key("command", port, argv, sorted(program.env.items())), argv=argv, env=program.env)


def plan_gateway(program: Gateway, *, port: int, folder: Path | None, command: Sequence[str]) -> Plan:
    """What to run for a gateway, which takes up any change of its configuration; `folder` is its kept one."""
    config = GatewayConfig(
        name=program.name,
        edge=Upstream(program.edge_url),
        cloud=Upstream(program.cloud_url),
        policy=program.policy,
        parameters=program.parameters,
        timeout_seconds=program.timeout_seconds,
        keep_folder=str(folder or ""),
        keep_max_bytes=program.keep_max_bytes,
    )
    return Plan(key=_key("gateway", port), argv=(*command, *_OPTIONS), config=msgspec.json.encode(config))


def _key(*parts: object) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]
