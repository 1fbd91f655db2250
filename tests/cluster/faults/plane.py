"""A control plane whose Pods run nowhere: etcd, kube-apiserver, kube-controller-manager and kube-scheduler.

Jobs make Pods, claims bind to volumes, the scheduler chooses nodes, owners take what they own with them: all of that is
Kubernetes itself. Only what a kubelet would do is done by `kubelet.FakeKubelet`. Its parts can be killed one by one.
"""

from __future__ import annotations

import base64
import json
import secrets
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.faults.processes import Program
from tests.contract.kube_apiserver import LOOPBACK, StartError, answers, free_port, write_kubeconfig
from tests.contract.pki import Authority, write_key

ATTEMPTS = 5
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


class Plane:
    """A running control plane; `kubeconfig` is an administrator's, straight to the kube-apiserver."""

    def __init__(self, programs: Path, home: Path) -> None:
        self.kubectl = programs / "kubectl"
        self._home = home
        self._etcd_url, peer_url = f"http://{LOOPBACK}:{free_port()}", f"http://{LOOPBACK}:{free_port()}"
        authority, self.token = Authority(home), secrets.token_hex(16)
        port = free_port()
        self.url, self.ca_file = f"https://{LOOPBACK}:{port}", authority.ca_file
        self.kubeconfig = write_kubeconfig(home / "kubeconfig", self.url, self.ca_file, self.token)
        (home / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')
        key, certificate = write_key(home / "service-account.key"), authority.issue("kube-apiserver")
        self.etcd = self._program("etcd", programs, _etcd(home, self._etcd_url, peer_url))
        apiserver = _apiserver(home, self._etcd_url, port, key, certificate)
        self.apiserver = self._program("kube-apiserver", programs, apiserver)
        manager, scheduler = _controller_manager(self.kubeconfig, key, self.ca_file), _scheduler(self.kubeconfig)
        self.controller_manager = self._program("kube-controller-manager", programs, manager)
        self.scheduler = self._program("kube-scheduler", programs, scheduler)
        self._tls = ssl.create_default_context(cafile=str(self.ca_file))

    def _program(self, name: str, programs: Path, flags: list[str]) -> Program:
        return Program(name, [str(programs / name), *flags], self._home / f"{name}.log")

    def start(self) -> None:
        """Raises StartError."""
        self.start_etcd()
        self.start_apiserver()
        self.controller_manager.start()
        self.scheduler.start()

    def start_etcd(self) -> None:
        self.etcd.start()
        self.etcd.wait_until(lambda: answers(f"{self._etcd_url}/health"))

    def start_apiserver(self) -> None:
        self.apiserver.start()
        self.apiserver.wait_until(lambda: self._ready("/readyz") and self._ready("/api/v1/namespaces/default"))

    def stop(self) -> None:
        """A kube-apiserver hangs on a lost etcd: that goes last."""
        for program in (self.scheduler, self.controller_manager, self.apiserver, self.etcd):
            program.stop()

    # What is done to etcd behind the kube-apiserver's back ----------------------------------------------------------

    def compact(self) -> int:
        """Forget all but the newest state of everything; the revision that is left."""
        revision = int(self._etcd("range", {"key": _text("/")})["header"]["revision"])
        self._etcd("compaction", {"revision": str(revision), "physical": True})
        return revision

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Store an object that no kube-apiserver has checked."""
        self._etcd("put", {"key": _text(key), "value": _text(json.dumps(value))})

    def _etcd(self, call: str, body: dict[str, Any]) -> Any:
        """https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/"""
        path = f"{self._etcd_url}/v3/kv/{call}"
        with urllib.request.urlopen(urllib.request.Request(path, json.dumps(body).encode()), timeout=30) as answer:
            return json.load(answer)

    def _ready(self, path: str) -> bool:
        return answers(f"{self.url}{path}", self.token, self._tls)


@contextmanager
def running_plane(programs: Path, folder: Path) -> Iterator[Plane]:
    """Start one in `folder`, stop it afterwards. Raises StartError.

    Free ports cannot be reserved for another program, so a start that lost its port is tried again with others.
    """
    for attempt in range(1, ATTEMPTS + 1):
        home = folder / f"attempt-{attempt}"
        home.mkdir()
        with ExitStack() as stack:
            plane = Plane(programs, home)
            stack.callback(plane.stop)
            try:
                plane.start()
            except StartError as fault:
                if attempt == ATTEMPTS or "address already in use" not in str(fault):
                    raise
                continue
            yield plane
            return


def _etcd(home: Path, url: str, peer_url: str) -> list[str]:
    return [
        f"--data-dir={home / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        "--unsafe-no-fsync",
    ]


def _apiserver(home: Path, etcd_url: str, port: int, key: Path, certificate: tuple[Path, Path]) -> list[str]:
    return [
        f"--etcd-servers={etcd_url}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--tls-cert-file={certificate[0]}",
        f"--tls-private-key-file={certificate[1]}",
        f"--cert-dir={home / 'certificates'}",
        f"--token-auth-file={home / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
    ]


def _controller_manager(kubeconfig: Path, key: Path, ca_file: Path) -> list[str]:
    """All controllers but the one that looks after heartbeats: the nodes of these tests have none."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={key}",
        f"--root-ca-file={ca_file}",
        "--leader-elect=false",
        "--secure-port=0",
        "--controllers=*,-node-lifecycle-controller",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def _scheduler(kubeconfig: Path) -> list[str]:
    return [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0", "--kube-api-qps=200"]


def _text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()
