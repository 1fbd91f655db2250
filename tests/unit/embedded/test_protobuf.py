from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwright.adapters.embedded.apiserver.protobuf import decode_namespace
from modelwright.adapters.embedded.refusals import UnsupportedMediaType
from modelwright.ports.errors import Invalid


def field(number: int, content: bytes) -> bytes:
    assert len(content) < 128 * 128
    length = bytes([len(content)]) if len(content) < 128 else bytes([len(content) & 0x7F | 0x80, len(content) >> 7])
    return bytes([number << 3 | 2]) + length + content


def pair(key: str, value: str) -> bytes:
    return field(1, key.encode()) + field(2, value.encode())


def envelope(kind: str, metadata: bytes) -> bytes:
    type_meta = field(1, b"v1") + field(2, kind.encode())
    return (
        b"k8s\x00" + field(1, type_meta) + field(2, field(1, metadata) + field(2, b"")) + field(3, b"") + field(4, b"")
    )


def test_a_namespace_with_its_labels_and_annotations() -> None:
    metadata = field(1, "größe".encode()) + field(3, b"") + b"\x38\x07" + field(8, b"")
    metadata += field(11, pair("a", "b")) + field(11, pair("c", "")) + field(12, pair("note", "x" * 300))
    assert decode_namespace(envelope("Namespace", metadata)) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "größe", "labels": {"a": "b", "c": ""}, "annotations": {"note": "x" * 300}},
    }


def test_numbers_of_every_width_are_passed_over() -> None:
    metadata = b"\x38" + b"\xff" * 9 + b"\x01" + b"\x39" + b"x" * 8 + b"\x3d" + b"x" * 4 + field(2, b"gen-")
    assert decode_namespace(envelope("Namespace", metadata))["metadata"] == {"generateName": "gen-"}


def test_other_kinds_are_to_be_sent_as_json() -> None:
    with pytest.raises(UnsupportedMediaType, match="application/json"):
        decode_namespace(envelope("Pod", b""))


@pytest.mark.parametrize(
    "body",
    [
        b"", b"k8s", b"{}", b"k8s\x00\x0a\xff", b"k8s\x00\x0b", b"k8s\x00\x0a", b"k8s\x00" + b"\xff" * 11,
        envelope("Namespace", field(1, b"\xff")), envelope("Namespace", b"\x0a\x7f"), envelope("Namespace", b"\x39x"),
    ],
)  # fmt: skip
def test_what_is_broken_is_refused(body: bytes) -> None:
    with pytest.raises(Invalid, match="no valid protobuf"):
        decode_namespace(body)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_a_namespace_or_refused(metadata: bytes, rest: bytes) -> None:
    for body in (envelope("Namespace", metadata), b"k8s\x00" + rest, rest):
        try:
            assert decode_namespace(body)["kind"] == "Namespace"
        except Invalid as error:
            assert error.message
