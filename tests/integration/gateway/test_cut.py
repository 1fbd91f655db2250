"""A cloud that cannot be reached, in the ways of a cut link: nothing refuses, nothing answers."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import pytest
from tests.integration.gateway.conftest import EASY, HARD, Client, Site

Shared = Callable[[str], int]


@contextlib.contextmanager
def full_backlog() -> Iterator[int]:
    """A port whose SYNs are dropped: as many wait to be accepted as may."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(listener.getsockname())
        yield listener.getsockname()[1]


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """A port where connections are made, and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(("cut", "scheme"), [(full_backlog, "http"), (silent, "http"), (silent, "https")])
def test_every_request_is_answered_by_the_edge(
    site: Site, shared: Shared, cut: Callable[[], contextlib.AbstractContextManager[int]], scheme: str
) -> None:
    with cut() as port:
        site.configure(shared("onnx-0"), f"{scheme}://127.0.0.1:{port}/v1/models/m", timeoutSeconds=0.5)
        gateway = site.gateway().ready()
        gateway.shows(lambda state: state.edge.state == "ready", "the edge model to be known")
        with Client(gateway.port) as client:
            found = [client.predict(EASY, HARD) for _ in range(15)]
        assert [(answer.status, answer.by) for answer in found] == [(200, "edge")] * 15
        fallbacks = {answer.headers["X-Fallback"] for answer in found}
        assert fallbacks <= {"cloud TimedOut", "cloud BreakerOpen"}
        assert "cloud BreakerOpen" in fallbacks
        assert (
            gateway.shows(lambda state: state.cloud.state == "failing", "the cloud to be missed").edge.state == "ready"
        )
        assert gateway.server.end() == 0
