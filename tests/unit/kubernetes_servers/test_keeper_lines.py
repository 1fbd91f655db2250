"""What is believed of a log."""

from __future__ import annotations

import hashlib

from hypothesis import given, settings
from hypothesis import strategies as st

from modelwright.adapters.kubernetes.servers.keeper_lines import digest, gateway_state, keeper_state
from modelwright.ports.workloads import AskedModel, Failure

KEEPER = b'{"keeper":1,"task":"d","serving":"v1","settled":true,"versions":[{"version":"v1","phase":"Ready"}]}'
GATEWAY = (
    b'{"pid":7,"phase":"ready","configDigest":"d","keptBytes":3,"edge":{"state":"ready"},'
    b'"cloud":{"state":"failing","reason":"NotReady","message":"503"}}'
)


def test_the_last_state_counts_whatever_stands_around_it() -> None:
    text = b"\n".join([b'{"keeper":1,"task":"c"}', KEEPER, b"for people", b'{"other":1}', b'{"keeper":1,"task":"e", '])
    state = keeper_state(text)
    assert state is not None
    assert (state.task, state.serving, state.settled) == ("d", "v1", True)


def test_what_is_no_state_says_nothing() -> None:
    for text in (b"", b"{}", b'{"keeper":2,"task":"d"}', b'{"keeper":1}', b"[" * 100_000, b'x{"keeper":1,"task":"d"}'):
        assert keeper_state(text) is None
        assert gateway_state(text) is None


def test_a_gateway_says_what_it_runs_and_whom_it_has_asked() -> None:
    state = gateway_state(b"ready\n" + GATEWAY)
    assert state is not None
    assert (state.config_digest, state.kept_bytes, state.refused) == ("d", 3, None)
    failure = Failure(reason="NotReady", message="503", retryable=True)
    assert state.asked == (AskedModel(side="edge"), AskedModel(side="cloud", failure=failure))


def test_a_task_is_named_by_the_sha256_of_its_file() -> None:
    assert digest('{"a": "ü"}') == hashlib.sha256('{"a": "ü"}'.encode()).hexdigest()


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_nothing_that_is_printed_breaks_the_reading(text: bytes) -> None:
    assert keeper_state(text + b"\n" + KEEPER) is not None
