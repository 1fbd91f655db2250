"""The commands of the README, as a reader would run them."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.tour import ROOT, steps, walk


def test_the_five_minute_tour_works_as_it_is_written(tmp_path: Path) -> None:
    walked = steps(ROOT / "README.md", "Five minutes")
    printed = dict(zip((step.command for step in walked), walk(walked, tmp_path), strict=True))
    assert len(walked) >= 15
    assert "data set: dataset/digits" in printed["modelwright lineage jis/digits"]
    assert "accuracy" in printed["modelwright diff digits-cloud-v1 digits-cloud-v2"]
