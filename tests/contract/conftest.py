"""What contract tests run against."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.contract.edge_parts import JOBS, PRIVILEGED, SERVING, Edge, a_namespace, kubelet_logs
from tests.contract.kube_apiserver import PROGRAMS, KubeApiserver, running_kube_apiserver
from tests.contract.subjects import Subject, embedded_api_subject, embedded_subject, kubernetes_subject

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.workloads import KubernetesWorkloads

INSTALL = Path(__file__).parents[1] / "tools" / "install.py"


@pytest.fixture(scope="session")
def kube_apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiserver]:
    """A bare kube-apiserver that all tests of the session share: take a namespace of your own."""
    printed = subprocess.run([sys.executable, str(INSTALL), "--print"], check=True, capture_output=True, text=True)
    programs = Path(printed.stdout.strip())
    missing = [name for name in PROGRAMS if not (programs / name).exists()]
    if missing:
        message = f"{', '.join(missing)} not in {programs}: `make tools` builds them (needs Go >= 1.25)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    with running_kube_apiserver(programs, tmp_path_factory.mktemp("kube-apiserver")) as server:
        yield server


@pytest.fixture
async def edge(kube_apiserver: KubeApiserver, tmp_path: Path) -> AsyncIterator[Edge]:
    """A namespace of its own, in which Pods at the edge may be."""
    access = load_kubeconfig([kube_apiserver.kubeconfig])
    async with KubernetesClient(access) as client, kubelet_logs(tmp_path) as logs:
        yield Edge(client, logs, await a_namespace(client, **PRIVILEGED))


@pytest.fixture
async def workloads(edge: Edge) -> AsyncIterator[KubernetesWorkloads]:
    """What runs servers there."""
    async with KubernetesWorkloads(edge.client, JOBS, SERVING) as workloads:
        yield workloads


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for the kube-apiserver is marked so, and can be left out with `-m 'not apiserver'`."""
    for item in items:
        if "kube_apiserver" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.apiserver)


@pytest.fixture(params=["embedded", "kubernetes-on-embedded", pytest.param("kubernetes", marks=pytest.mark.apiserver)])
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    """Each store that the suite is about, one after the other."""
    async with _subject(request, tmp_path) as subject:
        yield subject


def _subject(request: pytest.FixtureRequest, folder: Path) -> AbstractAsyncContextManager[Subject]:
    match request.param:
        case "embedded":
            return embedded_subject(folder)
        case "kubernetes-on-embedded":
            return embedded_api_subject(folder)
        case _:
            return kubernetes_subject(request.getfixturevalue("kube_apiserver"))
