"""A cluster leaves nothing behind, and others beside it alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.rig import leftovers, lifecycle, state, traces
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.manifests import container, pod
from tests.cluster.rig.traces import added
from tests.cluster.rig.waiting import until
from tests.tools import install

CHECKOUT = Path(__file__).parents[2]
UP = [sys.executable, "-m", "tests.cluster.rig", "up", "--name"]


def assert_nothing_is_left(before: set[str], name: str) -> None:
    """The kernel takes its time with namespaces and groups that have just become empty."""
    try:
        until(lambda: not added(before, name), "nothing to be left of the cluster")
    except TimeoutError:
        assert added(before, name) == []


def test_a_second_cluster_runs_beside_and_leaves_nothing_behind(cluster: Cluster) -> None:
    name = leftovers.own_name("b")
    before = traces.found(name)
    with lifecycle.running_cluster(name, cluster.programs) as beside:
        assert beside.state.names.number != cluster.state.names.number
        beside.apply(pod("sleeper", container(beside.registry, "sleep", "infinity")))
        beside.run("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")
        made = traces.processes(name)
        used = traces.namespaces(made)
        assert made
        assert used
    assert_nothing_is_left(before, name)
    until(lambda: not used & traces.namespaces_in_use(), "its namespaces to be gone")
    assert cluster.nodes_ready()


@pytest.mark.parametrize("moment", ["switch", "kube-apiserver", "kubelet-edge-0"])
def test_what_a_killed_start_has_made_is_removed(cluster: Cluster, moment: str) -> None:
    name = leftovers.own_name("k")
    before = traces.found(name)
    environment = {**os.environ, install.CLUSTER_VARIABLE: "1"}
    with subprocess.Popen([*UP, name], cwd=CHECKOUT, env=environment, stdout=subprocess.DEVNULL) as start:
        until((state.folder(name) / "programs" / f"{moment}.json").exists, f"{moment} to be started", pause=0.01)
        start.send_signal(signal.SIGKILL)
    assert added(before, name)
    lifecycle.down(name)
    assert_nothing_is_left(before, name)


def test_a_run_removes_the_clusters_of_runs_that_have_ended_and_no_other() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    old, ours = state.folder(f"t-{ended.pid}"), state.folder(leftovers.own_name("z"))
    for folder in (old, ours):
        folder.mkdir(parents=True)
    leftovers.remove()
    assert not old.exists()
    assert ours.exists()
    ours.rmdir()
