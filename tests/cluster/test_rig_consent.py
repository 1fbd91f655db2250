"""A cluster is started where somebody wants it, and tests say why they are left out elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.conftest import GIVEN, RIG
from tests.cluster.rig import names, numbers, state, traces
from tests.cluster.rig.kubernetes import Kubernetes
from tests.tools import install

CHECKOUT = Path(__file__).parents[2]
ANY_CLUSTER, OWN_CLUSTER = "test_a_namespace_admits_restricted_pods_only", "test_the_audit_log_names_who_asked_what"


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a module with these variables and none of those that choose a cluster otherwise."""
    ours = {"CI", RIG, GIVEN, install.CLUSTER_VARIABLE}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, env={**environment, **variables}, capture_output=True, text=True)


def outcome_on(kubernetes: Kubernetes, **variables: str) -> str:
    """What pytest says of two tests, one for any cluster and one for the project's own, on a cluster that is given."""
    chosen = ["tests/cluster/test_rig.py", "-k", f"{ANY_CLUSTER} or {OWN_CLUSTER}"]
    pytest_run = ("pytest", "-q", "-p", "no:cacheprovider", *chosen)
    return run(*pytest_run, **{GIVEN: str(kubernetes.kubeconfig), **variables}).stdout


def test_without_consent_nothing_is_done_and_what_would_be_is_said() -> None:
    name = f"n-{os.getpid()}"
    before = traces.found(name)
    refused = run("tests.cluster.rig", "up", "--name", name)
    assert refused.returncode == 2
    assert f"{install.CLUSTER_VARIABLE}=1 lets it" in refused.stderr
    assert str(state.cache()) in refused.stderr
    assert traces.found(name) <= before


def test_on_a_given_cluster_what_needs_our_own_is_left_out_with_the_reason(kubernetes: Kubernetes) -> None:
    said = outcome_on(kubernetes)
    assert "1 passed, 1 skipped" in said
    assert "it needs registries, nodes or faults of the project's own cluster" in said


def test_in_ci_nothing_is_left_out(kubernetes: Kubernetes) -> None:
    assert "1 passed" in (said := outcome_on(kubernetes, CI="true"))
    assert "1 error" in said


@pytest.mark.parametrize("name", ["", "Dev", "-dev", "dev-", "a-name-too-long", "1st", "de/v"])
def test_a_name_that_cannot_be_an_interface_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 12"):
        names.check_name(name)


@pytest.mark.parametrize("name", ["d", "dev", "t-1234567", "abcdefghijkl"])
def test_the_link_of_a_valid_name_is_short_enough_for_the_kernel(name: str) -> None:
    assert len(names.link(names.check_name(name))) <= 15


def test_clusters_share_no_port() -> None:
    ports = [port for number in names.NUMBERS for port in names.ports(number).values()]
    assert len(set(ports)) == len(ports)
    assert max(ports) < 30000  # below NodePorts, and below what the kernel gives out


def test_a_free_number_is_one_that_no_route_of_the_host_covers() -> None:
    taken = {line.split()[0] for line in traces.routes()}
    assert f"10.88.{numbers.free_number()}.0/24" not in taken
