"""The Dockerfile that Kaniko builds a model image from, and what it leaves out of the folder."""

from __future__ import annotations

import re

from modelwright.oci import folder, media
from modelwright.oci.reference import Reference
from modelwright.ports.errors import Invalid

_PLAIN = re.compile(r"[A-Za-z0-9._/-]*\Z")

IGNORED = f"{folder.PRIVATE}\n{folder.PRIVATE}/**\n"
"""Lies beside the Dockerfile, where it goes before a .dockerignore in the model's folder: that one is a file of the
model like any other, and hides nothing."""


def dockerfile(base: Reference | None, labels: dict[str, str]) -> str:
    """Copy the whole context to the model's folder, upon `base` or nothing.

    The instructions name no file, so that names need no quoting, and a Dockerfile in the context is a file like any
    other. Owner and mode are those of nobody's machine: everybody may read, whoever the files belong to. COPY has one
    mode for files and folders, so that files are executable too. Raises Invalid for labels that would need quoting.
    """
    said = [f'LABEL "{_plain(name)}"="{_plain(value)}"' for name, value in sorted(labels.items())]
    lines = [
        f"FROM {base or 'scratch'}",
        f"ENV {media.MODEL_PATH_VARIABLE}=/{media.MODEL_FOLDER}",
        *said,
        f"COPY --chown=0:0 --chmod=0755 . /{media.MODEL_FOLDER}/",
    ]
    return "\n".join([*lines, ""])


def _plain(text: str) -> str:
    if not _PLAIN.match(text):
        raise Invalid(
            f"{text[:100]!r} cannot be a label: letters, digits, '.', '_', '/' and '-'", reason="LabelInvalid"
        )
    return text
