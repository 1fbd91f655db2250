"""What containerd, kubelet and kube-proxy of a node are configured with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.rig import cgroups, names, state
from tests.cluster.rig.control_plane import ControlPlane
from tests.cluster.rig.images import PAUSE
from tests.cluster.rig.names import Names

SYSCTLS = {  # what a kubelet wants of the machine's kernel, and would set
    "vm.overcommit_memory": 1,
    "vm.panic_on_oom": 0,
    "kernel.panic": 10,
    "kernel.panic_on_oops": 1,
    "kernel.keys.root_maxkeys": 1_000_000,
    "kernel.keys.root_maxbytes": 25_000_000,
}


def write(
    folder: Path,
    cluster: Names,
    node: str,
    index: int,
    plane: ControlPlane,
    registries: Sequence[state.RegistryState],
) -> None:
    """Write all of it into `folder`, which the node sees as /opt/node."""
    folder.mkdir(parents=True)
    _write_sysctls(folder / "sysctl")
    (folder / "cni").mkdir()
    if node != names.BARE_NODE:
        _write_pod_network(folder / "cni", cluster.pod_subnet(index))
    for registry in registries:
        _write_registry(folder / "registries" / registry.host, registry)
    shutil.copy(plane.authority.ca_file, folder / "ca.crt")
    certificate, key = plane.authority.issue(f"kubelet-{node}", hosts=(cluster.node_address(index), node))
    shutil.copy(certificate, folder / "kubelet.crt")
    shutil.copy(key, folder / "kubelet.key")
    plane.kubeconfig(folder / "kubelet.conf", f"system:node:{node}", ("system:nodes",))
    plane.kubeconfig(folder / "kube-proxy.conf", "system:kube-proxy")
    (folder / "containerd.toml").write_text(_containerd(registries[0].host))
    (folder / "kubelet.yaml").write_text(json.dumps(_kubelet(cluster.name, node), indent=2))
    (folder / "kube-proxy.yaml").write_text(json.dumps(_kube_proxy(node), indent=2))


def _write_sysctls(folder: Path) -> None:
    folder.mkdir()
    for name, value in SYSCTLS.items():
        (folder / name).write_text(f"{value}\n")


def _write_pod_network(folder: Path, subnet: str) -> None:
    ranges, routes = [[{"subnet": subnet}]], [{"dst": "0.0.0.0/0"}]
    addresses = {"type": "host-local", "dataDir": "/run/cni-addresses", "ranges": ranges, "routes": routes}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True}
    plugins = [{**bridge, "ipam": addresses}, {"type": "portmap", "capabilities": {"portMappings": True}}]
    network = {"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}
    (folder / "10-pods.conflist").write_text(json.dumps(network, indent=2))


def _write_registry(folder: Path, registry: state.RegistryState) -> None:
    """A registry with an authority of its own is asked with TLS, any other without."""
    folder.mkdir(parents=True)
    scheme = "https" if registry.ca_file else "http"
    lines = [f'server = "{scheme}://{registry.host}"']
    if registry.ca_file:
        shutil.copy(registry.ca_file, folder / "ca.crt")
        lines.append(f'ca = "/opt/node/registries/{registry.host}/ca.crt"')
    (folder / "hosts.toml").write_text("\n".join(lines) + "\n")


def _containerd(registry: str) -> str:
    return f"""version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{registry}/{PAUSE}"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "/opt/node/registries"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true  # a profile that is loaded once stays in the machine's kernel
  restrict_oom_score_adj = true  # not every machine lets its root make processes harder to kill
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "/opt/node/cni"
"""


def _kubelet(cluster: str, node: str) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/opt/node/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": "/opt/node/kubelet.crt",
        "tlsPrivateKeyFile": "/opt/node/kubelet.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroups.node_root(cluster, node),
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "resolvConf": "",
        "healthzBindAddress": "0.0.0.0",
        "failCgroupV1": False,
        "failSwapOn": False,
        "serializeImagePulls": False,
        "registryPullQPS": 0,
        "nodeLeaseDurationSeconds": 8,
        "crashLoopBackOff": {"maxContainerRestartPeriod": "5s"},
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    }


def _kube_proxy(node: str) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node,
        "clientConnection": {"kubeconfig": "/opt/node/kube-proxy.conf"},
        "clusterCIDR": names.POD_SUBNET,
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
