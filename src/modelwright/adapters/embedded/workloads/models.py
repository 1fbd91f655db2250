"""The models of one server, by version."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from modelwright.adapters.embedded.workloads.cache import Held, ModelCache, key_of
from modelwright.adapters.embedded.workloads.records import ServerRecord
from modelwright.ports.workloads import ModelServer, ServedVersion


class ServerModels:
    """Those that it should serve, those that its processes were told to, and what it last served."""

    def __init__(self, cache: ModelCache, record: ServerRecord) -> None:
        self._cache = cache
        self._record = record

    @property
    def _namespace(self) -> str:
        return self._record.server.owner.namespace

    def keys(self) -> set[str]:
        """The models that it needs, now or if something fails."""
        wanted = self._record.server.program
        versions = list(wanted.versions) if isinstance(wanted, ModelServer) else []
        versions += [version for found in self._record.generations for version in found.versions]
        if self._record.served is not None:
            versions.append(self._record.served)
        return {key_of(version.source, self._namespace) for version in versions}

    def held(self, wanted: ModelServer) -> dict[str, Held]:
        """Each, on its way if it is not here."""
        return {version.version: self._look(version) for version in wanted.versions}

    def folders(self, wanted: ModelServer) -> dict[str, Path] | None:
        """Where they are, by version; None until each is here or has failed, unless they are loaded in place."""
        held = self.held(wanted)
        if not wanted.in_place and any(not model.ready and model.failure is None for model in held.values()):
            return None
        folders = {version: model.path for version, model in held.items() if model.ready}
        served = self._record.served
        if wanted.in_place and served is not None and served.version not in folders:
            model = self._look(served)
            if model.ready:
                folders[served.version] = model.path
        return folders

    def are_here(self, versions: Iterable[ServedVersion]) -> bool:
        """Whether all of them are; what is not is on its way."""
        held = [self._look(version) for version in versions]
        return all(model.ready for model in held)

    def trust(self, versions: Iterable[ServedVersion]) -> None:
        """A running process has loaded them."""
        for version in versions:
            self._cache.trust(version.source, self._namespace)

    def _look(self, version: ServedVersion) -> Held:
        return self._cache.look(version.source, self._namespace)
