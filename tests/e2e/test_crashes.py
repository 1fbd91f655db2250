"""The control plane is killed at any moment: nothing is lost, nothing is done twice, nothing is left behind."""

from __future__ import annotations

import json
import random
import subprocess
import urllib.request
from pathlib import Path

import pytest
from tests.e2e.load import Load, served_version
from tests.e2e.plane import ControlPlane, command_of, inference_model, model_version, programs, until

ROUNDS = 6


def small_model(folder: Path, number: int) -> Path:
    """A folder with content of its own."""
    path = folder / f"m{number}"
    path.mkdir(parents=True)
    (path / "weights.bin").write_bytes(random.Random(number).randbytes(200_000))
    return path


def test_a_control_plane_killed_during_builds_ends_where_an_undisturbed_one_does(
    plane: ControlPlane, tmp_path: Path
) -> None:
    pick = random.Random(5)
    names = [f"mv-{number}" for number in range(ROUNDS * 4)]
    folders = [small_model(tmp_path / "models", number) for number in range(len(names))]
    for number in range(ROUNDS):
        batch = slice(number * 4, number * 4 + 4)
        objects = [
            model_version(name, path, imageRepo=f"modelhub/{name}")
            for name, path in zip(names[batch], folders[batch], strict=True)
        ]
        plane.apply(*objects)
        wait_a_little(plane, pick.randrange(6), names[batch])
        plane.kill()
        plane.start()
    statuses = {name: plane.until_ready("mv", name)["status"] for name in names}
    for name, status in statuses.items():
        tags = json.loads(urllib.request.urlopen(f"{plane.url}/v2/modelhub/{name}/tags/list", timeout=30).read())
        assert tags["tags"] == [status["image"].rpartition(":")[2]], "one image, one tag"
        verify = plane.run("image", "verify", f"{plane.registry}/{status['image']}", "--plain-http")
        assert status["imageDigest"] in verify
    assert plane.get("model", "digits")["status"]["versions"] == len(names)


def wait_a_little(plane: ControlPlane, changes: int, names: list[str]) -> None:
    """Wait until so many of these have come to be built, so that the kill comes at another point each time."""
    if changes <= len(names):
        until(lambda: built(plane, names) >= min(changes, len(names)), "some are built")


def built(plane: ControlPlane, names: list[str]) -> int:
    listed = json.loads(plane.kubectl("get", "mv", "-o", "json"))["items"]
    return sum(each["metadata"]["name"] in names and "imageDigest" in each.get("status", {}) for each in listed)


@pytest.mark.parametrize("layer", ["cloud", "edge"])
def test_what_serves_goes_on_serving_while_the_control_plane_is_killed_and_started_again(
    plane: ControlPlane, digits: Path, layer: str
) -> None:
    node = {"nodeName": "here"} if layer == "edge" else {}
    plane.apply(model_version("digits-v1", digits / "v1"), model_version("digits-v2", digits / "v2"))
    plane.apply(inference_model("digits", modelVersion="digits-v1", deployToLayer=layer, **node))
    url = plane.until_ready("infm", "digits")["status"]["url"]
    assert len(servers(plane)) == 1
    with Load(url) as load:
        for version in ("digits-v2", "digits-v1", "digits-v2"):
            plane.kill()
            load.more()
            plane.start()
            plane.apply(inference_model("digits", modelVersion=version, deployToLayer=layer, **node))
            plane.kill()  # in the middle of the switch
            plane.start()
            assert plane.until_ready("infm", "digits")["status"]["servingVersion"] == version
            assert served_version(url) == version
    assert load.failures == []
    assert plane.get("infm", "digits")["status"]["url"] == url
    until(lambda: len(servers(plane)) == 1, "one server is left")


def servers(plane: ControlPlane) -> list[int]:
    """The model servers that run, by their process ids."""
    return [process.pid for process in plane.processes() if "modelwright.serve --config " in command_of(process)]


