"""Models on this machine, by content: each is obtained once, verified, shared, and goes with its last server."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from modelwright.adapters.embedded.workloads.timing import Backoff, Timing
from modelwright.oci.disk import remove_tree
from modelwright.ports.errors import ModelwrightError, Retryable, Unavailable
from modelwright.ports.workloads import Download, Failure, ModelSource, Progress

Report = Callable[[Progress], None]
Obtain = Callable[[ModelSource, str, Path, Report], Awaitable[str]]
"""Source, namespace, folder, progress: put the verified model into folder/model, or verify what is there.

The digest of what was downloaded, `sha256:HEX`; empty for an image.
"""


_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")


def key_of(source: ModelSource, namespace: str) -> str:
    """The folder's name: the content's digest where that is known, else what tells one address from another."""
    if isinstance(source, Download):
        if source.sha256sum:
            return f"file-{source.sha256sum.lower()}{_name_of(source.url)}"
        address = "\n".join([source.url, namespace, source.secret, *([source.scope] if source.scope else [])])
        return f"url-{hashlib.sha256(address.encode()).hexdigest()}"
    digest = source.image.rpartition("@")[2]
    return f"image-{digest.replace(':', '-')}"


def _name_of(url: str) -> str:
    """A single file lies in its folder under its own name, so that the same bytes may be two models; an archive does
    not, so that it need not be downloaded again when it has moved."""
    name = PurePosixPath(urlsplit(url).path).name
    if name.lower().endswith(_ARCHIVES):
        return ""
    return f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


class Held:
    """One model: fetching, there, or failed until it is tried again."""

    def __init__(self, source: ModelSource, namespace: str, folder: Path, backoff: Backoff) -> None:
        self.source = source
        self.namespace = namespace
        self.folder = folder
        self.backoff = backoff
        self.ready = False
        self.digest = ""
        self.progress: Progress | None = None
        self.failure: Failure | None = None
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    @property
    def path(self) -> Path:
        return self.folder / "model"


class ModelCache:
    """`changed` is called whenever a model has got further."""

    def __init__(self, root: Path, obtain: Obtain, timing: Timing, changed: Callable[[], None]) -> None:
        self._root = root
        self._obtain = obtain
        self._timing = timing
        self._wake = changed
        self._pulse = asyncio.Event()
        self._held: dict[str, Held] = {}
        root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def look(self, source: ModelSource, namespace: str, *, anew: bool = False) -> Held:
        """The model, on its way if it is not there; with `anew` at once, even if it has failed a moment ago.

        For `anew`, a model of which it is not known what was downloaded is verified first, which tells.
        """
        key = key_of(source, namespace)
        held = self._held.get(key)
        if held is not None and anew:
            self._hurry(held)
        if held is None:
            backoff = Backoff(self._timing.backoff_first, self._timing.fetch_retry_cap)
            held = self._held[key] = Held(source, namespace, self._root / key, backoff)
            self._begin(held)
        return held

    def path(self, key: str) -> Path:
        """Where the model of this key is."""
        return self._root / key / "model"

    def trust(self, source: ModelSource, namespace: str) -> None:
        """A running server has loaded this model from here: it need not be verified again."""
        key = key_of(source, namespace)
        if key not in self._held and (self._root / key / "model").exists():
            held = Held(source, namespace, self._root / key, Backoff(1.0, 1.0))
            held.ready = True
            self._held[key] = held

    def doubt(self, key: str) -> None:
        """It may have been changed: whoever uses it next waits until it is verified, or obtained anew."""
        held = self._held.get(key)
        if held is not None and held.ready:
            held.ready = False
            self._begin(held)
            self._tell()

    async def changed(self) -> None:
        """Return once any model has got further."""
        await self._pulse.wait()

    def keep_only(self, keys: Iterable[str]) -> None:
        """Remove what no server names any more, and stop fetching it."""
        wanted = set(keys)
        for key in [key for key in self._held if key not in wanted]:
            self._stop(self._held.pop(key))
        for folder in [path for path in self._root.iterdir() if path.name not in wanted]:
            remove_tree(folder)

    def close(self) -> None:
        for held in self._held.values():
            self._stop(held)

    def _begin(self, held: Held) -> None:
        held.timer = None
        held.task = asyncio.get_running_loop().create_task(self._fetch(held))

    async def _fetch(self, held: Held) -> None:
        def report(progress: Progress) -> None:
            held.progress = progress
            self._tell()

        try:
            digest = await self._obtain(held.source, held.namespace, held.folder, report)
        except ModelwrightError as error:
            self._failed(held, error)
        except OSError as error:
            self._failed(held, Unavailable(f"no worker could be started: {error}", reason="SystemError"))
        else:
            held.ready, held.digest, held.failure, held.progress = True, digest, None, None
        self._tell()

    def _hurry(self, held: Held) -> None:
        if held.timer is not None:
            held.timer.cancel()
            held.failure = None
            self._begin(held)
        elif held.ready and isinstance(held.source, Download) and not held.digest:
            held.ready = False
            self._begin(held)

    def _failed(self, held: Held, error: ModelwrightError) -> None:
        """Try again soon what may mend by itself, and rarely what a user has to mend somewhere else."""
        held.failure = Failure(reason=error.reason, message=error.message, retryable=error.retryable)
        held.progress = None
        held.backoff.failed(time.monotonic())
        delay = held.backoff.not_before - time.monotonic() if error.retryable else self._timing.fetch_retry_cap
        if isinstance(error, Retryable) and error.after:
            delay = max(delay, error.after)
        held.timer = asyncio.get_running_loop().call_later(max(0.0, delay), self._begin, held)

    def _tell(self) -> None:
        pulse, self._pulse = self._pulse, asyncio.Event()
        pulse.set()
        self._wake()

    def _stop(self, held: Held) -> None:
        if held.timer is not None:
            held.timer.cancel()
        if held.task is not None:
            held.task.cancel()
