"""What cluster tests run against: a real cluster, and a namespace of one's own in it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cluster.operator import operator
from tests.cluster.rig import state
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.lifecycle import running_cluster

__all__ = ["operator"]

RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
Kubectl = Callable[..., str]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster that all tests of the session share: that of MODELWRIGHT_TEST_RIG=STATE_FILE, or one of their own."""
    given = os.environ.get("MODELWRIGHT_TEST_RIG")
    if given:
        yield Cluster(state.read(Path(given)))
        return
    with running_cluster(f"t-{os.getpid()}") as cluster:
        yield cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A fresh namespace that admits only what the restricted Pod Security Standard allows; deleted afterwards."""
    name = f"t-{secrets.token_hex(4)}"
    cluster.run("create", "namespace", name)
    cluster.run("label", "namespace", name, *(f"{key}={value}" for key, value in RESTRICTED.items()))
    cluster.wait_for_service_account(name)
    yield name
    cluster.run("delete", "namespace", name, "--wait=false")


@pytest.fixture
def kubectl(cluster: Cluster, namespace: str) -> Kubectl:
    """Run kubectl in the test's namespace as the administrator: `kubectl("get", "pods", stdin=None, check=True)`."""

    def run(*arguments: str, stdin: str | None = None, check: bool = True) -> str:
        return cluster.run("--namespace", namespace, *arguments, stdin=stdin, check=check)

    return run
