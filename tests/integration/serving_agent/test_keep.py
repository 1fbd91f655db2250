"""`agent keep` beside a real server: the sidecar of a serving Pod at the edge."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.integration import clients
from tests.integration.serve.site import Client
from tests.integration.serving_agent import hosts
from tests.integration.serving_agent.beside import Beside
from tests.integration.serving_agent.hosts import FileHost, file_host
from tests.integration.serving_agent.pod import DEADLINE_SECONDS, of_model, tar_of, version

from modelwright.ports.serving import KeeperState

SOON = {"first_pause": 0.05, "longest_pause": 0.2, "elsewhere_pause": 0.2, "stall": 0.5, "repeat": 0.5}


def test_a_switch_fails_no_request_and_removes_the_old_version(beside: Beside, host: FileHost, models: Path) -> None:
    one, two = of_model(host, models, 1), of_model(host, models, 2)
    beside.want(one)
    keeper = beside.keep()
    beside.serve()
    first = keeper.settled("v1")
    assert [(each.version, each.phase) for each in first.versions] == [("v1", "Ready")]
    with beside.load() as load:
        load.more()
        beside.want(two)
        keeper.settled("v2")
        load.more()
    assert load.faults == []
    assert load.answers[0] == 1
    assert load.answers[-1] == 2
    assert len(beside.pod.kept()) == 1
    assert [asked.path for asked in host.asked] == ["/1/model.onnx", "/2/model.onnx"]
    assert keeper.kill(signal.SIGTERM) == 0
    assert keeper.log.read_bytes().splitlines()[-1].startswith(b'{"keeper":1,')


def test_a_killed_keeper_goes_on_and_no_byte_comes_again(beside: Beside, host: FileHost, models: Path) -> None:
    beside.want(of_model(host, models, 1))
    keeper = beside.keep()
    beside.serve()
    keeper.settled("v1")
    with beside.load() as load:
        load.more()
        keeper.kill()
        beside.keep().settled("v1")
        load.more()
    assert (load.faults, set(load.answers), len(host.asked)) == ([], {1}, 1)


def test_without_a_network_all_comes_back_from_the_node_alone(beside: Beside, models: Path) -> None:
    with file_host() as host:
        beside.want(of_model(host, models, 1))
        keeper, server = beside.keep(), beside.serve()
        keeper.settled("v1")
    keeper.kill()
    beside.end(server)
    (beside.pod.run_folder / "state.json").unlink()
    again = beside.keep()
    beside.serve()
    again.settled("v1")
    assert beside.answers() == 1


def test_what_served_last_is_served_again_while_the_wanted_version_cannot_be_had(
    beside: Beside, host: FileHost, models: Path
) -> None:
    two = of_model(host, models, 2)
    host.faults["/2/model.onnx"] = hosts.unavailable
    beside.want(of_model(host, models, 1))
    keeper, server = beside.keep(**SOON), beside.serve()
    keeper.settled("v1")
    beside.want(two)
    keeper.until(lambda state: state.versions[0].failure is not None, "v2 to fail")
    keeper.kill()
    beside.end(server)
    for file in beside.pod.run_folder.iterdir():
        file.unlink()  # as after a power loss, with what is shared in memory
    again = beside.keep(**SOON)
    beside.serve()
    assert beside.answers() == 1
    state = again.until(lambda state: state.serving == "v1", "v1 to be served")
    assert not state.settled
    del host.faults["/2/model.onnx"]
    again.settled("v2")
    assert beside.answers() == 2


def test_what_is_not_wanted_any_more_is_not_fetched_for_having_been_served(
    beside: Beside, host: FileHost, models: Path
) -> None:
    two = of_model(host, models, 2)
    host.faults["/2/model.onnx"] = hosts.unavailable
    beside.want(of_model(host, models, 1))
    keeper, server = beside.keep(**SOON), beside.serve()
    keeper.settled("v1")
    beside.want(two)
    keeper.until(lambda state: state.versions[0].failure is not None, "v2 to fail")
    keeper.kill()
    beside.end(server)
    (file,) = beside.pod.models.glob("*/model/model.onnx")
    file.chmod(0o644)
    file.write_bytes(b"changed")
    again = beside.keep(**SOON)
    beside.serve()
    asked = len(host.asked)
    clients.wait_for(lambda: len(host.asked) > asked + 3, "v2 to be asked for", DEADLINE_SECONDS)
    assert again.state is not None
    assert again.state.serving == ""
    assert {asked.path for asked in host.asked[1:]} == {"/2/model.onnx"}
    del host.faults["/2/model.onnx"]
    again.settled("v2")
    assert len(beside.pod.kept()) == 1


def test_a_file_that_was_changed_on_the_node_is_fetched_again_before_it_is_served(
    beside: Beside, host: FileHost, models: Path
) -> None:
    beside.want(of_model(host, models, 1))
    keeper, server = beside.keep(), beside.serve()
    keeper.settled("v1")
    keeper.kill()
    beside.end(server)
    (file,) = beside.pod.models.glob("*/model/model.onnx")
    file.chmod(0o644)
    file.write_bytes((models / "9/model.onnx").read_bytes())
    again = beside.keep()
    beside.serve()
    again.settled("v1")
    assert beside.answers() == 1
    assert len(host.asked) == 2


def test_a_model_that_a_server_cannot_load_is_verified_and_fetched_again(
    beside: Beside, host: FileHost, models: Path
) -> None:
    """The server alone has been killed, after the disk went bad below a keeper that goes on."""
    beside.want(of_model(host, models, 1))
    keeper, server = beside.keep(), beside.serve()
    keeper.settled("v1")
    beside.end(server)
    (file,) = beside.pod.models.glob("*/model/model.onnx")
    file.chmod(0o644)
    file.write_bytes(b"\0" * 1000)
    beside.serve()
    keeper.until(lambda state: not state.settled, "the keeper to see it")
    keeper.settled("v1")
    assert beside.answers() == 1
    assert len(host.asked) == 2


def test_a_version_that_does_not_load_is_told_and_the_old_one_serves(
    beside: Beside, host: FileHost, models: Path
) -> None:
    bad = version("v2", 2, *host.add("/bad.onnx", b"no model"))
    beside.want(of_model(host, models, 1))
    keeper = beside.keep(**SOON)
    beside.serve()
    keeper.settled("v1")
    with beside.load() as load:
        beside.want(bad)
        state = keeper.until(lambda state: state.versions[0].phase == "Failed", "v2 to fail")
        load.more()
        assert (state.serving, state.settled) == ("v1", False)
        assert state.versions[0].failure is not None
        assert state.versions[0].failure.reason == "ModelInvalid"
        assert len(beside.pod.kept()) == 2, "the files of what serves stay"
        beside.want(of_model(host, models, 3))
        keeper.settled("v3")
    assert (load.faults, set(load.answers)) == ([], {1, 3})
    assert [asked.path for asked in host.asked] == ["/1/model.onnx", "/bad.onnx", "/3/model.onnx"]


def test_what_cannot_be_trusted_is_refused_once_and_the_old_version_serves(
    beside: Beside, host: FileHost, models: Path
) -> None:
    url, _ = host.add("/2.onnx", (models / "2/model.onnx").read_bytes())
    hostile, digest = host.add("/hostile.tar", tar_of({"../escaped": b"x"}))
    beside.want(of_model(host, models, 1))
    keeper = beside.keep(**SOON)
    beside.serve()
    keeper.settled("v1")

    def failed(reason: str) -> KeeperState:
        def has_failed(state: KeeperState) -> bool:
            failure = state.versions[0].failure
            return state.versions[0].phase == "Failed" and failure is not None and failure.reason == reason

        return keeper.until(has_failed, reason)

    beside.want(version("v2", 2, url, "0" * 64))
    assert failed("ChecksumMismatch").serving == "v1"
    beside.want(version("v3", 3, hostile, digest))
    assert failed("ArchiveEscapes").serving == "v1"
    lines = len(keeper.log.read_bytes().splitlines())
    clients.wait_for(lambda: beside.answers() == 1, "v1 to serve", DEADLINE_SECONDS)
    assert [asked.path for asked in host.asked] == ["/1/model.onnx", "/2.onnx", "/hostile.tar"]
    assert not (beside.pod.models / "escaped").exists()
    assert len(keeper.log.read_bytes().splitlines()) == lines, "nothing is said twice"
    beside.want(of_model(host, models, 2))
    keeper.settled("v2")


def test_a_download_that_is_not_wanted_any_more_is_given_up_and_removed(
    beside: Beside, host: FileHost, models: Path
) -> None:
    big = version("big", 5, *host.add("/big.onnx", b"\0" * 5_000_000))
    host.faults["/big.onnx"] = hosts.slow(100_000, 0.1)
    beside.want(of_model(host, models, 1))
    keeper = beside.keep()
    beside.serve()
    keeper.settled("v1")
    beside.want(big)
    fetching = keeper.until(lambda state: state.versions[0].progress is not None, "progress")
    assert fetching.versions[0].phase == "Fetching"
    assert fetching.versions[0].progress is not None
    assert fetching.versions[0].progress.bytes_total == 5_000_000
    beside.want(of_model(host, models, 2))
    keeper.settled("v2")
    assert len(beside.pod.kept()) == 1
    assert host.bytes_sent < 5_000_000


def test_servers_that_stall_lie_or_break_are_asked_again_until_all_is_there(
    beside: Beside, host: FileHost, models: Path
) -> None:
    beside.want(of_model(host, models, 1))
    host.faults["/1/model.onnx"] = hosts.stalls_after(0)
    keeper = beside.keep(**SOON)
    beside.serve()

    def has_failed(reason: str) -> None:
        keeper.until(lambda state: getattr(state.versions[0].failure, "reason", "") == reason, reason)

    has_failed("DownloadStalled")
    host.faults["/1/model.onnx"] = hosts.lies_about_its_length
    has_failed("DownloadCut")
    host.faults["/1/model.onnx"] = hosts.unavailable
    has_failed("DownloadUnavailable")
    asked = len(host.asked)
    clients.wait_for(lambda: len(host.asked) > asked + 6, "it to be asked again and again", DEADLINE_SECONDS)
    del host.faults["/1/model.onnx"]
    keeper.settled("v1")
    assert beside.answers() == 1


def test_a_cut_link_is_waited_for_and_the_download_goes_on_where_it_was(beside: Beside, models: Path) -> None:
    content = bytes(range(256)) * 40_000
    with file_host() as host:
        wanted = version("v1", 1, *host.add("/m.tar", tar_of({"m.bin": content})))
        whole = len(host.files["/m.tar"])
        host.faults["/m.tar"] = hosts.slow(1_000_000, 0.2)
        beside.want(wanted)
        keeper = beside.keep(**SOON)
        clients.wait_for(lambda: host.bytes_sent > 3_000_000, "a part to come", DEADLINE_SECONDS)
    port, before = host.port, host.bytes_sent
    keeper.until(lambda state: getattr(state.versions[0].failure, "reason", "") == "DownloadUnreachable", "the cut")
    keeper.kill()
    again = beside.keep(**SOON)
    with file_host(port) as host:
        host.add("/m.tar", tar_of({"m.bin": content}))
        again.until(lambda state: state.versions[0].phase == "Loading", "all to be there")
        assert all(asked.start > 0 for asked in host.asked)
        assert before + host.bytes_sent < whole + 3_000_000


def test_one_content_under_two_names_comes_once(beside: Beside, host: FileHost, models: Path) -> None:
    one = of_model(host, models, 1)
    other = version("other", 2, one.source.url, one.source.sha256sum)  # type: ignore[union-attr]
    beside.want(one, other)
    keeper = beside.keep()
    beside.serve()
    keeper.settled("other")
    assert (len(host.asked), len(beside.pod.kept())) == (1, 1)
    beside.want(one)
    keeper.settled("v1")
    assert len(host.asked) == 1


def test_a_version_of_the_same_name_with_other_content_is_taken_over(
    beside: Beside, host: FileHost, models: Path
) -> None:
    beside.want(of_model(host, models, 1))
    keeper = beside.keep()
    beside.serve()
    before = keeper.settled("v1")
    renewed = version("v1", 1, *host.add("/renewed/model.onnx", (models / "2/model.onnx").read_bytes()))
    beside.want(renewed)
    keeper.until(lambda state: state.task != before.task and state.settled, "the new content to be served")
    with Client(beside.port) as client:
        _, headers, answer = client.ask("POST", "/v1/models/times:predict", {"instances": [[1, 0]]})
    assert (headers["X-Model-Version"], answer["predictions"]) == ("v1", [[2, 0]])
    assert len(beside.pod.kept()) == 1


def test_a_task_that_cannot_be_read_changes_nothing(beside: Beside, host: FileHost, models: Path) -> None:
    beside.want(of_model(host, models, 1))
    keeper = beside.keep()
    beside.serve()
    keeper.settled("v1")
    beside.show(b"{}")
    state = keeper.until(lambda state: state.failure is not None, "the fault")
    assert state.failure is not None
    assert (state.failure.reason, state.serving, state.settled) == ("TaskInvalid", "v1", False)
    beside.want(of_model(host, models, 2))
    keeper.settled("v2")


def test_a_second_keeper_waits_for_the_end_of_the_first(beside: Beside, host: FileHost, models: Path) -> None:
    beside.want(of_model(host, models, 1))
    first = beside.keep()
    beside.serve()
    first.settled("v1")
    second = beside.keep()
    state = second.until(lambda state: state.failure is not None, "the second to wait")
    assert state.failure is not None
    assert state.failure.reason == "ModelsInUse"
    first.kill(signal.SIGTERM)
    second.settled("v1")
