"""The pages that lead through the program, as a reader would follow them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.tour import ROOT, missing, steps, walk

PAGES = [ROOT / "docs" / name for name in ("training.md", "lineage.md", "serving.md", "joint-inference.md")]


def test_the_tour_through_the_docs_works_as_it_is_written(tmp_path: Path) -> None:
    walked = [step for page in PAGES for step in steps(page)]
    assert all(sum(step.page == page.name for step in walked) >= 8 for page in PAGES)
    walk(walked, tmp_path)


@pytest.mark.parametrize(
    ("shown", "printed", "absent"),
    [
        ("accuracy 0.960 on 719 digits", "accuracy 0.958 on 719 digits", ""),
        ("accuracy 0.960 on 719 digits", "accuracy 0.960 on 720 digits", "accuracy 0.960 on 719 digits"),
        ("at http://127.0.0.1:7817/v2", "at http://127.0.0.1:40123/v2", ""),
        ("image hub/m:v12ab3  sha256:0123", "image   hub/m:v99ff01   sha256:456789abcdef", ""),
        ("first … last", "first, and much more, last", ""),
        ("a (b)", "a b", "a (b)"),
    ],
)
def test_what_a_page_shows_is_compared_but_for_what_differs_each_time(shown: str, printed: str, absent: str) -> None:
    assert missing((shown,), printed) == absent


def test_what_a_page_shows_is_looked_for_in_its_order() -> None:
    assert missing(("a", "c"), "a\nb\nc") == ""
    assert missing(("c", "a"), "a\nb\nc") == "a"
