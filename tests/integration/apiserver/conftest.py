"""The embedded API server in a process of its own, and the real kubectl."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.apiserver.kubectl import Kubectl
from tests.integration.apiserver.server import Server, running_server

INSTALL = Path(__file__).parents[2] / "tools" / "install.py"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kubectl_program() -> Path:
    """The kubectl of `make tools`, or another version of it in MODELWRIGHT_TEST_KUBECTL."""
    if other := os.environ.get("MODELWRIGHT_TEST_KUBECTL"):
        return Path(other)
    printed = subprocess.run([sys.executable, str(INSTALL), "--print"], check=True, capture_output=True, text=True)
    program = Path(printed.stdout.strip()) / "kubectl"
    if not program.exists():
        message = f"there is no {program}: `make tools` builds it (needs Go >= 1.25)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return program


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests: take a namespace of your own."""
    with running_server(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture(scope="session")
def cluster(server: Server, kubectl_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """kubectl in no particular namespace."""
    return Kubectl(kubectl_program, server.kubeconfig, tmp_path_factory.mktemp("kubectl"))


@pytest.fixture
def kubectl(cluster: Kubectl) -> Kubectl:
    """kubectl in a fresh namespace."""
    namespace = f"test-{next(_numbers)}"
    cluster.run("create", "namespace", namespace)
    return cluster.within(namespace)
