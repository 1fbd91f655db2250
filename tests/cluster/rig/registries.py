"""The registries of a cluster, on the host's address: one without TLS, one with TLS and a password."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.rig import health, processes, state
from tests.cluster.rig.names import Names
from tests.contract.pki import Authority

USER, PASSWORD = "builder", "canary-5ecret"
HTPASSWD = "builder:$2b$05$5yr434kOmOQvcaFgO6iGmeH19eGn7UL4Ejof/W9hxwd5znvE/Wktq\n"
"""The user and password above, as `htpasswd -B` writes them."""


def start(cluster: Names, folder: Path) -> tuple[state.RegistryState, state.RegistryState]:
    """Start both; the open one, then the private one."""
    return _start_open(cluster, folder / "registry"), _start_private(cluster, folder / "private-registry")


def wait(cluster: Names) -> None:
    """Wait until both listen. Raises StartError."""
    for name in ("registry", "private-registry"):
        health.wait(cluster, name)


def _start_open(cluster: Names, folder: Path) -> state.RegistryState:
    host = _run(cluster, "registry", folder, {}, {})
    return state.RegistryState(host=host)


def _start_private(cluster: Names, folder: Path) -> state.RegistryState:
    folder.mkdir(parents=True)
    authority = Authority(folder)
    certificate, key = authority.issue("registry", hosts=(cluster.gateway,))
    users = folder / "htpasswd"
    users.write_text(HTPASSWD)
    tls: dict[str, object] = {"tls": {"certificate": str(certificate), "key": str(key)}}
    host = _run(cluster, "private-registry", folder, tls, {"htpasswd": {"realm": "test", "path": str(users)}})
    return state.RegistryState(host=host, user=USER, password=PASSWORD, ca_file=str(authority.ca_file))


def _run(cluster: Names, name: str, folder: Path, http: dict[str, object], auth: dict[str, object]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    host = f"{cluster.gateway}:{cluster.port(name)}"
    config: dict[str, object] = {
        "version": "0.1",
        "log": {"level": "info"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
        "http": {"addr": host, **http},
    }
    file = folder / "config.json"
    file.write_text(json.dumps({**config, "auth": auth} if auth else config))
    processes.start(cluster.name, name, ["docker-registry", "serve", file])
    return host
