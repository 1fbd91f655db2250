"""Where a process listens, and how it says that it cannot."""

from __future__ import annotations

import socket

import pytest

from modelwright.http.listening import authority, open_first, open_listener
from modelwright.ports.errors import Unavailable

NO_FAMILY = 255
"""No kernel has it: EAFNOSUPPORT."""
NOT_OURS = "2001:db8::1"
"""An address for documents, which no machine has: EADDRNOTAVAIL, as every IPv6 address where it is switched off."""
LOOPBACKS = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


def loopbacks() -> list[str]:
    """Those of this machine: not every one has IPv6."""
    found = []
    for family, address in LOOPBACKS.items():
        try:
            with socket.socket(family) as probe:
                probe.bind((address, 0))
        except OSError:
            continue
        found.append(address)
    return found


def asked_at(listener: socket.socket, address: str) -> bool:
    """Whether a connection to this address arrives at the listener."""
    with socket.create_connection((address, listener.getsockname()[1]), timeout=10) as client:
        accepted, _ = listener.accept()
        with accepted:
            accepted.sendall(b"here")
        return client.recv(4) == b"here"


def test_everywhere_is_each_address_of_both_families() -> None:
    with open_listener(None, "::", 0) as listener:
        assert [asked_at(listener, address) for address in loopbacks()] == [True] * len(loopbacks())
    assert "127.0.0.1" in loopbacks()


def test_an_address_of_one_family_is_that_alone() -> None:
    with open_listener(None, "0.0.0.0", 0) as listener:
        assert listener.family == socket.AF_INET
    with open_listener(None, "127.0.0.1", 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("missing", [(NO_FAMILY, "::"), (socket.AF_INET6, NOT_OURS)])
def test_without_ipv6_the_next_address_is_taken(missing: tuple[int, str]) -> None:
    with open_first((missing, (socket.AF_INET, "127.0.0.1")), 0) as listener:
        assert asked_at(listener, "127.0.0.1")


def test_what_is_wrong_with_the_last_one_is_said() -> None:
    with pytest.raises(Unavailable, match=r"cannot listen on 192\.0\.2\.1:0") as caught:
        open_first(((NO_FAMILY, "::"), (socket.AF_INET, "192.0.2.1")), 0)
    assert caught.value.reason == "CannotListen"


def test_an_address_that_is_not_ours_is_said() -> None:
    with pytest.raises(Unavailable, match="cannot listen") as caught:
        open_listener(None, "192.0.2.1", 0)
    assert caught.value.reason == "CannotListen"


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])
@pytest.mark.parametrize("theirs", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_another_has_is_said_whatever_family_it_has_it_of(host: str, theirs: str) -> None:
    with socket.create_server((theirs, 0)) as other, pytest.raises(Unavailable, match="choose another") as caught:
        open_listener(None, host, other.getsockname()[1])
    assert caught.value.reason == "PortInUse"


def test_no_fallback_hides_that_the_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(Unavailable) as caught:
        port = other.getsockname()[1]
        open_first(((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "127.0.0.2")), port)
    assert caught.value.reason == "PortInUse"


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert authority("::", 8501) == "[::]:8501"
    assert authority("0.0.0.0", 8501) == "0.0.0.0:8501"
