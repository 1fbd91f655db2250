"""The ports of earlier runs, so that a restart is found where the last run was.

The registry's address stands in the statuses of ModelVersions. Should it change all the same, the former addresses
are kept: images under them are this registry's own.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from modelwright.adapters.embedded.certificates import write_private

FORMER_LIMIT = 64


class _Remembered(msgspec.Struct, frozen=True):
    http: int = 0
    api: int = 0
    registries: tuple[str, ...] = ()


class Addresses:
    """What is remembered in `addresses.json` of a data directory; a damaged file is as good as none."""

    def __init__(self, root: Path) -> None:
        self._path = root / "addresses.json"
        try:
            self._known = msgspec.json.decode(self._path.read_bytes(), type=_Remembered)
        except (OSError, msgspec.DecodeError):
            self._known = _Remembered()

    @property
    def http(self) -> int:
        """The port of pages and registry in the last run, 0 if there was none."""
        return self._known.http

    @property
    def api(self) -> int:
        """The port of the Kubernetes API in the last run, 0 if there was none."""
        return self._known.api

    def remember(self, *, http: int, api: int, registry: str) -> tuple[str, ...]:
        """Write down what this run uses; returns the registry's addresses, this one first, then the former ones."""
        former = [name for name in self._known.registries if name != registry]
        registries = (registry, *former)[:FORMER_LIMIT]
        fresh = _Remembered(http=http, api=api, registries=registries)
        if fresh != self._known:
            write_private(self._path, msgspec.json.encode(fresh))
            self._known = fresh
        return registries
