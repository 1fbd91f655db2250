"""A real, bare control plane for contract tests: etcd and a kube-apiserver on loopback, no controllers, no kubelet.

Both are built by tests/tools/install.py. Nothing reconciles: no garbage collection, no default service accounts.
"""

from __future__ import annotations

import base64
import ctypes
import json
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.contract.pki import Authority, write_key

ATTEMPTS = 5
DEADLINE_SECONDS = 120.0
PROGRAMS = ("etcd", "kube-apiserver", "kubectl")
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class KubeApiserver:
    """How to reach a running kube-apiserver; `token` is an administrator's, `nobody_token` may do nothing."""

    url: str
    token: str
    nobody_token: str
    ca_file: Path
    client_certificate: Path
    client_key: Path
    kubeconfig: Path
    kubectl: Path


class StartError(Exception):
    """A program of the control plane ended, or was not ready in time; the message has the end of its log."""


@contextmanager
def running_kube_apiserver(programs: Path, folder: Path) -> Iterator[KubeApiserver]:
    """Start one in `folder`, stop it afterwards. Raises StartError.

    Free ports cannot be reserved for another program, so a start that lost its port is tried again with others.
    """
    for attempt in range(1, ATTEMPTS + 1):
        home = folder / f"attempt-{attempt}"
        home.mkdir()
        with ExitStack() as stack:
            try:
                server = _start(programs, home, stack)
            except StartError as fault:
                if attempt == ATTEMPTS or "address already in use" not in str(fault):
                    raise
                continue
            yield server
            return


def _start(programs: Path, home: Path, stack: ExitStack) -> KubeApiserver:
    etcd_url, peer_url, port = f"http://{LOOPBACK}:{free_port()}", f"http://{LOOPBACK}:{free_port()}", free_port()
    authority = Authority(home)
    token, nobody_token = secrets.token_hex(16), secrets.token_hex(16)
    etcd = stack.enter_context(_process(home / "etcd.log", _etcd_command(programs, home, etcd_url, peer_url)))
    _wait(etcd, "etcd", home / "etcd.log", lambda: answers(f"{etcd_url}/health"))
    (home / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n{nobody_token},nobody,nobody\n')
    certificate, key = authority.issue("kube-apiserver")
    command = [*_apiserver_command(programs, home, etcd_url, port), f"--tls-cert-file={certificate}"]
    command.append(f"--tls-private-key-file={key}")
    # Entered last, so stopped first: a kube-apiserver hangs on a lost etcd.
    apiserver = stack.enter_context(_process(home / "kube-apiserver.log", command))
    url, tls = f"https://{LOOPBACK}:{port}", ssl.create_default_context(cafile=str(authority.ca_file))
    paths = (f"{url}/readyz", f"{url}/api/v1/namespaces/default")
    ready = partial(_all_answer, paths, token, tls)
    _wait(apiserver, "kube-apiserver", home / "kube-apiserver.log", ready)
    client_certificate, client_key = authority.issue("client-admin", groups=("system:masters",), client=True)
    return KubeApiserver(
        url=url,
        token=token,
        nobody_token=nobody_token,
        ca_file=authority.ca_file,
        client_certificate=client_certificate,
        client_key=client_key,
        kubeconfig=write_kubeconfig(home / "kubeconfig", url, authority.ca_file, token),
        kubectl=programs / "kubectl",
    )


def write_kubeconfig(path: Path, url: str, ca_file: Path, token: str) -> Path:
    """Write a kubeconfig with one context named `test`. JSON is YAML too."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(ca_file.read_bytes()).decode()}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
    }
    path.write_text(json.dumps(config, indent=2))
    path.chmod(0o600)
    return path


def _etcd_command(programs: Path, home: Path, client_url: str, peer_url: str) -> list[str]:
    return [
        str(programs / "etcd"),
        f"--data-dir={home / 'etcd'}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        "--unsafe-no-fsync",
    ]


def _apiserver_command(programs: Path, home: Path, etcd_url: str, port: int) -> list[str]:
    service_account_key = write_key(home / "service-account.key")
    return [
        str(programs / "kube-apiserver"),
        f"--etcd-servers={etcd_url}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--cert-dir={home / 'certificates'}",
        f"--client-ca-file={home / 'ca.crt'}",
        f"--token-auth-file={home / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={service_account_key}",
        f"--service-account-signing-key-file={service_account_key}",
    ]


@contextmanager
def _process(log: Path, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - no thread runs yet
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _die_with_parent() -> None:
    """A test run that is killed must not leave a control plane behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _wait(process: subprocess.Popen[bytes], name: str, log: Path, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not ready():
        code = process.poll()
        if code is not None:
            raise StartError(f"{name} ended with {code}:\n{_tail(log)}")
        if time.monotonic() > deadline:
            raise StartError(f"{name} was not ready in {DEADLINE_SECONDS:.0f} s:\n{_tail(log)}")
        time.sleep(0.05)
    if process.poll() is not None:  # somebody else answered on its port
        raise StartError(f"{name} ended with {process.returncode}:\n{_tail(log)}")


def _all_answer(urls: Sequence[str], token: str, tls: ssl.SSLContext) -> bool:
    return all(answers(url, token, tls) for url in urls)


def answers(url: str, token: str = "", tls: ssl.SSLContext | None = None) -> bool:
    """Whether it answers with 200."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=5, context=tls) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def free_port() -> int:
    """A port that nobody has at this moment: it cannot be reserved for another program."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _tail(log: Path, lines: int = 40) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
