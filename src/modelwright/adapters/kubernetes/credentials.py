"""Logs in: gives the token or certificate for the next connection, and renews what runs out.

Exec plug-ins follow https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from modelwright.adapters.kubernetes.access import Access, ExecPlugin
from modelwright.ports.errors import Forbidden, Invalid, Unavailable

TOKEN_FILE_SECONDS = 60.0
PLUGIN_SECONDS = 60.0
RENEW_BEFORE = timedelta(seconds=30)


class Credential(msgspec.Struct, frozen=True):
    """What a connection shows; either part may be empty."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""


class Credentials:
    """The credentials of one access. Nothing here is ever logged."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._cached: Credential | None = None
        self._renew_at = float("inf")
        self._lock = asyncio.Lock()

    async def current(self) -> Credential:
        """The credential to use now. Raises Forbidden, Unavailable, Invalid."""
        if self._cached is not None and time.time() < self._renew_at:
            return self._cached
        async with self._lock:
            if self._cached is None or time.time() >= self._renew_at:
                self._cached = await self._read()
            return self._cached

    def renew(self) -> bool:
        """Forget a credential that was refused; whether another one can be had."""
        login = self._access.login
        self._renew_at = 0.0
        return login.plugin is not None or login.token_file is not None

    async def _read(self) -> Credential:
        login = self._access.login
        self._renew_at = float("inf")
        if login.plugin is not None:
            credential, expires = await run_plugin(login.plugin, self._access)
            if expires is not None:
                self._renew_at = (expires - RENEW_BEFORE).timestamp()
            return credential
        if login.token_file is not None:  # kubelet replaces projected tokens while we run
            self._renew_at = time.time() + TOKEN_FILE_SECONDS
            return Credential(_token_from(login.token_file, self._access.source), login.certificate, login.key)
        return Credential(login.token, login.certificate, login.key)


def _token_from(path: Any, source: str) -> str:
    try:
        return str(path.read_text()).strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise Unavailable(f"{source}: the token in {path} cannot be read: {fault}", reason="TokenUnreadable") from None


# Exec plug-ins ------------------------------------------------------------------------------------------------------


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


async def run_plugin(plugin: ExecPlugin, access: Access) -> tuple[Credential, datetime | None]:
    """Run an exec plug-in; what it printed, and when that runs out. Raises Forbidden, Invalid."""
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive == "Always" and not terminal:
        raise Forbidden(f"{plugin.command} must ask on a terminal, and there is none", reason="LoginFailed")
    interactive = terminal and plugin.interactive != "Never"
    environment = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": _exec_info(plugin, access, interactive)}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as fault:
        hint = f"\n{plugin.install_hint}" if plugin.install_hint else ""
        message = f"the login program {plugin.command} cannot be run: {fault.strerror}{hint}"
        raise Forbidden(message, reason="LoginFailed") from None
    try:
        async with asyncio.timeout(None if interactive else PLUGIN_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        raise Unavailable(f"the login program {plugin.command} did not end", reason="LoginFailed") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise Forbidden(f"the login program {plugin.command} ended with {process.returncode}", reason="LoginFailed")
    return _parse(output, plugin)


def _parse(output: bytes, plugin: ExecPlugin) -> tuple[Credential, datetime | None]:
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.DecodeError:  # never with the output: it holds a secret
        raise Invalid(f"{plugin.command} did not print an ExecCredential", reason="LoginFailed") from None
    status = answer.status or _Status()
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        message = (
            f"{plugin.command} printed {answer.kind} {answer.api_version}, not ExecCredential {plugin.api_version}"
        )
        raise Invalid(message, reason="LoginFailed")
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise Invalid(f"{plugin.command} printed neither a token nor a certificate with its key", reason="LoginFailed")
    expires = status.expiration_timestamp
    if expires is not None and expires.tzinfo is None:
        expires = expires.replace(tzinfo=UTC)
    certificate, key = status.client_certificate_data.encode(), status.client_key_data.encode()
    return Credential(status.token.strip(), certificate, key), expires


def _exec_info(plugin: ExecPlugin, access: Access, interactive: bool) -> str:
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        cluster = {"server": access.server}
        if access.ca:
            cluster["certificate-authority-data"] = base64.b64encode(access.ca).decode()
        if access.tls_server_name:
            cluster["tls-server-name"] = access.tls_server_name
        spec["cluster"] = cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()
