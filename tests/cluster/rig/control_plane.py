"""The control plane on the host: etcd, kube-apiserver, kube-controller-manager, kube-scheduler."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import msgspec
from tests.cluster.rig import health, names, processes
from tests.cluster.rig.names import Names
from tests.contract.pki import Authority, write_key

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class ControlPlane(msgspec.Struct, frozen=True):
    """Where the control plane's files are, and who vouches for whom."""

    cluster: Names
    folder: Path
    programs: Path
    authority: Authority

    @property
    def url(self) -> str:
        return f"https://{self.cluster.gateway}:{self.cluster.port('kube-apiserver')}"

    @property
    def etcd_url(self) -> str:
        return etcd_url(self.cluster)

    @property
    def audit_log(self) -> Path:
        return self.folder.parent / "logs" / "audit.log"

    def kubeconfig(self, path: Path, user: str, groups: tuple[str, ...] = ()) -> Path:
        """Write a kubeconfig for that user, known by a certificate."""
        certificate, key = self.authority.issue(user, groups=groups, client=True)
        cluster = {"server": self.url, "certificate-authority-data": _base64(self.authority.ca_file)}
        credentials = {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
        name = self.cluster.link
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        }
        path.touch(0o600)
        path.write_text(json.dumps(config, indent=2))
        return path


def etcd_url(cluster: Names) -> str:
    return f"http://{cluster.loopback}:{cluster.port('etcd')}"


def start(plane: ControlPlane) -> Path:
    """Start the control plane; the administrator's kubeconfig. Raises StartError."""
    name = plane.cluster.name
    processes.start(name, "etcd", _etcd(plane))
    health.wait(plane.cluster, "etcd")
    processes.start(name, "kube-apiserver", _apiserver(plane))
    controller_manager = plane.kubeconfig(plane.folder / "controller-manager.conf", "system:kube-controller-manager")
    scheduler = plane.kubeconfig(plane.folder / "scheduler.conf", "system:kube-scheduler")
    admin = plane.kubeconfig(plane.folder.parent / "kubeconfig", "admin", ("system:masters",))
    health.wait(plane.cluster, "kube-apiserver")
    processes.start(name, "kube-controller-manager", _controller_manager(plane, controller_manager))
    processes.start(name, "kube-scheduler", _scheduler(plane, scheduler))
    return admin


def _etcd(plane: ControlPlane) -> list[str]:
    peer = f"http://{plane.cluster.loopback}:{plane.cluster.port('etcd-peer')}"
    return [
        f"{plane.programs}/etcd",
        f"--data-dir={plane.folder}/etcd",
        f"--listen-client-urls={plane.etcd_url}",
        f"--advertise-client-urls={plane.etcd_url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    ]


def _apiserver(plane: ControlPlane) -> list[str]:
    hosts = (plane.cluster.gateway, names.API_SERVICE_ADDRESS, "kubernetes.default", "kubernetes.default.svc")
    certificate, key = plane.authority.issue("kube-apiserver", hosts=hosts)
    client, client_key = plane.authority.issue("kube-apiserver-client", groups=("system:masters",), client=True)
    signing_key = write_key(plane.folder / "service-account.key")
    policy = plane.folder / "audit-policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    return [
        f"{plane.programs}/kube-apiserver",
        f"--etcd-servers={plane.etcd_url}",
        f"--bind-address={plane.cluster.gateway}",
        f"--advertise-address={plane.cluster.gateway}",
        f"--secure-port={plane.cluster.port('kube-apiserver')}",
        f"--service-cluster-ip-range={names.SERVICE_SUBNET}",
        f"--cert-dir={plane.folder}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--client-ca-file={plane.authority.ca_file}",
        f"--kubelet-certificate-authority={plane.authority.ca_file}",
        f"--kubelet-client-certificate={client}",
        f"--kubelet-client-key={client_key}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={signing_key}",
        f"--service-account-signing-key-file={signing_key}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--default-not-ready-toleration-seconds=15",
        "--default-unreachable-toleration-seconds=15",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={plane.audit_log}",
        "--audit-log-maxsize=100000",
    ]


def _controller_manager(plane: ControlPlane, kubeconfig: Path) -> list[str]:
    """Lost nodes are noticed and claims are bound again sooner than by default: tests wait for both."""
    return [
        f"{plane.programs}/kube-controller-manager",
        *_controller(plane, "kube-controller-manager", kubeconfig),
        f"--service-account-private-key-file={plane.folder}/service-account.key",
        f"--root-ca-file={plane.authority.ca_file}",
        "--use-service-account-credentials=true",
        "--node-monitor-period=2s",
        "--node-monitor-grace-period=12s",
        "--pvclaimbinder-sync-period=5s",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def _scheduler(plane: ControlPlane, kubeconfig: Path) -> list[str]:
    return [f"{plane.programs}/kube-scheduler", *_controller(plane, "kube-scheduler", kubeconfig)]


def _controller(plane: ControlPlane, program: str, kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={plane.cluster.loopback}",
        f"--secure-port={plane.cluster.port(program)}",
        "--leader-elect=false",
    ]


def _base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
