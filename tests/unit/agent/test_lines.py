"""What several processes print, told apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modelwright.agent.lines import Lines


def test_lines_are_marked_and_a_part_of_one_waits_for_its_end() -> None:
    lines = Lines(b"w: ")
    assert lines.feed(b"one\ntw") == b"w: one\n"
    assert lines.feed(b"o\n\n") == b"w: two\nw: \n"
    assert lines.feed(b"rest") == b""
    assert (lines.end(), lines.end()) == (b"w: rest\n", b"")


def test_a_line_without_an_end_is_broken() -> None:
    lines = Lines(b"", longest=4)
    assert lines.feed(b"123456789") == b"1234\n5678\n"
    assert lines.end() == b"9\n"


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 12))
def test_nothing_is_lost_or_torn_or_longer_than_it_may_be(pieces: list[bytes], longest: int) -> None:
    lines = Lines(b"", longest)
    out = b"".join([*(lines.feed(piece) for piece in pieces), lines.end()])
    data = b"".join(pieces)
    assert out.replace(b"\n", b"") == data.replace(b"\n", b"")
    assert all(len(line) <= longest for line in out.split(b"\n"))
    if all(len(line) < longest for line in data.split(b"\n")):
        assert out == data + (b"\n" if data and not data.endswith(b"\n") else b"")
