"""`agent keep` beside a real server: the sidecar of a serving Pod at the edge."""

from __future__ import annotations

from pathlib import Path

from tests.integration.serving_agent.beside import Beside
from tests.integration.serving_agent.hosts import FileHost
from tests.integration.serving_agent.pod import version

from modelwright.ports.workloads import ServedVersion


def of_model(host: FileHost, models: Path, number: int, path: str = "") -> ServedVersion:
    """The model that multiplies by the number, to be downloaded."""
    content = (models / str(number) / "model.onnx").read_bytes()
    return version(f"v{number}", number, *host.add(path or f"/{number}/model.onnx", content))


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
    assert load.answers == sorted(load.answers)
    assert len(beside.pod.kept()) == 1
    assert [asked.path for asked in host.asked] == ["/1/model.onnx", "/2/model.onnx"]
