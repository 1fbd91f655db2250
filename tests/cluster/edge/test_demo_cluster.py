"""What `make demo-cluster` runs: on a cluster with nothing of ours in it, which is as it was before afterwards."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.cluster.image import CHECKOUT, built_image, push
from tests.cluster.rig import leftovers, lifecycle
from tests.cluster.rig.cluster import Cluster

DEMO = CHECKOUT / "examples/digits/demo/cluster.py"
IMAGES = ("operator", "gateway", "server-sklearn")
PATTERNS = {
    "measured": r"^accuracy edge (0\.\d{3}) cloud (0\.\d{3}) joint (0\.\d{3}) share (0\.\d\d)$",
    "packed": r"^digest sha256:[0-9a-f]{64}$",
    "switched": r"^switch and rollback: (\d+) requests, (\d+) failed",
    "alone": r"^without the cloud: (\d+) requests, (\d+) failed \((\d+) by the cloud, (\d+) by the edge\)$",
}


@pytest.fixture
def fresh(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster in which nothing is installed."""
    with lifecycle.running_cluster(leftovers.own_name("d"), cluster.programs) as running:
        yield running


def run(cluster: Cluster, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The demo, on this cluster; with the images of this run, which it does not build then."""
    images = [f"--image={name}={push(built_image(name), cluster.registry)}" for name in IMAGES]
    where = {
        "KUBECONFIG": str(cluster.kubeconfig),
        "MODELWRIGHT_REGISTRY": cluster.registry,
        "MODELWRIGHT_PLAIN_HTTP": "1",
        "PATH": f"{cluster.programs}:{os.environ['PATH']}",
    }
    command = [sys.executable, str(DEMO), *images, *options]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **where, **environment})


def left_behind(cluster: Cluster) -> set[str]:
    """What of ours is in the cluster."""
    found = cluster.run("get", "namespaces,crd,clusterroles,clusterrolebindings,pv", "-o", "name").split()
    return {name for name in found if "modelwright" in name or "kubedl" in name or "sedna" in name}


def kept_on_nodes(cluster: Cluster) -> set[str]:
    """The files of kept models. The nodes' /tmp is this machine's, where a demo without a cluster may run meanwhile:
    its folder has a longer name."""
    find = "find /tmp/modelwright-demo-?????? /var/lib/modelwright -type f || true"
    return {
        f"{node.name}:{path}" for node in cluster.nodes for path in cluster.on_node(node.name, "sh", "-c", find).split()
    }


@pytest.mark.timeout(1200)
def test_the_demo_passes_on_a_cluster_prints_what_it_measured_and_leaves_nothing(fresh: Cluster) -> None:
    before = kept_on_nodes(fresh)
    done = run(fresh)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "demo: PASS"
    assert done.stderr == ""
    found = {what: re.search(pattern, done.stdout, re.MULTILINE) for what, pattern in PATTERNS.items()}
    assert [what for what, match in found.items() if match is None] == [], done.stdout

    measured, switched, alone = (found[what] for what in ("measured", "switched", "alone"))
    assert measured is not None and switched is not None and alone is not None
    edge, cloud, joint, share = map(float, measured.groups())
    assert 0.9 < edge < cloud <= 1.0
    assert joint >= cloud - 0.005
    assert 0.0 < share <= 0.3
    assert int(switched[1]) > 100 and int(switched[2]) == 0
    assert int(alone[2]) == 0 and int(alone[4]) > int(alone[3]) > 0

    assert left_behind(fresh) == set()
    assert kept_on_nodes(fresh) <= before


def test_it_says_what_is_missing(cluster: Cluster) -> None:
    done = run(cluster, MODELWRIGHT_REGISTRY="")
    assert done.returncode == 1
    assert "MODELWRIGHT_REGISTRY=HOST:PORT" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("demo: FAIL (")
