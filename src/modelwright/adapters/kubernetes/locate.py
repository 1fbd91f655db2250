"""Where the control plane is, when nobody says: the order in which kubeconfigs are looked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from modelwright.adapters.kubernetes.access import Access, Login
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.ports.errors import NotFound

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def find_access(
    kubeconfig: Path | None = None,
    context: str = "",
    namespace: str = "",
    *,
    environ: Mapping[str, str] | None = None,
) -> Access:
    """The access that a client means: the named file, KUBECONFIG, ~/.kube/config, then what `modelwright up` wrote.

    Raises NotFound (reason NoControlPlane where there is no file at all), Invalid.
    """
    environ = os.environ if environ is None else environ
    if kubeconfig is not None:
        return load_kubeconfig([kubeconfig], context, namespace)
    if environ.get("KUBECONFIG"):
        named = [Path(entry) for entry in environ["KUBECONFIG"].split(os.pathsep) if entry]
        return load_kubeconfig(named, context, namespace)
    candidates = [_home(environ) / ".kube" / "config", default_data_dir(environ) / "kubeconfig"]
    for candidate in candidates:
        if candidate.exists():
            return load_kubeconfig([candidate], context, namespace)
    looked = " and ".join(str(candidate) for candidate in candidates)
    raise NotFound(
        f"no control plane is known: there is no kubeconfig at {looked}."
        " Start one on this machine with `modelwright up`, or name one with --kubeconfig or KUBECONFIG",
        reason="NoControlPlane",
    )


def default_data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Where `modelwright up` keeps its data unless told otherwise: XDG_DATA_HOME, else ~/.local/share."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_DATA_HOME")
    return (Path(base) if base else _home(environ) / ".local" / "share") / "modelwright"


def in_cluster(*, folder: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] | None = None) -> Access | None:
    """The access of the Pod that this runs in, or None outside of a cluster."""
    environ = os.environ if environ is None else environ
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    token, ca = folder / "token", folder / "ca.crt"
    if not host or not port or not token.exists() or not ca.exists():
        return None
    namespace = folder / "namespace"
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        source=f"the service account in {folder}",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        ca=ca.read_bytes(),
        login=Login(token_file=token),
    )


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()
