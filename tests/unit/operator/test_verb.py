"""The verb's options and variables, held against its own definition."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from modelwright.main import make_app
from modelwright.operator.settings import OperatorSettings
from modelwright.ports.errors import NotFound

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
        ("--plain-http=http://registry", "HOST or HOST:PORT"),
        ("--allow-host-path=models", "absolute path"),
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
