"""Which words of `modelwright lineage` mean an image in a registry, and which a thing in the control plane."""

from __future__ import annotations

import gc

import pytest

from modelwright.cli.lineage import _collector_off, _is_image


@pytest.mark.parametrize(
    "word",
    [
        "127.0.0.1:7817/modelhub/resnet:v1",
        "registry.example.com/a/b",
        "registry.example.com/a/b@sha256:" + "ab" * 32,
        "localhost/a:v1",
        "modelhub/resnet:v1",
        "modelhub/resnet@sha256:" + "ab" * 32,
    ],
)
def test_what_has_a_host_a_tag_or_a_digest_is_an_image(word: str) -> None:
    assert _is_image(word)


@pytest.mark.parametrize(
    "word",
    [
        "digits",
        "mv/digits",
        "mv/digits:v1",
        "modelversion.model.kubedl.io/digits",
        "dataset/ab12cd34ef56",
        "file/v1@ab12cd34ef56",
        "image/registry.example.com/a/b:c",
        "pod/x",
        "/x",
        "",
    ],
)
def test_what_has_a_kind_or_no_place_is_none(word: str) -> None:
    assert not _is_image(word)


def test_the_garbage_collector_is_off_for_the_block_alone() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError, match="x"), _collector_off():
        assert not gc.isenabled()
        raise ValueError("x")
    assert gc.isenabled()
    gc.disable()
    try:
        with _collector_off():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
