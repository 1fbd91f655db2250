"""How to reach a Kubernetes API server, as a value."""

from __future__ import annotations

from pathlib import Path

import msgspec


class ExecPlugin(msgspec.Struct, frozen=True):
    """A program that prints a credential (client.authentication.k8s.io, ExecCredential)."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    interactive: str = "IfAvailable"
    provide_cluster_info: bool = False


class Login(msgspec.Struct, frozen=True):
    """Who asks: at most one of a token, a file with a token, a certificate or a plug-in that gives either."""

    token: str = ""
    token_file: Path | None = None
    certificate: bytes = b""
    key: bytes = b""
    plugin: ExecPlugin | None = None
    impersonate_user: str = ""
    impersonate_groups: tuple[str, ...] = ()


class Access(msgspec.Struct, frozen=True):
    """One server and one user; `source` says where it was read, for messages.

    `ca` is PEM, empty for the authorities that the system trusts; `namespace` is the context's default.
    """

    server: str
    source: str
    namespace: str = "default"
    ca: bytes = b""
    tls_server_name: str = ""
    proxy_url: str = ""
    login: Login = Login()
