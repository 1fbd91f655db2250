"""Bringing a model or dataset to this machine, in a worker process."""

from __future__ import annotations

from pathlib import Path

import msgspec

from modelwright.adapters.embedded.workloads import kept
from modelwright.adapters.embedded.workloads.cache import Report
from modelwright.adapters.embedded.workloads.pool import WorkerPool
from modelwright.adapters.embedded.workloads.secrets import secret_folder
from modelwright.ports.worker import Obtain, Obtained
from modelwright.ports.workloads import Download, ModelSource


class Obtaining:
    """What a `ModelCache` asks for. `former_registries` are the addresses that the embedded registry has had."""

    def __init__(
        self, pool: WorkerPool, data_dir: Path, registry: tuple[str, Path], former_registries: frozenset[str]
    ) -> None:
        self._pool = pool
        self._data_dir = data_dir
        self._registry = registry
        self._former_registries = former_registries

    async def __call__(self, source: ModelSource, namespace: str, folder: Path, report: Report) -> str:
        """Raises what the worker says, Forbidden (SecretNotFound), and Unavailable if the worker died."""
        name = source.secret if isinstance(source, Download) else source.pull_secret
        request = Obtain(
            source=self._under_todays_address(source),
            folder=str(folder),
            registry_host=self._registry[0],
            registry_storage=str(self._registry[1]),
            forbidden=(str(self._data_dir),),
            readable=(str(self._data_dir / kept.FOLDER),),
            secret=str(secret_folder(self._data_dir, namespace, name) or ""),
        )
        return msgspec.json.decode(await self._pool.run(request, report), type=Obtained).digest

    def _under_todays_address(self, source: ModelSource) -> ModelSource:
        """An image that was pushed when this registry had another address is still this registry's."""
        if isinstance(source, Download):
            return source
        host, slash, rest = source.image.partition("/")
        if host not in self._former_registries:
            return source
        return msgspec.structs.replace(source, image=f"{self._registry[0]}{slash}{rest}")
