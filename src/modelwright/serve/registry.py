"""The versions that the process holds: loads, switches and unloads them as the configuration says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from modelwright.ports.errors import ModelwrightError
from modelwright.serve.config import ServerConfig, VersionConfig
from modelwright.serve.loaded import LoadedModel, Recipe, load_version
from modelwright.serve.state import VersionState

log = logging.getLogger("modelwright.server")


class Serving:
    """What can be asked at one moment; never changed, only replaced as a whole."""

    def __init__(
        self,
        versions: Iterable[LoadedModel] = (),
        default: LoadedModel | None = None,
        labels: dict[str, str] | None = None,
    ) -> None:
        self.versions = {
            loaded.config.version: loaded for loaded in sorted(versions, key=lambda loaded: loaded.config.number)
        }
        self.numbers = {str(loaded.config.number): loaded for loaded in self.versions.values()}
        self.default = default
        self.labels = {
            label: self.versions[version] for label, version in (labels or {}).items() if version in self.versions
        }


class Registry:
    """Holds the versions of one model. All methods run on the event loop; models load in one thread beside it."""

    def __init__(self, *, allow_unsafe_formats: bool, on_change: Callable[[], None]) -> None:
        self.serving = Serving()
        self.config: ServerConfig | None = None
        self.states: dict[str, VersionState] = {}
        self._allow_unsafe_formats = allow_unsafe_formats
        self._on_change = on_change
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="loader")
        self._leaving: set[LoadedModel] = set()
        self._job: Future[LoadedModel] | None = None

    @property
    def failed(self) -> bool:
        """Whether a listed version could not be loaded."""
        return any(state.state == "failed" for state in self.states.values())

    @property
    def loading(self) -> bool:
        """Whether a thread is loading a model, even one that nobody waits for any more."""
        return self._job is not None and self._job.running()

    @property
    def default_version(self) -> str | None:
        """The version that a request without a version reaches now."""
        return self.serving.default.config.version if self.serving.default else None

    async def apply(self, config: ServerConfig) -> None:
        """Loads what is new (the default first), switches, then unloads what is not listed any more.

        While the wanted default cannot be loaded, everything that served before keeps serving.
        """
        self.config = config
        ready = dict(self.serving.versions)
        default_first = sorted(config.versions, key=lambda item: (item.version != config.default_version, -item.number))
        for version in default_first:
            held = ready.get(version.version)
            self._set(version, "ready" if held and held.recipe == Recipe.of(version, config) else "loading")
        self._on_change()
        for version in default_first:
            loaded = await self._bring(version, config, ready.get(version.version))
            if loaded is not None:
                ready[version.version] = loaded
            self._switch(ready, config)
            self._on_change()
        if self.default_version == config.default_version:
            listed = {version.version for version in config.versions}
            self._switch({name: loaded for name, loaded in ready.items() if name in listed}, config)
        self._forget_unlisted()
        self._on_change()

    async def _bring(
        self, version: VersionConfig, config: ServerConfig, held: LoadedModel | None
    ) -> LoadedModel | None:
        """The version as it is listed, loaded if it is not; None if that failed."""
        recipe = Recipe.of(version, config)
        if held is not None and held.recipe == recipe:
            self._set(version, "ready")
            return held if held.config == version else held.renamed(version)
        try:
            loaded = await self._load(version, recipe)
        except Exception as error:
            self._report(version, error, still_serving=held is not None)
            return None
        self._set(version, "ready")
        return loaded

    async def _load(self, version: VersionConfig, recipe: Recipe) -> LoadedModel:
        self._job = self._loader.submit(load_version, version, recipe, self._allow_unsafe_formats)
        loaded = await asyncio.wrap_future(self._job)
        log.info(
            "version %s loaded in %.3f s; requests up to %d elements run on the event loop, larger ones in threads",
            version.version,
            loaded.load_seconds,
            loaded.inline_limit,
        )
        return loaded

    def _switch(self, ready: dict[str, LoadedModel], config: ServerConfig) -> None:
        before = set(self.serving.versions.values())
        labels = {label: version.version for version in config.versions for label in version.labels}
        self.serving = Serving(ready.values(), self._default(ready, config), labels)
        for loaded in before - set(ready.values()):
            self._retire(loaded)

    def _default(self, ready: dict[str, LoadedModel], config: ServerConfig) -> LoadedModel | None:
        """The wanted one; until it is ready the present one; after a restart the newest that could be loaded."""
        if config.default_version in ready:
            return ready[config.default_version]
        if self.default_version in ready and self.default_version is not None:
            return ready[self.default_version]
        if self.states[config.default_version].state != "failed":
            return None
        return max(ready.values(), key=lambda loaded: loaded.config.number, default=None)

    def _retire(self, loaded: LoadedModel) -> None:
        name = loaded.config.version
        if name not in self.serving.versions:
            self._set(loaded.config, "unloading")
        self._leaving.add(loaded)
        loaded.retire(lambda: self._release(loaded))

    def _release(self, loaded: LoadedModel) -> None:
        """Drops the last references, in the loader's thread: freeing a large model takes a while."""
        self._leaving.discard(loaded)
        self._loader.submit(loaded.release)
        self._forget_unlisted()
        self._on_change()

    def _forget_unlisted(self) -> None:
        listed = {version.version for version in self.config.versions} if self.config else set()
        kept = listed | set(self.serving.versions) | {loaded.config.version for loaded in self._leaving}
        self.states = {name: state for name, state in self.states.items() if name in kept}

    def _set(self, version: VersionConfig, state: str) -> None:
        self.states[version.version] = msgspec.convert(
            {"version": version.version, "number": version.number, "state": state}, VersionState
        )

    def _report(self, version: VersionConfig, error: Exception, *, still_serving: bool) -> None:
        reason = error.reason if isinstance(error, ModelwrightError) else "ModelInvalid"
        message = error.message if isinstance(error, ModelwrightError) else f"{type(error).__name__}: {error}"
        if still_serving:
            message += f"; the former content of {version.version} keeps serving"
        log.error("version %s: %s: %s", version.version, reason, message)
        self.states[version.version] = VersionState(
            version=version.version, number=version.number, state="failed", reason=reason, message=message
        )
