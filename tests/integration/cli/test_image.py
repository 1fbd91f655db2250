"""The image verbs against the registry inside `modelwright up`, as a user types them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.registries import TOKEN, embedded_registry
from typer.testing import CliRunner, Result

from modelwright.cli import image


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """Host and port of a registry that takes a token for pushes."""
    with embedded_registry(tmp_path / "registry") as host:
        yield host


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"weights")
    return folder


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture(autouse=True)
def no_docker_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))


def run(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(image.app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def test_the_token_of_the_control_plane_is_a_login(registry: str, model: Path, token: Path, tmp_path: Path) -> None:
    reference = f"{registry}/hub/model:v1"
    refused = run("build", model, reference, code=1)
    assert "--token-file DATA_DIR/token" in refused.stderr
    assert TOKEN not in refused.output

    built = run("build", model, reference, "--token-file", token)
    assert "1 of 1 layer uploaded" in built.stderr
    assert "in 1 layer\n" in run("inspect", reference).stdout
    assert "1 file, " in run("pull", reference, tmp_path / "out").stderr
    pruned = run("prune", f"{registry}/hub/model", "--keep", "v2", "--token-file", token)
    assert pruned.stderr.startswith("1 tag and 4 manifests removed")
    assert built.stdout.startswith("sha256:")


def test_a_login_file_that_cannot_be_read_is_named(registry: str, model: Path, tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert str(missing) in run("build", model, f"{registry}/hub/m:v1", "--token-file", missing, code=1).stderr


@pytest.mark.parametrize("reference", ["hub/model:v1", "127.0.0.1:1/HUB/model:v1"])
def test_a_wrong_reference_is_said_before_anything_is_read(model: Path, reference: str) -> None:
    assert "to move" not in run("build", model, reference, code=1).stderr


def test_help_spells_references_whole() -> None:
    assert "HOST/REPOSITORY[:TAG][@DIGEST]" in run("inspect", "--help").stdout
