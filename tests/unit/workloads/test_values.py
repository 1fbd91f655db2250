"""Pure parts: quantities, expansion, plans, mounts, waiting."""

from __future__ import annotations

import contextlib
import socket
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwright.adapters.embedded.workloads import amounts, program
from modelwright.adapters.embedded.workloads.addresses import Ports, is_free
from modelwright.adapters.embedded.workloads.replica import expand
from modelwright.adapters.embedded.workloads.timing import Backoff
from modelwright.ports import quantity
from modelwright.ports.errors import Invalid
from modelwright.ports.workloads import (
    Download,
    ModelServer,
    Owner,
    Resources,
    ServedVersion,
    Server,
)

OWNER = Owner(api_version="v1", kind="InferenceModel", namespace="default", name="m", uid="uid")
replace = msgspec.structs.replace


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("256Mi", Fraction(256 * 1024**2)),
        ("1G", Fraction(10**9)),
        ("2e3", Fraction(2000)),
        ("1E", Fraction(10**18)),
        ("100n", Fraction(1, 10**7)),
    ],
)
def test_quantities_are_read_as_kubernetes_writes_them(text: str, value: Fraction) -> None:
    assert quantity.parse(text, "x") == value


@pytest.mark.parametrize("text", ["", "-1", "1 Gi", "1KiB", "one", "1e", "1mm", "0x10", "\u0661", "9" * 5000, "1e1000"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="limits"):
        quantity.parse(text, "limits")


@given(st.text())
def test_any_text_is_a_quantity_or_invalid(text: str) -> None:
    try:
        assert quantity.parse(text, "x") >= 0
    except Invalid:
        pass


def test_limits_become_bytes_and_threads() -> None:
    resources = Resources(limits={"memory": "1Ki", "cpu": "1500m"})
    assert (amounts.memory_limit(resources), amounts.threads(resources)) == (1024, 2)
    assert (amounts.memory_limit(Resources()), amounts.threads(Resources())) == (0, 0)
    assert amounts.threads(Resources(limits={"cpu": "10m"})) == 1


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)-$(B)", "1-$(B)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $(A", "$A ${A} $(A"),
        ("", ""),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


def test_pauses_grow_to_a_limit_and_begin_anew() -> None:
    backoff = Backoff(1.0, 10.0)
    pauses = []
    for _ in range(6):
        backoff.failed(100.0)
        pauses.append(backoff.not_before - 100.0)
    for pause, ideal in zip(pauses, (1, 2, 4, 8, 10, 10), strict=True):
        assert ideal * 0.9 <= pause <= ideal * 1.1
    backoff.reset()
    assert (backoff.failures, backoff.not_before) == (0, 0.0)


# Plans --------------------------------------------------------------------------------------------------------------


def a_server(*names: str, in_place: bool = False) -> tuple[Server, ModelServer]:
    versions = tuple(ServedVersion(name, number, Download(f"http://x/{name}")) for number, name in enumerate(names, 1))
    wanted = ModelServer(model_name="m", framework="onnx", versions=versions, default=names[-1], in_place=in_place)
    return Server(name="server", owner=OWNER, program=wanted), wanted


def plan(
    names: tuple[str, ...],
    here: tuple[str, ...],
    *,
    in_place: bool = False,
    served: ServedVersion | None = None,
    port: int = 80,
) -> program.Plan | None:
    server, wanted = a_server(*names, in_place=in_place)
    folders = {name: Path("/models") / name for name in here}
    return program.plan_models(server, wanted, port=port, folders=folders, served=served, command=("serve",))


def test_nothing_is_started_before_the_default_is_here() -> None:
    assert plan(("v1", "v2"), ("v1",)) is None
    found = plan(("v1", "v2"), ("v2",))
    assert found
    assert (found.default, [version.version for version in found.versions]) == ("v2", ["v2"])


def test_any_change_makes_another_generation_unless_it_is_loaded_in_place() -> None:
    first, second = plan(("v1",), ("v1",)), plan(("v2",), ("v2",))
    assert first
    assert second
    assert first.key != second.key
    assert plan(("v1",), ("v1",)) == first
    placed, switched = plan(("v1",), ("v1",), in_place=True), plan(("v2",), ("v2",), in_place=True)
    assert placed
    assert switched
    assert placed.key == switched.key
    assert placed.config != switched.config
    moved = plan(("v1",), ("v1",), in_place=True, port=81)
    assert moved
    assert moved.key != placed.key


def test_in_place_what_was_served_is_kept_until_the_new_default_is_here() -> None:
    served = ServedVersion("v1", 1, Download("http://x/v1"))
    waiting = plan(("v2",), ("v1",), in_place=True, served=served)
    assert waiting
    assert (waiting.default, [version.version for version in waiting.versions]) == ("v1", ["v1"])
    both = plan(("v2",), ("v1", "v2"), in_place=True, served=served)
    assert both
    assert both.default == "v2"
    assert [(version.version, version.number) for version in both.versions] == [("v2", 1), ("v1", 2)]
    rolled = plan(("v2",), ("v1",), served=served)
    assert rolled is None


# Ports --------------------------------------------------------------------------------------------------------------


def test_ports_are_free_and_promised_once() -> None:
    ports = Ports()
    first, second = ports.take(40), ports.take(40)
    assert len({*first, *second}) == 80
    with socket.create_server(("127.0.0.1", first[0])):
        ports.give_back(first)
        assert first[0] not in ports.take(200)


def test_a_port_that_somebody_has_on_any_address_is_not_free() -> None:
    with socket.create_server(("", 0)) as server:
        assert not is_free(server.getsockname()[1])
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        assert not is_free(server.getsockname()[1])  # where there is such an address
