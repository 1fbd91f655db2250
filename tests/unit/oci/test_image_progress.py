"""How progress is shown where there is no terminal."""

from __future__ import annotations

import io

import pytest

from modelwright.cli.image_progress import Shown
from modelwright.cli.units import readable


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_500_000_000, "1.5 GB"), (3 * 10**15, "3000.0 TB")],
)
def test_sizes_are_readable(size: int, text: str) -> None:
    assert readable(size) == text


def test_a_log_gets_plain_lines() -> None:
    out = io.StringIO()
    with Shown(out) as shown:
        shown.planned(2_000_000, 3)
        shown.hashed(1_000_000)
        shown.moved(2_000_000)
    assert out.getvalue() == "2.0 MB to move in 3 layers\n"


def test_a_pull_says_how_much_there_is_once() -> None:
    out = io.StringIO()
    with Shown(out) as shown:
        shown.at(10, 1000)
        shown.at(1000, 1000)
    assert out.getvalue() == "1.0 kB to move\n"
