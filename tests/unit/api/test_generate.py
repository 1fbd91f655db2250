"""What is generated is up to date, and what is stale is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from modelwright.api.generate import crds_yaml, generated, main, stale, write
from modelwright.api.kinds import KINDS

ROOT = Path(__file__).parents[3]


def test_the_files_of_this_checkout_are_up_to_date() -> None:
    assert stale(ROOT) == []


def test_stale_missing_and_left_over_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    assert main(["--check", "--root", str(tmp_path)]) == 0
    (tmp_path / "docs" / "reference.md").write_text("old")
    (tmp_path / "deploy" / "crds" / "models.model.kubedl.io.yaml").unlink()
    (tmp_path / "deploy" / "crds" / "gone.yaml").write_text("")
    assert main(["--check", "--root", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    for path in ("docs/reference.md", "deploy/crds/models.model.kubedl.io.yaml", "deploy/crds/gone.yaml"):
        assert f"stale: {path}" in said
    assert main(["--root", str(tmp_path)]) == 0
    assert stale(tmp_path) == []


def test_the_same_is_generated_each_time() -> None:
    assert list(generated()) == list(generated())


def test_the_stream_of_crds_has_one_document_per_kind() -> None:
    names = [document["metadata"]["name"] for document in yaml.safe_load_all(crds_yaml())]
    assert names == [kind.crd_name for kind in KINDS]


def test_the_reference_names_every_field_and_never_the_misspelling_as_one() -> None:
    page = dict(generated())["docs/reference.md"]
    for field in ("spec.storage.AWSEfs.volumeHandle", "spec.manifest[].downloadURL", "spec.manifest[].sha256sum"):
        assert f"| `{field}` |" in page
    assert "| `spec.fraemworkType`" not in page
    assert "write frameworkType" in page
