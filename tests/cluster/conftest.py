"""What cluster tests run against: a real cluster, and a namespace of one's own in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from tests.cluster import namespaces
from tests.cluster.operator import operator
from tests.cluster.rig import consent, leftovers, lifecycle, names, state
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.kubernetes import Kubernetes
from tests.cluster.rig.state import NodeState

__all__ = ["operator"]

RIG, GIVEN = "MODELWRIGHT_TEST_RIG", "MODELWRIGHT_TEST_KUBECONFIG"
Kubectl = Callable[..., str]


@pytest.fixture(scope="session")
def machine() -> Path:
    """This machine, which may be used and has what is to be installed; the folder of the Go programs."""
    try:
        consent.check()
    except consent.Refused as refusal:
        _left_out(str(refusal))
    return consent.install_programs()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The project's own cluster, which all tests of the session share.

    That of MODELWRIGHT_TEST_RIG=STATE_FILE if it is set, else one that is started and removed.
    """
    if rig := os.environ.get(RIG):
        yield Cluster.of(state.read(Path(rig)))
        return
    if os.environ.get(GIVEN):
        _left_out(f"it needs registries, nodes or faults of the project's own cluster, and {GIVEN} names another one")
    programs: Path = request.getfixturevalue("machine")
    leftovers.remove()
    with lifecycle.running_cluster(leftovers.own_name(), programs) as running:
        yield running


@pytest.fixture(scope="session")
def bare_node(cluster: Cluster) -> NodeState:
    """The node `edge-1`, running: it has no network for Pods and no kube-proxy, so it is NotReady for ever."""
    return cluster.start_node(names.BARE_NODE)


@pytest.fixture(scope="session")
def kubernetes(request: pytest.FixtureRequest) -> Kubernetes:
    """The cluster of MODELWRIGHT_TEST_KUBECONFIG, or else the project's own: for tests that any cluster serves."""
    if given := os.environ.get(GIVEN):
        return Kubernetes(kubeconfig=Path(given), kubectl=consent.kubectl())
    own: Cluster = request.getfixturevalue("cluster")
    return own


@pytest.fixture
def namespace(kubernetes: Kubernetes) -> Iterator[str]:
    """A fresh namespace that admits only what the restricted Pod Security Standard allows; deleted afterwards."""
    with namespaces.fresh(kubernetes, "restricted") as name:
        yield name


@pytest.fixture
def privileged_namespace(kubernetes: Kubernetes) -> Iterator[str]:
    """A fresh namespace that admits every Pod, such as those with a hostPort; deleted afterwards."""
    with namespaces.fresh(kubernetes, "privileged") as name:
        yield name


@pytest.fixture
def kubectl(kubernetes: Kubernetes, namespace: str) -> Kubectl:
    """Run kubectl in the test's namespace as the administrator: `kubectl("get", "pods", stdin=None, check=True)`."""

    def run(*arguments: str, stdin: str | None = None, check: bool = True) -> str:
        return kubernetes.run("--namespace", namespace, *arguments, stdin=stdin, check=check)

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs a cluster, or a machine for one, is marked so, and can be left out with `-m 'not cluster'`."""
    for item in items:
        if {"cluster", "kubernetes", "machine"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)


def _left_out(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
