"""The Dockerfile of a Kaniko build."""

from __future__ import annotations

import pytest

from modelwright.agent.dockerfile import dockerfile
from modelwright.oci.reference import parse
from modelwright.ports.errors import Invalid


def test_it_copies_the_whole_context_upon_nothing() -> None:
    assert dockerfile(None, {"modelwright.dev/model-version-uid": "1-2"}) == (
        "FROM scratch\n"
        "ENV KUBEDL_MODEL_PATH=/kubedl-model\n"
        'LABEL "modelwright.dev/model-version-uid"="1-2"\n'
        "COPY --chown=0:0 --chmod=0755 . /kubedl-model/\n"
    )


def test_the_base_image_is_named_in_full() -> None:
    text = dockerfile(parse("busybox:1.36", default_host="docker.io"), {})
    assert text.startswith("FROM docker.io/library/busybox:1.36\nENV ")


@pytest.mark.parametrize("value", ['a"', "a\nRUN id", "$HOME", "a\\", "a b"])
def test_a_label_cannot_become_an_instruction(value: str) -> None:
    with pytest.raises(Invalid):
        dockerfile(None, {"x": value})
