"""The verb's options and variables, held against its own definition."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from modelwright import __version__
from modelwright.main import make_app
from modelwright.operator.settings import OperatorSettings
from modelwright.ports.errors import NotFound
from modelwright.ports.workloads import Resources

ROOT = Path(__file__).parents[3]
RUNNER = CliRunner()


def parameters() -> dict[str, str]:
    """Each option's name, and the variable that stands for it."""
    verb = get_command(make_app()).commands["operator"]  # type: ignore[attr-defined]
    return {each.opts[0]: str(each.envvar or "") for each in verb.params if each.name != "help"}


def test_every_option_is_a_variable_too() -> None:
    for name, variable in parameters().items():
        assert variable == "MODELWRIGHT_" + name.removeprefix("--").upper().replace("-", "_")


def test_every_option_has_its_row_in_the_docs() -> None:
    text = (ROOT / "docs/operator.md").read_text()
    assert [name for name in parameters() if f"| `{name}" not in text] == []
    assert len(parameters()) > 20, "the search itself must go on working"


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--listen=8080", "HOST:PORT"),
        ("--lease-duration=soon", "length of time"),
        ("--lease-renew-deadline=20s", "must be longer"),
        ("--build-limits=memory", "not of the form"),
        ("--build-requests=memory=2Gi", "memory=1Gi at most"),
        ("--agent-limits=memory:1Gi", "not of the form"),
        ("--agent-requests=memory=1Gi", "the agent sets memory=1Gi aside, and may use memory=512Mi at most"),
        ("--gateway-limits=1Gi", "not of the form"),
        ("--gateway-requests=memory=2Gi", "a gateway sets memory=2Gi aside"),
        ("--plain-http=http://registry", "HOST or HOST:PORT"),
        ("--allow-host-path=models", "absolute path"),
        ("--edge-folder=models", "absolute path"),
        ("--edge-folder=/etc/modelwright", "folder for data"),
        ("--edge-folder=/", "folder for data"),
        ("--progress-deadline=500ms", "whole seconds"),
        ("--cluster-domain=cluster_local", "DNS domain"),
        ("--tensorflow-server=torch", "torch"),
        ("--log-format=xml", "xml"),
        ("--run-as-user=0", "--run-as-user"),
    ],
)
def test_what_is_spelled_wrong_is_a_usage_error_that_names_the_option(option: str, told: str) -> None:
    result = RUNNER.invoke(
        make_app(), ["operator", "--agent-image=a:1", option], env={"TERM": "dumb", "COLUMNS": "300"}
    )
    assert result.exit_code == 2
    assert told in result.output
    assert option.partition("=")[0].replace("renew-deadline", "duration") in result.output


def test_a_wrong_variable_is_told_as_the_option() -> None:
    environment = {"MODELWRIGHT_AGENT_IMAGE": "a:1", "MODELWRIGHT_RESYNC": "often", "COLUMNS": "300"}
    result = RUNNER.invoke(make_app(), ["operator"], env=environment)
    assert result.exit_code == 2
    assert "--resync" in result.output


def test_outside_of_a_cluster_a_kubeconfig_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from modelwright.adapters.kubernetes.workloads.settings import JobSettings

    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NotFound, match="--kubeconfig") as told:
        OperatorSettings(jobs=JobSettings(agent_image="a:1")).access()
    assert told.value.reason == "NotInCluster"


def test_what_is_said_of_servers_reaches_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from modelwright.adapters.kubernetes.access import Access

    (tmp_path / "mine.yaml").write_text("{framework: mine, image: 'mine:1', readyPath: /ready}")
    settings = told(
        monkeypatch,
        "--plain-http=registry:5000",
        "--sklearn-image=registry:5000/sklearn:1",
        "--tensorflow-server=modelwright",
        "--server-pull-secret=a,b",
        "--edge-folder=/data/models/",
        "--no-image-volumes",
        "--agent-limits=cpu=1,memory=1Gi",
        "--gateway-requests=none",
        "--progress-deadline=90s",
        f"--runtimes={tmp_path}",
    )
    serving = settings.servers(Access("https://cluster", "a test", namespace="ours"))
    assert serving is not None
    assert (serving.agent_image, serving.gateway_image) == ("a:1", f"modelwright/gateway:{__version__}")
    assert (serving.plain_http, serving.image_pull_secrets) == (("registry:5000",), ("a", "b"))
    assert (serving.edge_folder, serving.image_volumes) == ("/data/models", False)
    assert (serving.progress_deadline_seconds, serving.namespace) == (90, "ours")
    assert serving.agent_resources == Resources({"cpu": "10m", "memory": "64Mi"}, {"cpu": "1", "memory": "1Gi"})
    assert serving.gateway_resources == Resources({}, {"memory": "1Gi"})
    catalogue = serving.catalogue
    assert catalogue.frameworks == {"mine", "onnx", "sklearn", "tensorflow"}
    assert catalogue.runtime("sklearn").image == "registry:5000/sklearn:1"
    assert catalogue.runtime("tensorflow").image == f"modelwright/server-tensorflow:{__version__}"
    assert catalogue.runtime("onnx").image == f"modelwright/server-onnx:{__version__}"


def test_an_operator_can_be_told_to_serve_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, "--no-serving").serving is None


def told(monkeypatch: pytest.MonkeyPatch, *options: str) -> OperatorSettings:
    """What the verb makes of its options; nothing is started, and the log stays as it was."""
    from modelwright.operator import verb

    monkeypatch.setattr(logging.root, "handlers", list(logging.root.handlers))
    monkeypatch.setattr(logging.root, "level", logging.root.level)
    monkeypatch.setattr(logging.getLogger("uvicorn"), "level", logging.getLogger("uvicorn").level)
    monkeypatch.setattr(logging, "raiseExceptions", True)
    given: list[OperatorSettings] = []
    monkeypatch.setattr(verb, "work", given.append)
    result = RUNNER.invoke(make_app(), ["operator", "--agent-image=a:1", *options])
    assert result.exit_code == 0, result.output
    return given[0]
