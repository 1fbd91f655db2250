"""Faults that take real nodes: builds run in containers, and what happens around them is said and survived.

A registry that stands still holds a build for as long as a test needs it to run.
"""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster import builds
from tests.cluster.builds import JSON, PodWatch, User, local, version
from tests.cluster.image import built_image, push
from tests.cluster.operator import Operator
from tests.cluster.rig import storage
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.waiting import until

EDGE, CLOUD = "edge-0", "cloud-0"
NO_NODE = ("NodeNotFound", "Unschedulable")
AGENT_VARIABLE = "MODELWRIGHT_AGENT_IMAGE"


@pytest.fixture(scope="module")
def warm(operator: Operator) -> None:
    """Each node has the image of builds: it cannot come from a registry that stands still."""
    with builds.user_of(operator.cluster) as somebody:
        somebody.create(*(model_on(somebody, node, f"warm-{node}") for node in (EDGE, CLOUD)))
        somebody.ready(f"warm-{EDGE}", f"warm-{CLOUD}")


@pytest.fixture
def user(operator: Operator, warm: None) -> Iterator[User]:
    with builds.user_of(operator.cluster) as somebody:
        yield somebody


@contextmanager
def standing_registry(cluster: Cluster) -> Iterator[None]:
    """The registry takes connections and answers none: builds run, and do not end."""
    pid = cluster.pid("registry")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def model_on(user: User, node: str, name: str) -> JSON:
    """A ModelVersion of a folder on this node."""
    root = next(each.root for each in user.cluster.nodes if each.name == node)
    builds.write_model(Path(root, "models", user.namespace, name), name)
    return version(name, local(node, f"/models/{user.namespace}/{name}"))


def model_on_nfs(user: User, name: str) -> JSON:
    state = user.cluster.state.storage
    builds.write_model(Path(state.exports[storage.EXPORT], user.namespace, name), name)
    where = {"server": state.server, "path": f"{storage.EXPORT}/{user.namespace}/{name}"}
    return version(name, {"nfs": where})


def pods_of(user: User) -> list[JSON]:
    found: list[JSON] = user.get("pods", "--selector", "app.kubernetes.io/component=build")["items"]
    return found


def building(user: User, count: int) -> None:
    """Wait until so many builds run."""
    user.until(lambda: [pod["status"]["phase"] for pod in pods_of(user)] == ["Running"] * count, "builds to run")


def built_once(user: User, pods: PodWatch, *names: str) -> None:
    """Wait until they are built and cleared away; each had one Pod, and was tried once."""
    user.ready(*names)
    for name in names:
        user.cleared(name)
        found = user.version(name)
        assert found["status"]["attempts"] == 1
        assert len({pod["metadata"]["uid"] for pod in pods.states(found["metadata"]["uid"])}) == 1


def test_every_replica_of_the_operator_is_killed_while_builds_run(operator: Operator, user: User) -> None:
    cluster, names = operator.cluster, ("cloud", "edge", "nfs")
    versions = (model_on(user, CLOUD, "cloud"), model_on(user, EDGE, "edge"), model_on_nfs(user, "nfs"))
    with builds.watched_pods(user) as pods:
        with standing_registry(cluster):
            user.create(*versions)
            building(user, len(names))
            for pod in operator.pods():
                container = pod["spec"]["containers"][0]["name"]
                cluster.kill_container(operator.namespace, pod["metadata"]["name"], container)
        built_once(user, pods, *names)
    operator.settled()


def test_the_api_server_is_killed_and_etcd_forgets_while_builds_run(operator: Operator, user: User) -> None:
    cluster, names = operator.cluster, ("cloud", "nfs")
    with builds.watched_pods(user):
        with standing_registry(cluster):
            user.create(model_on(user, CLOUD, "cloud"), model_on_nfs(user, "nfs"))
            building(user, len(names))
            cluster.stop("kube-apiserver", kill=True)
            cluster.compact_etcd()
        cluster.start("kube-apiserver")
        user.ready(*names)
    for name in names:
        user.cleared(name)
        assert user.version(name)["status"]["attempts"] == 1
    operator.settled()


def test_a_node_that_is_cut_off_while_it_builds_is_waited_for(operator: Operator, user: User) -> None:
    """It is said what is waited for. Cut off for long, its Pod is given up, and the next one is the same attempt."""
    cluster = operator.cluster
    try:
        with standing_registry(cluster):
            user.create(model_on(user, EDGE, "edge"))
            building(user, 1)
            cluster.cut(EDGE)
        assert EDGE in user.told("edge", "NodeLost")
    finally:
        cluster.mend(EDGE)
    user.ready("edge")
    user.cleared("edge")
    assert user.version("edge")["status"]["attempts"] == 1
    until(cluster.nodes_ready, "the node to be back")


def test_a_node_that_has_gone_is_waited_for(operator: Operator, user: User) -> None:
    """Whether the operator sees it first, or the scheduler, for a node that was there a moment ago."""
    cluster = operator.cluster
    cluster.stop(f"kubelet-{EDGE}")
    try:
        cluster.run("delete", "node", EDGE)
        user.create(model_on(user, EDGE, "edge"))
        user.until(lambda: user.condition("edge").get("reason") in NO_NODE, "it to say that the node has gone", "edge")
    finally:
        cluster.start(f"kubelet-{EDGE}")
    user.ready("edge")
    user.cleared("edge")


def test_an_agent_image_that_cannot_be_pulled_is_said_and_pulled_once_it_is_there(
    operator: Operator, user: User
) -> None:
    cluster = operator.cluster
    image, repository = built_image(), f"late/{os.urandom(4).hex()}"
    deployment = f"deployment/{operator.name}"
    operator.run("set", "env", deployment, f"{AGENT_VARIABLE}={cluster.registry}/{repository}:{image.name[:12]}")
    try:
        operator.settled()
        user.create(model_on(user, CLOUD, "late"))
        assert repository in user.told("late", "ImagePullFailed")
        push(image, cluster.registry, repository)
        user.ready("late")
        user.cleared("late")
    finally:
        operator.run("set", "env", deployment, f"{AGENT_VARIABLE}={operator.image}")
        operator.settled()


def test_a_push_that_is_denied_is_said_at_once_and_tried_again_when_it_is_asked_for(
    operator: Operator, user: User
) -> None:
    private = operator.cluster.private_registry
    user.create(secret("login", private.host, private.user, "wrong", Path(private.ca_file)))
    wanted = model_on(user, CLOUD, "denied")
    wanted["spec"] |= {"imageRepo": f"{private.host}/denied/{user.namespace}", "pushSecret": "login"}
    user.create(wanted)
    user.until(lambda: user.condition("denied", "Stalled").get("status") == "True", "it to be stalled", "denied")
    said = user.condition("denied", "Stalled")
    assert (said["reason"], user.version("denied")["status"]["attempts"]) == ("RegistryUnauthorized", 1)
    user.cleared("denied")
    right = secret("login", private.host, private.user, private.password, Path(private.ca_file))
    user.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(right))
    user.try_again("denied")
    user.ready("denied")
    user.cleared("denied")


def secret(name: str, host: str, login: str, password: str, ca_file: Path) -> JSON:
    """Who may push where, and the authority of the registry."""
    auth = base64.b64encode(f"{login}:{password}".encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": name},
        "stringData": {
            ".dockerconfigjson": json.dumps({"auths": {host: {"auth": auth}}}),
            "ca.crt": ca_file.read_text(),
        },
    }
