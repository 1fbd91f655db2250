"""Which folder a model lies in: one for each content, whatever versions and tasks name it."""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from modelwright.ports.workloads import Download, ModelSource

_KEY = re.compile(
    r"(?:image-sha(?:256-[0-9a-f]{64}|512-[0-9a-f]{128})|file-[0-9a-f]{64}(?:-[0-9a-f]{8})?|url-[0-9a-f]{64})\Z"
)
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")


def key_of(source: ModelSource) -> str:
    """The folder's name: the content's digest where that is known, else what tells one address from another.

    An image that is not named by digest, which the control plane never does, is told by its name.
    """
    if isinstance(source, Download):
        if source.sha256sum:
            return f"file-{source.sha256sum.lower()}{_name_of(source.url)}"
        return f"url-{_hashed(source.url, source.secret, source.scope)}"
    key = f"image-{source.image.rpartition('@')[2].replace(':', '-')}"
    return key if is_key(key) else f"url-{_hashed(source.image)}"


def is_key(name: str) -> bool:
    """Whether a folder of this name is ours: others are let alone."""
    return _KEY.match(name) is not None


def _name_of(url: str) -> str:
    """A single file lies in its folder under its own name, so that the same bytes may be two models; an archive does
    not, so that it need not be downloaded again when it has moved."""
    name = PurePosixPath(urlsplit(url).path).name
    return "" if name.lower().endswith(_ARCHIVES) else f"-{_hashed(name)[:8]}"


def _hashed(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
