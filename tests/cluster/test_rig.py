"""The cluster itself does what tests and people rely on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.request
from functools import partial
from pathlib import Path

import pytest
from tests.cluster.conftest import Kubectl
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.images import BUSYBOX
from tests.cluster.rig.manifests import container, deployment, node_port_service, pod, web
from tests.cluster.rig.waiting import until

CLOUD, EDGE = "cloud-0", "edge-0"
HOST_PORT = 8501


def on(node: str) -> dict[str, object]:
    """The part of a Pod's spec that chooses a node, by way of the scheduler."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def answer(url: str) -> str:
    """What is answered there; nothing where nobody does."""
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return str(response.read().decode().strip())
    except OSError:
        return ""


def log_of_ended(cluster: Cluster, namespace: str, name: str) -> str:
    """What a Pod has written, once it has ended, and well."""

    def phase() -> str:
        return cluster.run("get", "pod", name, "--namespace", namespace, "-o", "jsonpath={.status.phase}")

    until(lambda: phase() in {"Succeeded", "Failed"}, f"the Pod {name} to end")
    log = cluster.run("logs", name, "--namespace", namespace)
    assert phase() == "Succeeded", log
    return log


def test_a_deployment_is_answered_at_the_node_port_of_each_node(cluster: Cluster, namespace: str) -> None:
    server = container(cluster.registry, *web(8080))
    cluster.apply(deployment("web", 2, server), node_port_service("web", 8080), namespace=namespace)
    cluster.run("rollout", "status", "deployment/web", "--namespace", namespace, "--timeout=60s")
    port = cluster.get("service", "web", "--namespace", namespace)["spec"]["ports"][0]["nodePort"]
    for url in [f"http://{node.address}:{port}/" for node in cluster.nodes]:
        until(partial(answer, url), f"an answer at {url}")


def test_a_pod_at_the_edge_goes_on_while_its_node_is_cut_off(cluster: Cluster, privileged_namespace: str) -> None:
    ports = [{"containerPort": HOST_PORT, "hostPort": HOST_PORT}]
    stays = [{"operator": "Exists"}]
    server = pod("web", container(cluster.registry, *web(HOST_PORT), ports=ports), tolerations=stays, **on(EDGE))
    cluster.apply(server, namespace=privileged_namespace)
    edge = next(node for node in cluster.nodes if node.name == EDGE)
    url = f"http://{edge.address}:{HOST_PORT}/"
    until(lambda: answer(url) == "web", "an answer of the edge")
    cluster.cut(EDGE)
    try:
        assert answer(url) == ""
        assert cluster.on_node(EDGE, "busybox", "wget", "-q", "-O", "-", url).strip() == "web"
        cluster.run("wait", "--for=condition=Ready=Unknown", f"node/{EDGE}", "--timeout=60s")
    finally:
        cluster.mend(EDGE)
    cluster.run("wait", "--for=condition=Ready", f"node/{EDGE}", "--timeout=60s")
    assert answer(url) == "web"


