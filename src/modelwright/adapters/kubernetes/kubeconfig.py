"""Reads kubeconfig files as kubectl does: several files are merged, and the first to name a thing wins.

Format: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from modelwright.adapters.kubernetes.access import Access, ExecPlugin, Login
from modelwright.ports.errors import Invalid, NotFound

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class _Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    proxy_url: str = ""


class _Variable(msgspec.Struct, frozen=True):
    name: str
    value: str


class _Exec(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    command: str
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str = ""
    interactive_mode: Literal["Never", "IfAvailable", "Always"] = "IfAvailable"
    provide_cluster_info: bool = False


class _User(msgspec.Struct, frozen=True, rename="kebab"):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: _Exec | None = None
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    auth_provider: Any = None
    username: str = ""


class _Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: _Cluster | None = None


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: _Context | None = None


class _Config(msgspec.Struct, frozen=True, rename="kebab"):
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


class _Merged:
    """All files together; with each entry, the file that it came from, since its paths are relative to that."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.current = ""
        self.clusters: dict[str, tuple[_Cluster, Path]] = {}
        self.users: dict[str, tuple[_User, Path]] = {}
        self.contexts: dict[str, tuple[_Context, Path]] = {}
        for path in files:
            config = _read(path)
            self.current = self.current or config.current_context or ""
            for cluster in config.clusters or ():
                self.clusters.setdefault(cluster.name, (cluster.cluster or _Cluster(), path))
            for user in config.users or ():
                self.users.setdefault(user.name, (user.user or _User(), path))
            for context in config.contexts or ():
                self.contexts.setdefault(context.name, (context.context or _Context(), path))


def load_kubeconfig(files: Sequence[Path], context: str = "", namespace: str = "") -> Access:
    """The access that a context of these files describes, by default their current context.

    Files that do not exist are passed over, as kubectl does. Raises NotFound (no file, context, cluster or user),
    Invalid (not a kubeconfig, or one that asks for what we refuse).
    """
    present = [path for path in files if path.exists()]
    shown = ", ".join(str(path) for path in files)
    if not present:
        raise NotFound(f"there is no kubeconfig at {shown}", reason="KubeconfigNotFound")
    merged = _Merged(present)
    name = context or merged.current
    if not name:
        raise NotFound(f"{shown} has no current context: choose one with --context", reason="ContextNotFound")
    if name not in merged.contexts:
        known = ", ".join(sorted(merged.contexts)) or "none"
        raise NotFound(f"{shown} has no context {name!r} (it has: {known})", reason="ContextNotFound")
    chosen, path = merged.contexts[name]
    return _access(merged, chosen, f"context {name!r} of {path}", namespace)


def _access(merged: _Merged, context: _Context, source: str, namespace: str) -> Access:
    if context.cluster not in merged.clusters:
        raise NotFound(f"{source} names the cluster {context.cluster!r}, which is not there", reason="ClusterNotFound")
    cluster, path = merged.clusters[context.cluster]
    if context.user and context.user not in merged.users:
        raise NotFound(f"{source} names the user {context.user!r}, which is not there", reason="UserNotFound")
    user, user_path = merged.users.get(context.user, (_User(), path))
    if cluster.insecure_skip_tls_verify:
        raise Invalid(
            f"{source} asks for insecure-skip-tls-verify, which Modelwright refuses: put the cluster's authority into"
            " certificate-authority-data instead",
            reason="TlsVerificationRequired",
        )
    return Access(
        server=cluster.server,
        source=source,
        namespace=namespace or context.namespace or "default",
        ca=_content(cluster.certificate_authority_data, cluster.certificate_authority, path),
        tls_server_name=cluster.tls_server_name,
        proxy_url=cluster.proxy_url,
        login=_login(user, user_path, source),
    )


def _login(user: _User, path: Path, source: str) -> Login:
    if user.auth_provider is not None or user.username:
        kind = "a password" if user.username else "an auth-provider"
        raise Invalid(f"{source} logs in with {kind}: use a token, a certificate or exec", reason="LoginNotSupported")
    if user.impersonate_groups and not user.impersonate:
        raise Invalid(f"{source} has as-groups without as", reason="InvalidKubeconfig")
    return Login(
        token=user.token,
        token_file=_beside(path, user.token_file) if user.token_file else None,
        certificate=_content(user.client_certificate_data, user.client_certificate, path),
        key=_content(user.client_key_data, user.client_key, path),
        plugin=_plugin(user.exec, path, source) if user.exec else None,
        impersonate_user=user.impersonate,
        impersonate_groups=tuple(user.impersonate_groups or ()),
    )


def _plugin(plugin: _Exec, path: Path, source: str) -> ExecPlugin:
    if plugin.api_version not in EXEC_VERSIONS:
        raise Invalid(
            f"{source} has an exec plug-in of version {plugin.api_version!r}: {' or '.join(EXEC_VERSIONS)} is needed",
            reason="LoginNotSupported",
        )
    # As client-go: a command with a slash is relative to its kubeconfig, any other is looked up in PATH.
    command = str(_beside(path, plugin.command)) if "/" in plugin.command else plugin.command
    return ExecPlugin(
        api_version=plugin.api_version,
        command=command,
        args=tuple(plugin.args or ()),
        env=tuple((variable.name, variable.value) for variable in plugin.env or ()),
        install_hint=plugin.install_hint,
        interactive=plugin.interactive_mode,
        provide_cluster_info=plugin.provide_cluster_info,
    )


def _read(path: Path) -> _Config:
    try:
        document = yaml.safe_load(path.read_bytes())
        return msgspec.convert(document if document is not None else {}, _Config)
    except yaml.YAMLError as fault:  # its text quotes the line it stumbled over, which may hold a secret
        mark = getattr(fault, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise Invalid(f"{path} is not a kubeconfig: it is not YAML{where}", reason="InvalidKubeconfig") from None
    except (msgspec.ValidationError, OSError) as fault:
        raise Invalid(f"{path} is not a kubeconfig: {fault}", reason="InvalidKubeconfig") from None


def _content(data: str, file: str, path: Path) -> bytes:
    """The bytes of `x-data` if given, else of the file `x`."""
    try:
        if data:
            return base64.b64decode(data, validate=True)
        return _beside(path, file).read_bytes() if file else b""
    except (binascii.Error, OSError) as fault:
        message = f"{path} names a certificate or key that cannot be read: {fault}"
        raise Invalid(message, reason="InvalidKubeconfig") from None


def _beside(path: Path, file: str) -> Path:
    return path.parent / Path(file).expanduser()
