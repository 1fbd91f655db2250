"""A build while it runs: what its Pod may do, and how far it says it is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import builds
from tests.cluster.builds import JSON, User, local, version
from tests.cluster.operator import Operator
from tests.cluster.slow_path import SlowPath
from tests.cluster.test_registries import config, secret

SIZE = 200 << 20
PASSED = 40 << 20
"""How many bytes come through before the push is slowed down."""


class World:
    """A build that is slowed down in the middle of its push until `path` is opened."""

    def __init__(self, user: User, path: SlowPath) -> None:
        self.user, self.path, registry = user, path, user.cluster.private_registry
        node = next(node for node in user.cluster.nodes if node.name == "edge-0")
        self.files = Path(node.root, "slow", user.namespace)
        builds.write_model(self.files, "slow", size=SIZE)
        login = config(path.host, registry.user, registry.password)
        user.create(secret("push", login, Path(registry.ca_file).read_bytes()))
        repository = f"{path.host}/slow/{user.namespace}"
        user.create(
            version("slow", local("edge-0", f"/slow/{user.namespace}"), imageRepo=repository, pushSecret="push")
        )

    def status(self) -> JSON:
        found: JSON = self.user.version("slow").get("status", {})
        return found

    def pod(self) -> JSON:
        uid = self.user.version("slow")["metadata"]["uid"]
        (found,) = self.user.get("pods", "--selector", f"modelwright.dev/owner-uid={uid}")["items"]
        return dict(found)

    def process(self) -> int:
        """The build's process, as this machine sees it."""
        pod = self.pod()["metadata"]["name"]
        return min(self.user.cluster.container_processes(self.user.namespace, pod, "build"))


@pytest.fixture(scope="module")
def world(operator: Operator) -> Iterator[World]:
    private = operator.cluster.private_registry.host
    with (
        builds.user_of(operator.cluster) as user,
        SlowPath(private.rpartition(":")[0], private, PASSED) as path,
    ):
        world = World(user, path)
        user.until(lambda: world.status().get("progress", {}).get("bytesDone", 0) > 0, "progress", "slow")
        yield world


def test_how_far_it_is_stands_in_the_status(world: World) -> None:
    progress = world.status()["progress"]
    assert progress["bytesTotal"] >= SIZE
    assert 0 < progress["bytesDone"] < SIZE
    assert world.status()["imageBuildPhase"] == "ImageBuilding"
    assert world.user.condition("slow", "Reconciling")["status"] == "True"


def test_its_log_is_found_by_the_command_of_the_documentation(world: World) -> None:
    uid = world.user.kubectl("get", "mv", "slow", "-o", "jsonpath={.metadata.uid}")
    log = world.user.kubectl("logs", "-l", f"modelwright.dev/owner-uid={uid}")
    assert f"packing /slow/{world.user.namespace} on the node edge-0 for {world.path.host}/" in log


def test_its_process_is_nobodys_and_has_no_capability(world: World) -> None:
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{world.process()}/status").read_text().splitlines())
    assert set(status["Uid"].split()) == {"65532"}
    assert set(status["Gid"].split()) == {"65532"}
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


def test_the_model_is_mounted_read_only_and_not_even_root_writes_into_it_there(world: World) -> None:
    mounts = [line.split() for line in Path(f"/proc/{world.process()}/mounts").read_text().splitlines()]
    options = {target: options.split(",") for _, target, _, options, *_ in mounts}
    assert "ro" in options["/workspace/build"]
    assert "ro" in options["/"]
    inside = Path(f"/proc/{world.process()}/root/workspace/build")
    for name in ("config.json", "new"):
        with pytest.raises(OSError, match="Read-only file system"):
            (inside / name).open("ab").close()


def test_it_has_no_token_for_the_api_server(world: World) -> None:
    root = Path(f"/proc/{world.process()}/root")
    assert not (root / "var/run/secrets/kubernetes.io").exists()
    assert not (root / "run/secrets/kubernetes.io").exists()
    variables = (Path(f"/proc/{world.process()}/environ")).read_bytes().split(b"\0")
    assert world.user.cluster.private_registry.password.encode() not in b"\0".join(variables)


def test_its_objects_say_whose_they_are(world: World) -> None:
    found = world.user.version("slow")
    kinds = {}
    for kind in ("jobs", "pods", "pvc", "pv"):
        (each,) = world.user.get(kind, "--selector", f"modelwright.dev/owner-uid={found['metadata']['uid']}")["items"]
        assert each["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "modelwright"
        kinds[kind] = each
    for kind in ("jobs", "pvc"):
        (owner,) = kinds[kind]["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("ModelVersion", found["metadata"]["uid"])
    assert kinds["pv"]["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_it_ends_well_when_the_way_is_free(world: World, tmp_path: Path) -> None:
    """Last of this module."""
    world.path.open()
    world.user.ready("slow")
    world.user.cleared("slow")
    status, registry = world.status(), world.user.cluster.private_registry
    assert "progress" not in status or status["progress"]["bytesDone"] == status["progress"]["bytesTotal"]
    (tmp_path / "config.json").write_text(json.dumps(config(registry.host, registry.user, registry.password)))
    image = status["resolvedImage"].replace(world.path.host, registry.host)
    pulled = builds.pulled(image, "--ca-file", registry.ca_file, DOCKER_CONFIG=os.fspath(tmp_path))
    assert pulled == builds.files(world.files)
