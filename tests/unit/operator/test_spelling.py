"""Settings are read as they are spelled, and what makes no sense is refused before anything starts."""

from __future__ import annotations

import pytest

from modelwright.operator import spelling
from modelwright.ports.errors import Invalid
from modelwright.ports.workloads import Resources


def test_lists_may_be_repeated_and_hold_commas() -> None:
    assert spelling.items(["a, b", "c", "", "a"]) == ("a", "b", "c")
    assert spelling.items(None) == ()


@pytest.mark.parametrize(
    ("text", "seconds"), [("15", 15.0), ("15s", 15.0), ("1.5s", 1.5), ("200ms", 0.2), ("10m", 600.0), ("1h", 3600.0)]
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert spelling.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-1s", "15 s", "fifteen", "1d", "1e3", "1h30m", "٣s"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="length of time"):
        spelling.seconds(text)


def test_amounts_by_resource() -> None:
    text = "cpu=100m, memory=128Mi,nvidia.com/gpu=1,ephemeral-storage=1.5Gi"
    assert spelling.quantities(text) == {
        "cpu": "100m",
        "memory": "128Mi",
        "nvidia.com/gpu": "1",
        "ephemeral-storage": "1.5Gi",
    }
    assert spelling.quantities("") == spelling.quantities("none") == {}


@pytest.mark.parametrize(
    "text", ["cpu", "cpu=", "=1", "cpu:100m", "memory=128MiB", "CPU=1", "cpu=-1", "cpu=1 m", "none=", "none,cpu=1"]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not of the form"):
        spelling.quantities(text)


@pytest.mark.parametrize(
    ("request_", "limit", "fits"),
    [
        ("1Gi", "1024Mi", True),
        ("1Gi", "1G", False),
        ("100m", ".1", True),
        ("101m", "0.1", False),
        ("1e3", "1k", True),
        ("2E", "1Ei", False),
        ("0", "0", True),
    ],
)
def test_nothing_sets_more_aside_than_it_may_use(request_: str, limit: str, fits: bool) -> None:
    resources = Resources(requests={"memory": request_, "cpu": "64"}, limits={"memory": limit, "nvidia.com/gpu": "1"})
    if fits:
        spelling.check_resources(resources, "a gateway")
        return
    with pytest.raises(Invalid, match=f"a gateway sets memory={request_} aside, and may use memory={limit} at most"):
        spelling.check_resources(resources, "a gateway")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0.0.0.0:8080", ("0.0.0.0", 8080)),
        (":8080", ("::", 8080)),
        ("[::]:9", ("::", 9)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert spelling.address(text) == address


@pytest.mark.parametrize("text", ["8080", "a:b", "a:65536", "a:-1", "a:", "a:٣"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="HOST:PORT"):
        spelling.address(text)


def test_registries_are_hosts_without_scheme_or_path() -> None:
    assert spelling.registries(["r:5000,s"]) == ("r:5000", "s")
    for wrong in ("http://r:5000", "r/models"):
        with pytest.raises(Invalid, match="HOST or HOST:PORT"):
            spelling.registries([wrong])


def test_folders_are_absolute() -> None:
    assert spelling.folders(["/data,/mnt/models"]) == ("/data", "/mnt/models")
    for wrong in ("data", "/data/../etc"):
        with pytest.raises(Invalid, match="absolute path"):
            spelling.folders([wrong])
