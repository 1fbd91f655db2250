"""What the agent in a serving Pod decides, and how it says it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelwright.agent.printing import Printer
from modelwright.agent.serving.attempt import failed
from modelwright.agent.serving.choice import choose
from modelwright.agent.serving.keys import is_key, key_of
from modelwright.agent.serving.layouts import models_config, only_folder, saved_model, server_config, write
from modelwright.agent.serving.places import Places, places_of
from modelwright.agent.serving.server import read_state
from modelwright.agent.serving.task_file import TaskFile
from modelwright.agent.serving.telling import Teller
from modelwright.agent.serving.timing import Timing
from modelwright.ports import serving
from modelwright.ports.errors import Forbidden, Invalid, Mismatch, Rejected, Unavailable
from modelwright.ports.serving import KeeperState, ServeTask
from modelwright.ports.workloads import Download, ModelImage, ModelSource, Progress, ServedVersion, VersionStatus
from modelwright.serve.config import parse

SUM, OTHER = "a" * 64, "b" * 64
IMAGE = ModelImage(f"r.example.com/m@sha256:{SUM}")
DOWNLOAD = Download("https://example.com/m.onnx", SUM)


def task(*names: str, default: str = "", numbers: tuple[int, ...] = ()) -> ServeTask:
    versions = tuple(
        ServedVersion(name, number, Download(f"https://example.com/{name}.tar", SUM))
        for name, number in zip(names, numbers or range(1, len(names) + 1), strict=True)
    )
    return ServeTask(model_name="m", framework="onnx", versions=versions, default=default or names[-1], port=8501)


# Where a model lies


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (IMAGE, ModelImage(f"mirror.example.com/n@sha256:{SUM}", "secret"), True),
        (IMAGE, ModelImage(f"r.example.com/m@sha256:{OTHER}"), False),
        (Download("https://a/m.tar", SUM), Download("https://b/other.zip", SUM.upper()), True),
        (Download("https://a/m.onnx", SUM), Download("https://b/m.onnx?token=1", SUM), True),
        (Download("https://a/m.onnx", SUM), Download("https://a/n.onnx", SUM), False),
        (Download("https://a/m.tar", SUM), Download("https://a/m.tar", OTHER), False),
        (Download("https://a/m.tar"), Download("https://a/m.tar"), True),
        (Download("https://a/m.tar"), Download("https://a/m.tar", scope="another"), False),
        (Download("https://a/m.tar"), Download("https://a/m.tar", secret="s"), False),
    ],
)
def test_content_decides_where_a_model_lies_and_the_address_where_content_is_not_known(
    one: ModelSource, other: ModelSource, same: bool
) -> None:
    assert (key_of(one) == key_of(other)) is same
    assert is_key(key_of(one))
    assert is_key(key_of(other))


@given(st.text(max_size=80))
@settings(max_examples=200, deadline=None)
def test_a_key_is_one_plain_name_whatever_the_address(text: str) -> None:
    for source in (Download(text), Download(text, SUM), ModelImage(text), ModelImage(f"r/m@{text}")):
        key = key_of(source)
        assert is_key(key)
        assert "/" not in key
        assert len(key) < 150


@pytest.mark.parametrize("name", ["", ".", "..", "lost+found", "file-", f"file-{SUM}/..", f"file-{SUM}\n", "image-x"])
def test_what_is_not_ours_is_no_key(name: str) -> None:
    assert not is_key(name)


# What a server is told


def test_what_serves_stays_until_the_new_default_is_served() -> None:
    wanted, served = task("v2"), task("v1").versions[0]
    before = choose(wanted, {}, served, "/v1")
    assert before is not None
    assert (before.default, before.stable, [one.version for one in before.versions]) == ("v1", "v1", ["v1"])
    between = choose(wanted, {"v2": "/v2"}, served, "/v1")
    assert between is not None
    assert (between.default, between.stable) == ("v2", "v1")
    assert [(one.version, one.number) for one in between.versions] == [("v2", 1), ("v1", 2)]
    after = choose(wanted, {"v2": "/v2"}, wanted.versions[0], "/v2")
    assert after is not None
    assert (after.default, after.stable, [one.version for one in after.versions]) == ("v2", "v2", ["v2"])


def test_nothing_is_told_while_there_is_nothing_to_serve() -> None:
    wanted = task("v1", "v2")
    assert choose(wanted, {}, None, "") is None
    assert choose(wanted, {"v1": "/v1"}, None, "") is None
    assert choose(wanted, {}, task("v0").versions[0], "") is None, "what served is not here any more"


def test_the_configuration_is_one_that_our_server_takes() -> None:
    choice = choose(task("v1", "v2", numbers=(3, 9)), {"v1": "/a", "v2": "/b"}, None, "")
    assert choice is not None
    config = parse(server_config(choice), "test")
    assert [(one.version, one.number, one.path, one.labels) for one in config.versions] == [
        ("v1", 3, "/a", ()),
        ("v2", 9, "/b", ("stable",)),
    ]
    assert config.default_version == "v2"


def test_no_name_forges_a_line_for_tensorflow_serving() -> None:
    choice = choose(msgspec.structs.replace(task("v1"), model_name='a"\n\\é'), {"v1": "/v1"}, None, "")
    assert choice is not None
    text = models_config(choice, Path("/run/m"))
    assert '    name: "a\\042\\012\\134\\303\\251"\n' in text
    assert '    base_path: "/run/m"\n' in text


def test_a_saved_model_is_found_where_our_server_finds_it(tmp_path: Path) -> None:
    for folder in ("plain", "top/export", "numbered/export/2", "numbered/export/10", "many/a", "many/b"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "saved_model.pb").write_bytes(b"")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/out").symlink_to(tmp_path / "plain")
    found = {path.name: saved_model(path) for path in tmp_path.iterdir()}
    assert found == {
        "plain": tmp_path / "plain",
        "top": tmp_path / "top/export",
        "numbered": tmp_path / "numbered/export/10",
        "many": tmp_path / "many",
        "nothing": tmp_path / "nothing",
        "linked": tmp_path / "linked",
    }


@pytest.mark.parametrize(
    ("files", "inside"),
    [
        (["m.bin"], "."),
        (["m.bin", "top/n.bin"], "."),
        (["a/m.bin", "b/m.bin"], "."),
        (["top/m.bin"], "top"),
        (["top/.hidden", "top/deeper/m.bin"], "top"),
        ([".hidden", "top/m.bin"], "top"),
        (["7/m.bin"], "7"),
    ],
)
def test_an_archive_of_one_top_folder_is_that_folder_to_who_knows_one_only(
    tmp_path: Path, files: list[str], inside: str
) -> None:
    model, run = tmp_path / "model", tmp_path / "run"
    run.mkdir()
    for name in files:
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).write_bytes(b"")
    choice = choose(task("v1"), {"v1": str(model)}, None, "")
    assert choice is not None
    places = Places(run=run)
    told = write("plain", choice, places)
    assert places.plain.readlink() == model / inside
    assert write("plain", choice, places) == told


def test_a_link_is_no_top_folder_and_what_cannot_be_read_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model/top").symlink_to(tmp_path / "elsewhere")
    assert only_folder(tmp_path / "model") == tmp_path / "model"
    assert only_folder(tmp_path / "nowhere") == tmp_path / "nowhere"
    (tmp_path / "file").write_bytes(b"")
    assert only_folder(tmp_path / "file") == tmp_path / "file"


# What mends a failure


@pytest.mark.parametrize(
    ("error", "source", "mended"),
    [
        (Unavailable("x", after=3), DOWNLOAD, "soon"),
        (OSError("x"), DOWNLOAD, "soon"),
        (ValueError("canary"), DOWNLOAD, "soon"),
        (Mismatch("x"), DOWNLOAD, "never"),
        (Rejected("x"), IMAGE, "never"),
        (Invalid("x", reason="NoModelInImage"), IMAGE, "never"),
        (Mismatch("x"), IMAGE, "elsewhere"),
        (Forbidden("x"), DOWNLOAD, "elsewhere"),
        (Invalid("x", reason="SecretInvalid"), DOWNLOAD, "elsewhere"),
    ],
)
def test_what_may_mend_a_failure_decides_when_it_is_tried_again(
    error: Exception, source: ModelSource, mended: str
) -> None:
    said = failed(error, source)
    assert said.mended == mended
    assert said.failure is not None
    assert "canary" not in said.failure.message
    assert said.after == (3 if isinstance(error, Unavailable) else 0)


# What is read


def test_a_state_that_is_none_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for content in (None, b"", b"{", b"[]"):
        if content is not None:
            path.write_bytes(content)
        assert (read_state(path, "d").serving, read_state(path, "d").applied) == ("", False)
    path.write_bytes(b'{"pid":1,"phase":"loading","defaultVersion":"v1","configDigest":"d","versions":[]}')
    assert read_state(path, "d").serving == "", "a server that starts does not answer yet"
    assert read_state(path, "d").applied
    assert not read_state(path, "").applied


def test_a_task_is_taken_once_and_a_broken_one_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "task.json"
    file = TaskFile(path)
    assert (file.read(), file.fault is not None) == (False, True)
    path.write_bytes(msgspec.json.encode(task("v1")))
    assert [file.read(), file.read(), file.fault] == [True, False, None]
    path.write_bytes(b"")
    assert not file.read()
    assert file.fault is not None
    assert file.task == task("v1")
    path.write_bytes(msgspec.json.encode(task("v1")))
    assert [file.read(), file.fault] == [False, None]


def test_places_are_those_of_a_pod_unless_the_environment_says_otherwise() -> None:
    usual, places = places_of({}), places_of({"MODELWRIGHT_RUN_FOLDER": "/x"})
    assert usual == Places()
    found = (usual.config, usual.models_config, usual.plain, usual.state, usual.task)
    assert [str(path) for path in found] == [
        serving.CONFIG_FILE, serving.MODELS_CONFIG_FILE, serving.PLAIN_FOLDER, serving.STATE_FILE, serving.TASK_FILE,
    ]  # fmt: skip
    assert (places.config, places.task) == (Path("/x/config.json"), usual.task)


# What is said


class Log:
    """A teller with a clock of its own, and what it has printed."""

    def __init__(self, path: Path) -> None:
        self.now, self._path = 1000.0, path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT)
        self.teller = Teller(Timing(), Printer(self._file), lambda: self.now)

    def close(self) -> None:
        os.close(self._file)

    def tell(self, state: KeeperState, after: float = 0.0) -> int:
        """How many lines there are, so long after the last call."""
        self.now += after
        self.teller.tell(state)
        return len(self._path.read_bytes().splitlines())


def fetching(done: int, total: int = 1000) -> KeeperState:
    return KeeperState(
        task="t", versions=(VersionStatus(version="v", phase="Fetching", progress=Progress(done, total)),)
    )


def test_changes_are_told_at_once_and_progress_not_too_often(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    try:
        assert log.tell(fetching(0)) == 1
        assert log.tell(fetching(500), 0.5) == 1, "too soon"
        assert log.tell(fetching(500), 0.6) == 2
        assert log.tell(fetching(510), 5) == 2, "too little"
        assert log.tell(fetching(510), 5) == 3, "long ago"
        assert log.tell(KeeperState(task="t", serving="v")) == 4
        assert log.tell(KeeperState(task="t", serving="v"), 599) == 4
        assert log.tell(KeeperState(task="t", serving="v"), 2) == 5, "a log may have been rotated"
    finally:
        log.close()


def test_after_other_lines_the_state_is_told_again(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    try:
        state = KeeperState(task="t")
        assert log.tell(state) == 1
        log.teller.say("something\nelse")
        assert log.tell(state, 29) == 2
        assert log.tell(state, 2) == 3
        assert log.tell(state, 40) == 3
    finally:
        log.close()
