"""The client verbs as a user types them, against the embedded API server in a process of its own."""

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
from tests.integration.cli.support import Cli

INSTALL = Path(__file__).parents[2] / "tools" / "install.py"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests: take a namespace of your own."""
    with running_server(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture
def cli(server: Server) -> Cli:
    """The command line in a fresh namespace."""
    namespace = f"cli-{next(_numbers)}"
    cli = Cli(server.kubeconfig, namespace)
    manifest = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}"
    cli.within("").run("apply", "-f", "-", stdin=manifest)
    return cli


@pytest.fixture
def kubectl(cli: Cli, tmp_path: Path) -> Kubectl:
    """kubectl in the same namespace."""
    printed = subprocess.run([sys.executable, str(INSTALL), "--print"], check=True, capture_output=True, text=True)
    program = Path(printed.stdout.strip()) / "kubectl"
    if not program.exists():
        message = f"there is no {program}: `make tools` builds it (needs Go >= 1.25)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return Kubectl(program, cli.kubeconfig, tmp_path / "kubectl", cli.namespace)
