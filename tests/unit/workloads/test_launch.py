"""What workers are told, with paths and references as they are on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwright.adapters.embedded.workloads import launch, mounts
from modelwright.ports.errors import Invalid
from modelwright.ports.workloads import Command, HostPath, Mount


def planned(tmp_path: Path, storage: Path, env: dict[str, str], *args: str) -> launch.WorkerPlan:
    mount = Mount(HostPath(str(storage), create=True), "/kubedl-model", read_only=False)
    command = Command(command=("train",), args=args, env=env, mounts=(mount,))
    layout = mounts.Layout(command.mounts, tmp_path / "root", {}, tmp_path / "data")
    return launch.plan(command, layout, [1], work=tmp_path, deadline=0, grace=1).workers[0]


def test_a_folder_may_be_called_like_a_reference(tmp_path: Path) -> None:
    storage = tmp_path / "$(RANK) and $$(RANK)"
    env = {"KUBEDL_MODEL_PATH": "/kubedl-model", "EPOCH": "/kubedl-model/$(RANK)/$$(RANK)"}
    worker = planned(tmp_path, storage, env, "$(KUBEDL_MODEL_PATH)/x")
    assert worker.env["KUBEDL_MODEL_PATH"] == str(storage)
    assert worker.env["EPOCH"] == f"{storage}/0/$(RANK)"
    assert worker.argv == ("train", f"{storage}/x")


def test_few_variables_that_come_to_gigabytes_are_refused_before_they_do(tmp_path: Path) -> None:
    env = {"A": "x" * 8192, "B": "$(A)" * 2048, "C": "$(B)" * 2048}
    with pytest.raises(Invalid) as refused:
        planned(tmp_path, tmp_path / "m", env)
    assert refused.value.reason == "CommandTooLong"
    with pytest.raises(Invalid, match="longer than"):
        planned(tmp_path, tmp_path / "m", {"A": "x" * 8192}, "$(A)" * 17)
    whole = planned(tmp_path, tmp_path / "m", {"A": "x" * 8192}, "$(A)" * 16)
    assert len(whole.argv[1]) == 16 * 8192
