"""How a process says that it could not start."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelwright.http.termination import write_failure
from modelwright.ports.job import TERMINATION_LIMIT, Report
from modelwright.ports.workloads import Failure


@given(st.text(max_size=40), st.sampled_from(["", "\x00", "é", "\ud800", '"', "x"]), st.integers(0, 9000))
@settings(max_examples=100, deadline=None)
def test_a_termination_message_always_fits(
    tmp_path_factory: pytest.TempPathFactory, text: str, more: str, count: int
) -> None:
    file = tmp_path_factory.mktemp("t") / "termination"
    write_failure(file, Failure("ModelInvalid", text + more * count, retryable=True))
    content = file.read_bytes()
    assert len(content) <= TERMINATION_LIMIT
    failure = msgspec.json.decode(content, type=Report).failure
    assert failure is not None
    assert (failure.reason, failure.retryable) == ("ModelInvalid", True)


def test_a_termination_file_that_cannot_be_written_is_no_second_failure(tmp_path: Path) -> None:
    write_failure(tmp_path, Failure("ModelInvalid", "x"))
    write_failure(None, Failure("ModelInvalid", "x"))
