"""Trainings that really run: from a command to a version that is served, and all that may go wrong on the way."""

from __future__ import annotations

import hashlib
import json
import tarfile
import urllib.request
from pathlib import Path

import pytest
from tests.e2e.plane import ControlPlane, command_of, inference_model, model_version, until
from tests.e2e.trainings import Training, events_of, until_phase

WRITES = """
out.joinpath("weights.bin").write_bytes(b"weights")
"""


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def archive(folder: Path, path: Path) -> Path:
    with tarfile.open(path, "w") as tar:
        for file in sorted(folder.iterdir()):
            tar.add(file, file.name)
    return path


# From a command to an answer ------------------------------------------------------------------------------------------


def test_a_training_becomes_a_version_that_is_served(plane: ControlPlane, tmp_path: Path, digits: Path) -> None:
    data = archive(digits / "v1", tmp_path / "data.tar")
    training = Training(
        tmp_path,
        "digits-v1",
        """
        print("training with", sys.argv[1:], os.environ["SEED"])
        shutil.copy(data / "given" / "model.skops", out / "model.skops")
        (out / ".modelwright").mkdir()
        (out / ".modelwright" / "progress.json").write_text('{"completed": 1, "total": 2, "message": "epoch 1"}')
        until_there(out.parent / "go on")
        report(accuracy=0.95, loss=0.1)
        """,
        args=["--epochs", "3", "--out", "$(KUBEDL_MODEL_PATH)"],
        env=[{"name": "SEED", "value": "7"}],
        datasets=[{"name": "given", "uri": data.as_uri(), "sha256sum": digest(data)}],
        frameworkType="sklearn",
    )
    plane.apply(inference_model("digits", modelVersion="digits-v1"))
    plane.apply(training.body)
    status = until_phase(plane, "digits-v1", "Running")
    assert status["workers"] == {"active": 1, "succeeded": 0, "failed": 0}
    until(lambda: plane.get("tm", "digits-v1")["status"].get("progress", {}).get("message") == "epoch 1", "progress")
    assert "training with" in plane.run("logs", "tm/digits-v1")
    training.let("go on")
    status = plane.until_ready("tm", "digits-v1")["status"]
    assert (status["phase"], status["modelVersion"], status["attempts"]) == ("Succeeded", "digits-v1", 1)
    assert status["progress"] == {"completed": 1, "total": 2, "message": "epoch 1"}
    version = plane.get("mv", "digits-v1")
    assert version["status"]["metrics"] == {"accuracy": 0.95, "loss": 0.1}
    lineage = version["spec"]["lineage"]
    assert version["spec"]["createdBy"] == "TrainingModel/digits-v1"
    assert lineage["datasets"] == [{"name": "given", "uri": data.as_uri(), "digest": f"sha256:{digest(data)}"}]
    assert lineage["parameters"]["epochs"] == "3"
    assert lineage["parameters"]["SEED"] == "7"
    assert version["spec"]["storage"]["localStorage"]["nodeName"]
    served = plane.until_ready("infm", "digits")["status"]
    body = json.dumps({"instances": [[0.0] * 64]}).encode()
    answer = json.loads(urllib.request.urlopen(f"{served['url']}:predict", body, timeout=30).read())
    assert len(answer["predictions"]) == 1
    assert "training with" in plane.run("logs", "tm/digits-v1"), "the logs are kept"


def test_a_training_starts_from_the_weights_of_a_version_that_comes_later(plane: ControlPlane, tmp_path: Path) -> None:
    second = Training(
        tmp_path,
        "second",
        """
        old = (base / "weights.bin").read_bytes()
        out.joinpath("weights.bin").write_bytes(old + b" and more")
        """,
        baseModelVersion="first",
    )
    first = Training(tmp_path, "first", "until_there(out.parent / 'go on')", WRITES)
    plane.apply(second.body)
    until(lambda: plane.condition("tm", "second").get("reason") == "BaseModelVersionNotFound", "it waits")
    plane.apply(first.body)
    until_phase(plane, "first", "Running")
    assert plane.condition("tm", "second")["reason"] == "BaseModelVersionNotFound"
    first.let("go on")
    plane.until_ready("tm", "second")
    assert (second.out / "weights.bin").read_bytes() == b"weights and more"
    assert plane.get("mv", "second")["spec"]["lineage"]["parents"] == ["first"]


