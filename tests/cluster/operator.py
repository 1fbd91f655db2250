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

GENERATE = CHECKOUT / "deploy/generate_install.py"
NAMESPACE = "modelwright-system"
NAME = "modelwright-operator"
USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"
"""The operator in the audit log."""
PODS = "app.kubernetes.io/name=modelwright,app.kubernetes.io/component=operator"
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

    def settled(self) -> None:
        """Wait until the wanted replicas run and are ready."""
        self.run("rollout", "status", f"deployment/{self.name}", "--timeout=180s")


def values(cluster: Cluster, image: str) -> dict[str, Any]:
    """The chart's values for a test cluster: its registry is the default one, and has the real Kaniko."""
    repository, _, digest = image.partition("@")
    return {
        "build": {"kanikoImage": kaniko_image.push(cluster.programs, cluster.registry)},
        "image": {"repository": repository, "digest": digest},
        "registry": {"default": cluster.registry, "plainHTTP": [cluster.registry]},
        "lease": LEASE,
    }


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
