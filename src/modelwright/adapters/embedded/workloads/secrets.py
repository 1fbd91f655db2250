"""Secrets without a cluster: a folder for each, with a file for each key, as a pod would see it mounted."""

from __future__ import annotations

import re
from pathlib import Path

from modelwright.ports.errors import Forbidden

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


def secret_folder(data_dir: Path, namespace: str, name: str) -> Path | None:
    """Where the keys of a secret are; None for no name. Raises Forbidden (SecretNotFound)."""
    if not name:
        return None
    folder = data_dir / "secrets" / namespace / name
    if not _NAME.fullmatch(name) or not _NAME.fullmatch(namespace) or not folder.is_dir():
        raise Forbidden(
            f"there is no secret {namespace}/{name}: put its keys as files into {folder}, such as .dockerconfigjson "
            "for a registry or token for a download",
            reason="SecretNotFound",
        )
    return folder