@pytest.mark.parametrize("framework", ["tensorflow", "pytorch"])
def test_workers_know_each_other(plane: ControlPlane, tmp_path: Path, framework: str) -> None:
    training = Training(
        tmp_path,
        "train",
        """
        names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG", "LOCAL_RANK")
        found = {name: os.environ[name] for name in names if name in os.environ}
        (out / f"{rank}.json").write_text(json.dumps(found))
        for other in ("0", "1", "2"):
            until_there(out / f"{other}.json")
        """,
        workers=3,
        frameworkType=framework,
    )
    plane.apply(training.body)
    status = plane.until_ready("tm", "train")["status"]
    assert status["workers"] == {"active": 0, "succeeded": 3, "failed": 0}
    found = [json.loads((training.out / f"{rank}.json").read_text()) for rank in range(3)]
    assert [each["RANK"] for each in found] == ["0", "1", "2"]
    assert {each["WORLD_SIZE"] for each in found} == {"3"}
    assert len({(each["MASTER_ADDR"], each["MASTER_PORT"]) for each in found}) == 1
    if framework == "tensorflow":
        configs = [json.loads(each["TF_CONFIG"]) for each in found]
        assert [config["task"]["index"] for config in configs] == [0, 1, 2]
        assert len(set(configs[0]["cluster"]["worker"])) == 3
    else:
        assert [each["LOCAL_RANK"] for each in found] == ["0", "1", "2"]


# What fails -----------------------------------------------------------------------------------------------------------


def test_a_training_that_fails_is_tried_again(plane: ControlPlane, tmp_path: Path) -> None:
    training = Training(
        tmp_path,
        "train",
        """
        say("started")
        if len((out.parent / "said").read_text().split()) < 3:
            sys.exit(7)
        """,
        WRITES,
        backoffLimit=2,
    )
    plane.apply(training.body)
    status = plane.until_ready("tm", "train")["status"]
    assert (status["attempts"], status["failures"]) == (3, 2)
    assert training.said == ["started"] * 3
    assert events_of(plane, "train").count("CommandFailed") == 2


def test_a_training_that_fails_for_good_says_why(plane: ControlPlane, tmp_path: Path) -> None:
    program = """
    if (out.parent / "mended").exists():
        out.joinpath("weights.bin").write_bytes(b"weights")
    else:
        sys.exit("no such column: label")
    """
    training = Training(tmp_path, "train", program, backoffLimit=0)
    plane.apply(training.body)
    message = plane.until_reason("tm", "train", "CommandFailed")
    assert "no such column: label" in message
    assert "reconcile-requested-at" in message
    status = plane.get("tm", "train")["status"]
    assert (status["phase"], status["failures"], status["workers"]["failed"]) == ("Failed", 1, 1)
    assert plane.condition("tm", "train", "Succeeded")["status"] == "False"
    assert "no such column" in plane.run("logs", "tm/train")
    assert plane.kubectl("get", "mv", "-o", "name") == ""
    training.let("mended")
    plane.kubectl("annotate", "tm", "train", "modelwright.dev/reconcile-requested-at=now")
    plane.until_ready("tm", "train")


def test_a_training_that_hangs_is_ended_at_its_deadline(plane: ControlPlane, tmp_path: Path) -> None:
    program = """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    say("started")
    time.sleep(3600)
    """
    training = Training(tmp_path, "train", program, activeDeadlineSeconds=2)
    plane.apply(training.body)
    plane.until_reason("tm", "train", "DeadlineExceeded")
    assert training.said == ["started"]
    assert not [process for process in plane.processes() if str(training.folder) in command_of(process)]


def test_a_training_that_writes_nothing_is_said(plane: ControlPlane, tmp_path: Path) -> None:
    plane.apply(Training(tmp_path, "train", "report(accuracy=1)").body)
    message = plane.until_reason("tm", "train", "ModelVersionStalled")
    assert "train" in message
    assert plane.condition("mv", "train", "Stalled")["reason"] == "StorageEmpty"
    assert plane.condition("tm", "train", "Succeeded")["status"] == "True"


METRICS = {
    "no-json": "file.write_text('accuracy: 1')",
    "huge": "file.write_bytes(b'{\"a\": 1' + b' ' * 10_000_000 + b'}')",
    "a-link": "file.symlink_to('/etc/passwd')",
    "a-pipe": "os.mkfifo(file)",
    "no-numbers": 'file.write_text(\'{"a": NaN, "b": 1e999}\')',
    "deep": "file.write_text('[' * 100_000)",
}


