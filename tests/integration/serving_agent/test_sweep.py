"""`agent sweep` and `agent probe-volume`, as short Pods run them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.serving_agent.hosts import FileHost
from tests.integration.serving_agent.pod import Pod, Ran, version

from modelwright.ports.serving import SWEEP_VARIABLE

UID = "6a1f4b7e-0000-4000-8000-00000000c0de"


def sweep(pod: Pod, root: Path, name: str = UID) -> Ran:
    return pod.run("sweep", variables={SWEEP_VARIABLE: name, "MODELWRIGHT_MODELS_FOLDER": str(root)})


def test_all_that_was_kept_for_an_owner_goes_and_nothing_else(pod: Pod, host: FileHost, tmp_path: Path) -> None:
    url, digest = host.add("/m.onnx", b"model")
    pod.models.rmdir()
    root, pod.models = tmp_path / "namespace", tmp_path / "namespace" / UID
    assert pod.fetch(pod.task(version("v1", 1, url, digest))).code == 0
    (root / "other").mkdir()
    assert (sweep(pod, root).code, [path.name for path in root.iterdir()]) == (0, ["other"])
    assert (sweep(pod, root).code, sweep(pod, tmp_path / "never").code) == (0, 0)


@pytest.mark.parametrize("name", ["", ".", "..", "../other", "/etc", "a/b", "a\nb", ".hidden", "a" * 300])
def test_what_is_no_name_is_refused(pod: Pod, tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    assert sweep(pod, root / "inner", name).failure.reason == "TaskInvalid"
    assert (tmp_path / "other").is_dir()


def test_no_link_is_followed(pod: Pod, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    (elsewhere / "folder").mkdir(parents=True)
    (elsewhere / "precious").write_bytes(b"1")
    elsewhere.chmod(0o755)
    (root / UID / "inner").mkdir(parents=True)
    (root / UID / "inner" / "link").symlink_to(elsewhere)
    (root / UID / "inner").chmod(0o555)
    assert sweep(pod, root).code == 0
    (root / UID).symlink_to(elsewhere)
    assert sweep(pod, root).code == 0
    assert list(root.iterdir()) == []
    assert sorted(path.name for path in elsewhere.iterdir()) == ["folder", "precious"]
    assert (elsewhere.stat().st_mode & 0o777) == 0o755


def test_a_volume_with_a_file_is_told_from_one_without(pod: Pod, models: Path, tmp_path: Path) -> None:
    assert pod.run("probe-volume", str(models)).code == 0
    empty = tmp_path / "empty"
    (empty / "folder").mkdir(parents=True)
    (empty / "link").symlink_to(models / "1" / "model.onnx")
    for path in (empty, tmp_path / "missing"):
        assert pod.run("probe-volume", str(path)).failure.reason == "VolumeEmpty"
