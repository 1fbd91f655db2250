"""The training programs of the example, as a TrainingModel would start them."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLE = Path(__file__).parents[3] / "examples" / "digits"
MEETING = "import json, sys, meeting; print(json.dumps(meeting.gather(int(sys.argv[1]), float(sys.argv[2]))))"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a reader of the docs has it, with the data set unpacked where a control plane would put it."""
    folder = tmp_path_factory.mktemp("a folder") / "digits"
    subprocess.run([sys.executable, str(EXAMPLE / "prepare.py"), str(folder)], check=True)
    with tarfile.open(folder / "digits.tar") as tar:
        tar.extractall(folder / "datasets" / "digits", filter="data")
    return folder


def start(folder: Path, program: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    where = {"MODELWRIGHT_DATASETS": str(folder / "datasets"), **environment}
    command = [sys.executable, *([program] if program == "-c" else [str(folder / program)]), *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **where}, cwd=folder
    )


def finish(process: subprocess.Popen[str]) -> str:
    """What it prints; it must end well."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    return out


def places(count: int) -> list[dict[str, str]]:
    """What the workers of one training are told."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    common = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [{**common, "RANK": str(rank)} for rank in range(count)]


def metrics(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / ".modelwright" / "metrics.json").read_text())
    return found


def settings(printed: str) -> set[str]:
    """What a worker has tried."""
    return {line.partition(":")[2] for line in printed.splitlines() if "gives" in line}


def test_the_manifests_name_the_data_set_by_the_digest_that_it_has_everywhere(prepared: Path) -> None:
    digest = hashlib.sha256((prepared / "digits.tar").read_bytes()).hexdigest()
    manifests = [yaml.safe_load(path.read_text()) for path in sorted(prepared.glob("train-*.yaml"))]
    datasets = [dataset for manifest in manifests for dataset in manifest["spec"]["datasets"]]
    digits = [dataset for dataset in datasets if dataset["name"] == "digits"]
    assert len(digits) == len(manifests)
    assert {dataset["sha256sum"] for dataset in digits} == {digest}
    assert {dataset["uri"] for dataset in digits} == {(prepared / "digits.tar").as_uri()}


def test_the_parts_of_the_data_set_share_no_row(prepared: Path) -> None:
    folder = prepared / "datasets" / "digits"
    train, held_out = ((folder / f"{part}.csv").read_text().splitlines()[1:] for part in ("train", "held-out"))
    field = json.loads((prepared / "field.json").read_text())["instances"]
    assert (len(train), len(held_out), len(field)) == (719, 719, 359)
    images = [line.partition(",")[2] for line in (*train, *held_out)] + [",".join(map(str, row)) for row in field]
    assert len(set(images)) == len(images)


def test_the_models_are_as_good_as_the_docs_say(prepared: Path) -> None:
    finish(start(prepared, "train_edge.py", KUBEDL_MODEL_PATH=str(prepared / "edge")))
    workers = [
        start(prepared, "train_cloud.py", KUBEDL_MODEL_PATH=str(prepared / "cloud"), **place) for place in places(2)
    ]
    chief, other = (finish(worker) for worker in workers)
    base, second = str(prepared / "cloud"), str(prepared / "cloud-v2")
    finish(start(prepared, "refine_cloud.py", KUBEDL_BASE_MODEL_PATH=base, KUBEDL_MODEL_PATH=second))

    assert chief.count("gives") == other.count("gives") == 6
    assert "best of 12 from 2 workers" in chief
    assert settings(chief).isdisjoint(settings(other)), "each works on settings of its own"
    edge, cloud, refined = (metrics(prepared / name)["accuracy"] for name in ("edge", "cloud", "cloud-v2"))
    assert 0.95 < edge < 0.97 < 0.98 < cloud <= refined < 1.0
    small, large = ((prepared / name / "model.skops").stat().st_size for name in ("edge", "cloud"))
    assert small * 10 < large


def test_workers_that_meet_bring_together_what_each_has_found(prepared: Path) -> None:
    workers = [start(prepared, "-c", MEETING, str(7 * number), "60", **place) for number, place in enumerate(places(3))]
    assert [json.loads(finish(worker)) for worker in workers] == [[0, 7, 14], None, None]


def test_a_chief_whose_workers_do_not_come_fails_rather_than_wait_for_ever(prepared: Path) -> None:
    chief, *_ = places(3)
    process = start(prepared, "-c", MEETING, "1", "0.3", **chief)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "TimeoutError: 2 of 3 workers are missing" in err


def test_a_worker_whose_chief_does_not_come_fails_rather_than_wait_for_ever(prepared: Path) -> None:
    process = start(prepared, "-c", MEETING, "1", "0.3", **places(2)[1])
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "TimeoutError: the chief does not listen" in err
