"""One loaded version of the model, and how its requests are computed."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import msgspec

from modelwright.http.asgi import RequestError
from modelwright.serve.config import DEFAULT_MAX_QUEUE, ServerConfig, VersionConfig
from modelwright.serve.frameworks.base import LoadOptions, Model
from modelwright.serve.frameworks.find import find_framework
from modelwright.serve.signatures import DEFAULT_SIGNATURE, Function, functions_of
from modelwright.serve.tensors import Array
from modelwright.serve.warmup import elements, warm_up


class InferencePool:
    """The threads for models that would hold up the event loop: as many as cores, with a bounded queue."""

    def __init__(self, max_queue: int = DEFAULT_MAX_QUEUE) -> None:
        self.workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.max_queue = max_queue
        self.pending = 0
        self._executor = ThreadPoolExecutor(self.workers, thread_name_prefix="inference")

    async def run(self, function: Function, inputs: dict[str, Array]) -> Mapping[str, Array]:
        """Raises RequestError (503) at once if the queue is full."""
        if self.pending >= self.workers + self.max_queue:
            raise RequestError("the server is overloaded; try again later", 503, ((b"retry-after", b"1"),))
        self.pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, function.predict, inputs)
        finally:
            self.pending -= 1


class Recipe(msgspec.Struct, frozen=True):
    """What decides how a version is loaded: the same recipe gives the same model."""

    path: str
    framework: str
    threads: int

    @classmethod
    def of(cls, version: VersionConfig, config: ServerConfig) -> Recipe:
        """The recipe of a version in a configuration."""
        return cls(version.path, config.framework_type, config.threads)


class LoadedModel:
    """A version that can answer. It is released when it has been retired and its last request has returned."""

    def __init__(
        self, config: VersionConfig, recipe: Recipe, model: Model, inline_limit: int, load_seconds: float
    ) -> None:
        self.config = config
        self.recipe = recipe
        self.model = model
        self.inline_limit = inline_limit
        self.load_seconds = load_seconds
        self.functions = functions_of(model, inline_limit)
        self.headers = ((b"x-model-version", quote(config.version, safe=" /:+@").encode()),)
        self.in_flight = 0
        self._when_idle: Callable[[], None] | None = None
        self._holders = {id(self)}  # shared by all that hold the same model

    def renamed(self, config: VersionConfig) -> LoadedModel:
        """The same model under another number or other labels."""
        other = LoadedModel(config, self.recipe, self.model, self.inline_limit, self.load_seconds)
        self._holders.add(id(other))
        other._holders = self._holders
        return other

    def function(self, signature: str = DEFAULT_SIGNATURE) -> Function:
        """What a signature's name stands for; raises RequestError (400) if the model has none of that name."""
        found = self.functions.get(signature)
        if found is None:
            raise RequestError(f"the model has no signature {signature!r}; it has {', '.join(self.functions)}")
        return found

    async def predict(self, function: Function, inputs: dict[str, Array], pool: InferencePool) -> Mapping[str, Array]:
        """All outputs; raises RequestError: 400 if the model refuses the values, 503 if the server is overloaded."""
        try:
            if elements(inputs) <= function.inline_limit:
                return function.predict(inputs)
            return await pool.run(function, inputs)
        except ValueError as error:
            raise RequestError(f"the model cannot compute this request: {error}") from error

    def __enter__(self) -> LoadedModel:
        self.in_flight += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.in_flight -= 1
        if not self.in_flight and self._when_idle:
            self._when_idle()

    def retire(self, when_idle: Callable[[], None]) -> None:
        """Calls `when_idle` as soon as no request uses this version; no new request may be given to it."""
        self._when_idle = when_idle
        if not self.in_flight:
            when_idle()

    def release(self) -> None:
        """Drops the model and gives its memory back to the system; this may take a while."""
        model = self.model
        del self.model, self.functions
        self._holders.discard(id(self))
        if not self._holders:
            _close(model)
        del model
        _trim_heap()


def _close(model: Model) -> None:
    close = getattr(model, "close", None)
    if close is not None:
        close()


def _trim_heap() -> None:
    """The C library keeps freed memory for later; a model's worth of it is better off with others (glibc only)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def load_version(config: VersionConfig, recipe: Recipe, allow_unsafe_formats: bool) -> LoadedModel:
    """Loads and warms a version, in the thread of the caller; raises the errors of `Framework.load`."""
    started = time.perf_counter()
    options = LoadOptions(threads=recipe.threads or 1, allow_unsafe_formats=allow_unsafe_formats)
    model = find_framework(recipe.framework).load(Path(recipe.path), options)
    try:
        inline_limit = warm_up(model)
    except BaseException:
        _close(model)
        raise
    return LoadedModel(config, recipe, model, inline_limit, time.perf_counter() - started)
