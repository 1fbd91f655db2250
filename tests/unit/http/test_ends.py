"""How a process says that it could not start."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelwright.http.listening import open_listener
from modelwright.http.termination import write_failure
from modelwright.ports.errors import Unavailable
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


def test_an_address_that_is_not_ours_is_said() -> None:
    with pytest.raises(Unavailable, match="cannot listen") as caught:
        open_listener(None, "192.0.2.1", 0)
    assert caught.value.reason == "CannotListen"


def test_a_port_in_use_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(Unavailable, match="choose another") as caught:
        open_listener(None, "127.0.0.1", other.getsockname()[1])
    assert caught.value.reason == "PortInUse"