def test_a_port_and_a_login_outlive_a_restart(plane: ControlPlane, digits: Path) -> None:
    plane.apply(model_version("digits-v1", digits / "v1"))
    before = plane.until_ready("mv", "digits-v1")
    kubeconfig, url = (plane.data / "kubeconfig").read_text(), plane.url
    assert plane.stop() == 0
    plane.start()
    assert (plane.url, (plane.data / "kubeconfig").read_text()) == (url, kubeconfig)
    assert plane.get("mv", "digits-v1") == before


def test_a_model_is_served_from_an_image_that_was_pushed_under_another_address(
    plane: ControlPlane, digits: Path
) -> None:
    plane.apply(model_version("digits-v1", digits / "v1"))
    plane.until_ready("mv", "digits-v1")
    assert plane.stop() == 0
    import socket

    with socket.create_server(("127.0.0.1", int(plane.url.rpartition(":")[2]))):  # the port is taken meanwhile
        plane.start()
        plane.apply(inference_model("digits", modelVersion="digits-v1"))
        plane.until_ready("infm", "digits")


def test_a_second_control_plane_on_the_same_data_is_refused(plane: ControlPlane) -> None:
    assert plane.process is not None
    told = plane.run("up", "--data-dir", str(plane.data), "--listen", "127.0.0.1:0", code=1)
    assert f"in use by process {plane.process.pid}" in told


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ("UPDATE", "damaged"),
        ("PRAGMA user_version = 9999", "newer"),
    ],
)
def test_a_database_that_cannot_be_used_is_said_and_left_as_it_is(tmp_path: Path, damage: str, expected: str) -> None:
    import sqlite3
    from contextlib import closing

    control_plane = ControlPlane(tmp_path / "data")
    control_plane.start()
    assert control_plane.stop() == 0
    database = control_plane.data / "state.db"
    if damage == "UPDATE":
        content = bytearray(database.read_bytes())
        content[100:3000] = b"\xff" * 2900
        database.write_bytes(bytes(content))
    else:
        with closing(sqlite3.connect(database)) as connection:
            connection.execute(damage)
            connection.commit()
    before = database.read_bytes()
    told = control_plane.run("up", "--data-dir", str(control_plane.data), "--listen", "127.0.0.1:0", code=1)
    assert expected in told.lower()
    assert "Traceback" not in told
    assert database.read_bytes() == before


def test_a_control_plane_that_ends_leaves_nothing_running(tmp_path: Path, digits: Path) -> None:
    control_plane = ControlPlane(tmp_path / "data")
    control_plane.start()
    control_plane.apply(
        model_version("digits-v1", digits / "v1"), inference_model("digits", modelVersion="digits-v1", replicas=2)
    )
    control_plane.until_ready("infm", "digits")
    assert control_plane.stop() == 0
    assert control_plane.processes() == []
    control_plane.start()
    control_plane.until_ready("infm", "digits")
    assert control_plane.stop() == 0


def test_a_control_plane_stops_although_somebody_watches(plane: ControlPlane) -> None:
    command = [str(programs() / "kubectl"), "get", "mv", "-w", "-v=6"]
    with subprocess.Popen(command, env=plane.environment, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stderr is not None
        assert any("watch=true" in line for line in watching.stderr), "kubectl watches"
        assert plane.stop() == 0
        watching.terminate()
        watching.stderr.read()


def test_nothing_is_written_while_nothing_happens(plane: ControlPlane, digits: Path) -> None:
    plane.apply(model_version("digits-v1", digits / "v1"), inference_model("digits", modelVersion="digits-v1"))
    plane.until_ready("infm", "digits")
    before = snapshot(plane.data)
    until(lambda: (now := snapshot(plane.data)) == before or before.update(now), "the last writes are done")
    subprocess.run(["sleep", "3"], check=True)
    assert snapshot(plane.data) == before


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file but logs."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in ("log", "log.1")]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}