def test_metrics_that_nobody_can_trust_keep_no_version_from_its_image(plane: ControlPlane, tmp_path: Path) -> None:
    begin = """
    (out / ".modelwright").mkdir()
    file = out / ".modelwright" / "metrics.json"
    """
    plane.apply(*(Training(tmp_path, name, begin, writes, WRITES).body for name, writes in METRICS.items()))
    for name in METRICS:
        plane.until_ready("tm", name)
        assert plane.get("mv", name)["status"].get("metrics", {}) == {}, name
        assert "MetricsIgnored" in events_of(plane, name), name


def test_a_dataset_of_another_checksum_is_never_trained_on(plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1,2\n")
    dataset = {"name": "d", "uri": (tmp_path / "data.csv").as_uri(), "sha256sum": "0" * 64}
    training = Training(tmp_path, "train", "say('started')", datasets=[dataset])
    plane.apply(training.body)
    plane.until_reason("tm", "train", "ChecksumMismatch")
    assert training.said == []
    assert plane.get("tm", "train")["status"]["failures"] == 1


def test_one_worker_that_dies_ends_the_others(plane: ControlPlane, tmp_path: Path) -> None:
    program = """
    say("started")
    if rank == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(3600)
    """
    training = Training(tmp_path, "train", program, workers=2, backoffLimit=0)
    plane.apply(training.body)
    message = plane.until_reason("tm", "train", "CommandFailed")
    assert "worker-1" in message
    assert "SIGKILL" in message
    assert plane.get("tm", "train")["status"]["workers"] == {"active": 0, "succeeded": 0, "failed": 2}
    assert not [process for process in plane.processes() if str(training.folder) in command_of(process)]


IMPOSSIBLE: dict[str, tuple[dict[str, object], str, str]] = {
    "no-program": ({"command": ["/no/such/program"]}, "CommandNotStarted", "/no/such/program"),
    "image": ({"image": "train:1"}, "NeedsContainers", "train:1"),
    "no-command": ({"command": [], "frameworkType": "tensorflow"}, "NeedsContainers", "command"),
    "nfs": ({"storage": {"nfs": {"server": "files.test", "path": "/m"}}}, "StorageNotSupported", "localStorage"),
    "itself": ({"baseModelVersion": "itself"}, "BaseModelVersionCycle", "its own result"),
    "too-much": ({"resources": {"limits": {"memory": "1e5000"}}}, "Invalid", "memory"),
}


def test_what_cannot_be_run_is_said(plane: ControlPlane, tmp_path: Path) -> None:
    trainings = {
        name: Training(tmp_path, name, "say('started')", **changes) for name, (changes, _, _) in IMPOSSIBLE.items()
    }
    plane.apply(*(training.body for training in trainings.values()))
    for name, (_, reason, told) in IMPOSSIBLE.items():
        assert told in plane.until_reason("tm", name, reason)
        assert trainings[name].said == []


def test_a_training_does_not_write_to_the_data_directory(plane: ControlPlane, tmp_path: Path) -> None:
    storage = {"localStorage": {"path": str(plane.data / "registry")}}
    training = Training(tmp_path, "train", "say('started')", storage=storage)
    plane.apply(training.body)
    plane.until_reason("tm", "train", "StorageForbidden")
    assert training.said == []


def test_a_version_of_that_name_is_said_before_anything_runs(plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "model.bin").write_bytes(b"mine")
    plane.apply(model_version("train", tmp_path / "mine"))
    plane.until_ready("mv", "train")
    training = Training(tmp_path, "train", "say('started')")
    plane.apply(training.body)
    plane.until_reason("tm", "train", "ModelVersionNameTaken")
    assert training.said == []


# The control plane goes away ------------------------------------------------------------------------------------------

WAITS = """
say("started")
until_there(out.parent / "go on")
say("ended")
out.joinpath("weights.bin").write_bytes(b"weights")
"""


def test_a_training_outlives_a_control_plane_that_is_killed(plane: ControlPlane, tmp_path: Path) -> None:
    training = Training(tmp_path, "train", WAITS, workers=2)
    plane.apply(training.body)
    until(lambda: training.said == ["started"] * 2, "both workers run")
    for _ in range(3):
        plane.kill()
        plane.start()
        assert until_phase(plane, "train", "Running")["attempts"] == 1
    plane.kill()
    training.let("go on")
    until(lambda: training.said.count("ended") == 2, "it ends while nobody looks")
    plane.start()
    status = plane.until_ready("tm", "train")["status"]
    assert (status["attempts"], status.get("failures", 0)) == (1, 0)
    assert training.said == ["started"] * 2 + ["ended"] * 2, "exactly once"


def test_a_training_that_fails_while_nobody_looks_is_tried_again(plane: ControlPlane, tmp_path: Path) -> None:
    program = """
    say("started")
    if not (out.parent / "go on").exists():
        until_there(out.parent / "go on")
        say("failed")
        sys.exit(1)
    """
    training = Training(tmp_path, "train", program, WRITES)
    plane.apply(training.body)
    training.until_said("started")
    plane.kill()
    training.let("go on")
    training.until_said("failed")
    plane.start()
    status = plane.until_ready("tm", "train")["status"]
    assert (status["attempts"], status["failures"]) == (2, 1)
    assert training.said == ["started", "failed", "started"]


def test_a_training_that_is_interrupted_is_started_again_and_that_is_no_failure(
    plane: ControlPlane, tmp_path: Path
) -> None:
    training = Training(tmp_path, "train", WAITS, backoffLimit=0)
    plane.apply(training.body)
    training.until_said("started")
    assert plane.stop() == 0
    assert not plane.processes(), "it ended with the control plane"
    training.let("go on")
    plane.start()
    status = plane.until_ready("tm", "train")["status"]
    assert (status["attempts"], status.get("failures", 0)) == (2, 0)
    assert training.said == ["started", "started", "ended"]


def test_a_control_plane_killed_again_and_again_runs_each_training_once(plane: ControlPlane, tmp_path: Path) -> None:
    trainings = [Training(tmp_path, f"t{number}", "say('run')", WRITES) for number in range(8)]
    for number, training in enumerate(trainings):
        plane.apply(training.body)
        if number % 2:
            plane.kill()
            plane.start()
    for training in trainings:
        plane.until_ready("tm", training.name)
        assert training.said == ["run"]
    assert plane.get("model", "digits")["status"]["versions"] == len(trainings)


def test_a_training_that_is_deleted_ends(plane: ControlPlane, tmp_path: Path) -> None:
    training = Training(tmp_path, "train", WAITS)
    plane.apply(training.body)
    training.until_said("started")
    plane.run("delete", "tm/train")
    until(lambda: not any(str(training.folder) in command_of(each) for each in plane.processes()), "it has ended")
    assert training.said == ["started"]


# Trainings that write to the same place -------------------------------------------------------------------------------


def test_two_trainings_of_one_folder_take_turns_and_each_version_has_its_own_files(
    plane: ControlPlane, tmp_path: Path
) -> None:
    first = Training(tmp_path, "first", 'until_there(out.parent / "go on")\nout.joinpath("w").write_text("1")')
    folder = str(first.out)
    second = Training(
        tmp_path, "second", 'out.joinpath("w").write_text("2")', storage={"localStorage": {"path": folder}}
    )
    plane.apply(first.body)
    until_phase(plane, "first", "Running")
    plane.apply(second.body)
    until(lambda: plane.condition("tm", "second").get("reason") == "StorageInUse", "the second waits")
    first.let("go on")
    digests = {
        plane.until_ready("tm", name) and plane.get("mv", name)["status"]["imageDigest"] for name in ("first", "second")
    }
    assert len(digests) == 2


def test_a_training_made_anew_waits_for_a_former_one_that_is_slow_to_end(plane: ControlPlane, tmp_path: Path) -> None:
    slow = Training(
        tmp_path,
        "same",
        """
        signal.signal(signal.SIGTERM, lambda *_: say("asked"))
        say("old")
        until_there(out.parent / "go on")
        say("ended")
        """,
    )
    plane.apply(slow.body)
    slow.until_said("old")
    plane.run("delete", "tm/same", "--no-wait")
    script = slow.folder / "train.py"
    (slow.folder / "other.py").write_text(script.read_text().replace('say("old")', 'say("new"); sys.exit()'))
    slow.body["spec"]["command"][1] = str(slow.folder / "other.py")
    slow.until_said("asked")
    until(lambda: plane.kubectl("get", "tm", "--ignore-not-found", "-o", "name") == "", "the former is gone")
    slow.body["spec"]["modelName"] = "other"
    plane.apply(slow.body)
    until(lambda: "still written by" in plane.get("tm", "same").get("status", {}).get("message", ""), "the new waits")
    assert slow.said == ["old", "asked"]
    slow.let("go on")
    slow.until_said("new")
    assert slow.said == ["old", "asked", "ended", "new"]
