"""The operator, installed in the test cluster from its own chart and image."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from tests.cluster import kaniko_image
from tests.cluster.image import CHECKOUT, built_image, push
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.images import BUSYBOX
from tests.cluster.rig.waiting import until

GENERATE = CHECKOUT / "deploy/generate_install.py"
NAMESPACE = "modelwright-system"
NAME = "modelwright-operator"
USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"
"""The operator in the audit log."""
PODS = "app.kubernetes.io/name=modelwright,app.kubernetes.io/component=operator"
TENSORFLOW = "modelwright/server-tensorflow:test"
LEASE = {"duration": "10s", "renewDeadline": "7s", "retryPeriod": "1s"}


class Operator(msgspec.Struct, frozen=True):
    """An installed operator: two replicas, one of which leads. `image` is its image by digest."""

    cluster: Cluster
    image: str
    namespace: str = NAMESPACE
    name: str = NAME

    def run(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """kubectl in the operator's namespace."""
        return self.cluster.run("--namespace", self.namespace, *arguments, stdin=stdin, check=check)

    def pods(self) -> list[dict[str, Any]]:
        """The Pods of the replicas that are not being deleted."""
        found = json.loads(self.run("get", "pods", "--selector", PODS, "-o", "json"))["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def holder(self) -> str:
        """Who holds the lease; empty for nobody."""
        return self.run("get", "lease", self.name, "-o", "jsonpath={.spec.holderIdentity}")

    def logs(self) -> str:
        """What all replicas have said."""
        return self.run("logs", "--selector", PODS, "--tail=-1", "--prefix", check=False)

    def set_environment(self, **variables: str | None) -> None:
        """Change variables of the replicas, None removes one, and wait until all have them and one of them leads."""
        changes = [f"{name}-" if value is None else f"{name}={value}" for name, value in variables.items()]
        self.run("set", "env", f"deployment/{self.name}", *changes)
        self.settled()
        until(lambda: self.holder().partition("_")[0] in self._names(), "one of them to lead")

    def _names(self) -> set[str]:
        return {pod["metadata"]["name"] for pod in self.pods()}

    def settled(self) -> None:
        """Wait until the wanted replicas run and are ready."""
        self.run("rollout", "status", f"deployment/{self.name}", "--timeout=180s")


def values(cluster: Cluster, image: str) -> dict[str, Any]:
    """The chart's values for a test cluster: its registry is the default one, and has the real Kaniko and servers."""
    repository, _, digest = image.partition("@")
    return {
        "build": {"kanikoImage": kaniko_image.push(cluster.programs, cluster.registry)},
        "image": {"repository": repository, "digest": digest},
        "registry": {"default": cluster.registry, "plainHTTP": [cluster.registry]},
        "lease": LEASE,
        "serving": serving(cluster),
    }


def serving(cluster: Cluster) -> dict[str, Any]:
    """Our server for each framework, and runtimes as an admin adds them: one that works, and one that cannot.

    The image for TensorFlow is large: `push_tensorflow` has to be asked for it.
    """
    made = {"gateway": "gateway", "onnx": "server-onnx", "sklearn": "server-sklearn"}
    pushed = {name: push(built_image(variant), cluster.registry) for name, variant in made.items()}
    return {
        "images": {**pushed, "tensorflow": f"{cluster.registry}/{TENSORFLOW}"},
        "tensorflow": "modelwright",
        "runtimes": {"files": files_runtime(cluster.registry), "broken": {"image": "registry.example/without:path"}},
    }


def files_runtime(registry: str) -> dict[str, Any]:
    """A server that knows nothing of models: it gives their files out."""
    serve = "cd $(MODEL_DIR) && exec httpd -f -p $(PORT)"
    return {"image": f"{registry}/{BUSYBOX}", "command": ["sh", "-c", serve], "readyPath": "/model.onnx"}


def push_tensorflow(cluster: Cluster) -> None:
    """Build the image with TensorFlow, if it is not there, and push it to where servers look for it."""
    pushed = push(built_image("server-tensorflow"), cluster.registry)
    copy = ["skopeo", "copy", "--quiet", "--all", "--preserve-digests", "--src-tls-verify=false"]
    target = f"docker://{cluster.registry}/{TENSORFLOW}"
    subprocess.run([*copy, "--dest-tls-verify=false", f"docker://{pushed}", target], check=True)


def manifest(values: dict[str, Any]) -> str:
    """What deploy/install.yaml is with other values."""
    command = [sys.executable, str(GENERATE), "--values", "-"]
    return subprocess.run(command, input=json.dumps(values), check=True, stdout=subprocess.PIPE, text=True).stdout


def apply(cluster: Cluster) -> Operator:
    """Apply what an admin would, with the image of this checkout."""
    image = push(built_image(), cluster.registry)
    text = manifest(values(cluster, image))
    cluster.run("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    return Operator(cluster, image)


def install(cluster: Cluster) -> Operator:
    """Install it, or bring what is installed up to date, and wait until all replicas are ready."""
    operator = apply(cluster)
    operator.settled()
    return operator


def roles(cluster: Cluster) -> list[dict[str, Any]]:
    """What the operator is granted: the role in all namespaces, and that in its own."""
    found = [
        cluster.run("get", "clusterrole", NAME, "-o", "json"),
        cluster.run("get", "role", NAME, "--namespace", NAMESPACE, "-o", "json"),
    ]
    return [json.loads(role) for role in found]


@pytest.fixture(scope="session")
def operator(cluster: Cluster) -> Operator:
    """The operator that all tests of the session share. It stays until the cluster goes."""
    return install(cluster)
