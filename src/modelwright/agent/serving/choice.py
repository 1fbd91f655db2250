"""Which versions a server is told to hold, as a pure function of what is wanted and what is here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from modelwright.ports.serving import ServeTask
from modelwright.ports.workloads import ModelSource, ServedVersion

STABLE = "stable"
"""The label of the version that is served by default."""


class Listed(msgspec.Struct, frozen=True):
    """A version and the folder that it lies in."""

    version: str
    number: int
    path: str
    source: ModelSource


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is told. `stable` is the version with that label: the default as soon as it is served."""

    model_name: str
    framework: str
    versions: tuple[Listed, ...]
    default: str
    stable: str
    threads: int = 0

    def find(self, version: str) -> Listed | None:
        """The version of this name."""
        return next((listed for listed in self.versions if listed.version == version), None)


def choose(task: ServeTask, here: Mapping[str, str], served: ServedVersion | None, served_path: str) -> Choice | None:
    """What to hold of the wanted versions that are `here` (folders by version), None while there is nothing.

    What is `served` stays until the new default is served. (`served_path` is empty where it is not here any more.)
    """
    versions = [
        Listed(wanted.version, wanted.number, here[wanted.version], wanted.source)
        for wanted in task.versions
        if wanted.version in here
    ]
    default = task.default if task.default in here else ""
    stable = default
    if served is not None and served_path:
        if all(listed.version != served.version for listed in versions):
            versions.append(Listed(served.version, _free(served.number, versions), served_path, served.source))
        default = default or served.version
        stable = served.version
    if not default:
        return None
    return Choice(
        model_name=task.model_name,
        framework=task.framework,
        versions=tuple(versions),
        default=default,
        stable=stable,
        threads=task.threads,
    )


def _free(number: int, others: Sequence[Listed]) -> int:
    """The number itself, or the next that no other has: the new versions may use the one that it had."""
    taken = {other.number for other in others}
    while number in taken:
        number += 1
    return number
