"""References, by the grammar of distribution-spec."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwright.oci import reference
from modelwright.oci.reference import Reference, parse
from modelwright.ports.errors import Invalid
from modelwright.ports.images import Digest

DIGEST = Digest("sha256:" + "0" * 64)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost/a", Reference("localhost", "a")),
        ("localhost:5000/a/b-c_d.e__f:v1", Reference("localhost:5000", "a/b-c_d.e__f", "v1")),
        ("registry.example.com/team/model:1.2-rc_3", Reference("registry.example.com", "team/model", "1.2-rc_3")),
        (f"[::1]:5000/a@{DIGEST}", Reference("[::1]:5000", "a", None, DIGEST)),
        (f"127.0.0.1:1/a:b@{DIGEST}", Reference("127.0.0.1:1", "a", "b", DIGEST)),
        ("docker.io/busybox:1", Reference("docker.io", "library/busybox", "1")),
        ("docker.io/team/model", Reference("docker.io", "team/model")),
    ],
)
def test_references_are_taken_apart_and_put_together(text: str, expected: Reference) -> None:
    assert parse(text) == expected
    assert parse(str(expected)) == expected


def test_a_repository_without_host_goes_to_the_default() -> None:
    assert parse("modelhub/resnet:v1c072", default_host="localhost:1") == Reference(
        "localhost:1", "modelhub/resnet", "v1c072"
    )
    assert parse("modelhub", default_host="localhost:1").name == "localhost:1/modelhub"


def test_no_registry_is_ever_assumed() -> None:
    with pytest.raises(Invalid) as caught:
        parse("modelhub/resnet:v1")
    assert caught.value.reason == "NoRegistry"
    assert "HOST/REPOSITORY" in caught.value.message


def test_the_digest_is_asked_for_before_the_tag() -> None:
    assert parse(f"localhost/a:v1@{DIGEST}").target == DIGEST
    assert parse("localhost/a:v1").target == "v1"
    assert parse("localhost/a").target == "latest"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost/",
        "localhost//a",
        "localhost/A",
        "localhost/a:",
        "localhost/a:.v",
        "localhost/a:" + "v" * 129,
        "localhost/a@",
        "localhost/a@sha256:00",
        "localhost/a..b",
        "localhost/a___b",
        "localhost/-a",
        "localhost/a/../b",
        "localhost/a b",
        "localhost/a\n",
        "localhost:x/a",
        "user@host.com/a",
        "http://localhost/a",
        "host..com/a",
        "-host.com/a",
        "[::1/a",
        "localhost/" + "a" * 256,
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse(text)


@given(st.text(max_size=300))
def test_any_text_is_a_reference_or_invalid(text: str) -> None:
    try:
        found = parse(text, default_host="localhost")
    except Invalid:
        return
    assert parse(str(found)) == found


@pytest.mark.parametrize(
    "text", ["a-" * 50_000 + "!", "localhost/" + "a" * 100_000 + ":", "0" * 100_000 + "/a", "a.b/" + "_" * 90_000]
)
def test_hostile_lengths_take_no_time(text: str) -> None:
    before = time.process_time()
    with pytest.raises(Invalid):
        parse(text, default_host="localhost")
    assert time.process_time() - before < 5


@pytest.mark.parametrize("host", ["localhost", "localhost:5000", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::1]:443"])
def test_hosts_of_this_machine(host: str) -> None:
    assert reference.is_loopback(host)


@pytest.mark.parametrize(
    "host", ["localhost.example.com", "127.0.0.1.example.com:80", "10.0.0.1", "[::2]", "example.com"]
)
def test_hosts_of_other_machines(host: str) -> None:
    assert not reference.is_loopback(host)