def test_a_model_image_is_mounted_as_a_volume(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("0.5")
    image = f"{cluster.registry}/models/rig:1"
    build = [str(Path(sys.executable).with_name("modelwright")), "image", "build", str(tmp_path), image, "--plain-http"]
    subprocess.run(build, check=True, capture_output=True)
    volume = {"name": "model", "image": {"reference": image}}
    mount = {"name": "model", "mountPath": "/model", "subPath": "kubedl-model", "readOnly": True}
    reader = container(cluster.registry, "cat", "/model/weights", volumeMounts=[mount])
    cluster.apply(pod("reader", reader, volumes=[volume], restartPolicy="Never"), namespace=namespace)
    assert log_of_ended(cluster, namespace, "reader") == "0.5"


@pytest.mark.parametrize("node", [CLOUD, EDGE])
def test_a_pod_reaches_api_server_and_registry(cluster: Cluster, namespace: str, node: str) -> None:
    script = f"nc -w 5 10.96.0.1 443 </dev/null && wget -q -O - http://{cluster.registry}/v2/_catalog"
    client = container(cluster.registry, "sh", "-c", script)
    cluster.apply(pod("client", client, restartPolicy="Never", **on(node)), namespace=namespace)
    assert "busybox" in json.loads(log_of_ended(cluster, namespace, "client"))["repositories"]


def test_a_private_image_is_pulled_with_a_secret_alone(cluster: Cluster, kubectl: Kubectl, namespace: str) -> None:
    private = cluster.private_registry
    folder = Path(private.ca_file).with_name("clients")
    folder.mkdir(exist_ok=True)
    shutil.copy(private.ca_file, folder)
    login = [f"--dest-cert-dir={folder}", f"--dest-creds={private.user}:{private.password}", "--src-tls-verify=false"]
    source, target = f"docker://{cluster.registry}/{BUSYBOX}", f"docker://{private.host}/{namespace}/busybox:1"
    subprocess.run(["skopeo", "copy", "--quiet", *login, source, target], check=True)
    secret = [f"--docker-server={private.host}", f"--docker-username={private.user}"]
    kubectl("create", "secret", "docker-registry", "login", *secret, f"--docker-password={private.password}")
    echo = container(cluster.registry, "echo", "pulled", image=target.removeprefix("docker://"))
    with_secret = {"imagePullSecrets": [{"name": "login"}]}
    cluster.apply(pod("refused", echo, restartPolicy="Never"), namespace=namespace)
    waits = "jsonpath={.status.containerStatuses[0].state.waiting.reason}"
    refused = {"ErrImagePull", "ImagePullBackOff"}
    until(lambda: kubectl("get", "pod", "refused", "-o", waits) in refused, "the pull without secret to fail")
    cluster.apply(pod("allowed", echo, restartPolicy="Never", **with_secret), namespace=namespace)
    assert log_of_ended(cluster, namespace, "allowed").strip() == "pulled"


def test_a_mount_on_a_node_is_seen_by_its_pods_and_not_by_the_host(cluster: Cluster, privileged_namespace: str) -> None:
    (Path(cluster.nodes[0].root) / "foo").mkdir(exist_ok=True)
    cluster.on_node(CLOUD, "mount", "-t", "tmpfs", "foo", "/foo")
    try:
        cluster.on_node(CLOUD, "sh", "-c", "echo mounted >/foo/file")
        volume = {"name": "foo", "hostPath": {"path": "/foo", "type": "Directory"}}
        reader = container(cluster.registry, "cat", "/foo/file", volumeMounts=[{"name": "foo", "mountPath": "/foo"}])
        own = pod("reader", reader, volumes=[volume], restartPolicy="Never", **on(CLOUD))
        cluster.apply(own, namespace=privileged_namespace)
        assert log_of_ended(cluster, privileged_namespace, "reader").strip() == "mounted"
        assert not list(Path(cluster.nodes[0].root, "foo").iterdir())
        assert not Path("/foo").exists()
    finally:
        cluster.on_node(CLOUD, "umount", "--lazy", "/foo")


def test_a_namespace_admits_restricted_pods_only(kubectl: Kubectl) -> None:
    privileged = pod("privileged", {"name": "main", "image": "busybox", "securityContext": {"privileged": True}})
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        kubectl("create", "-f", "-", stdin=json.dumps(privileged))
    assert "PodSecurity" in refusal.value.stderr


def test_a_killed_container_is_started_again(cluster: Cluster, kubectl: Kubectl, namespace: str) -> None:
    cluster.apply(pod("sleeper", container(cluster.registry, "sleep", "infinity")), namespace=namespace)
    kubectl("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")
    cluster.kill_container(namespace, "sleeper", "main")
    restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
    until(lambda: kubectl("get", "pod", "sleeper", "-o", restarts) == "1", "the container to be started again")
    kubectl("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")


def test_the_api_server_comes_back_with_what_it_had(cluster: Cluster, kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "configmap", "kept", "--from-literal=key=value")
    cluster.stop("kube-apiserver", kill=True)
    try:
        assert "refused" in _complaint(cluster)
    finally:
        cluster.start("kube-apiserver")
    revision = cluster.compact_etcd()
    kept = cluster.get("configmap", "kept", "--namespace", namespace)
    assert kept["data"] == {"key": "value"}
    assert int(kept["metadata"]["resourceVersion"]) <= revision


def test_the_audit_log_names_who_asked_what(cluster: Cluster, kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "configmap", "audited")
    asked = [
        (event["user"]["username"], event["verb"], event["responseStatus"]["code"])
        for event in cluster.audit_events()
        if event.get("objectRef", {}).get("namespace") == namespace and event["objectRef"].get("name") == "audited"
    ]
    assert ("admin", "create", 201) in asked


def _complaint(cluster: Cluster) -> str:
    """What kubectl says when it is not answered."""
    command = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}", "get", "--raw", "/readyz"]
    return subprocess.run(command, capture_output=True, text=True).stderr
