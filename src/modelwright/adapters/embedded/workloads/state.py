"""What a server process says of itself, in the file that it was given by --state (`serve.state` is the other side)."""

from __future__ import annotations

from pathlib import Path
from typing import Generic, Literal, TypeVar

import msgspec

from modelwright.ports.workloads import AskedModel, Failure


class VersionState(msgspec.Struct, frozen=True, rename="camel"):
    """One version; `reason` and `message` when it failed."""

    version: str
    number: int = 0
    state: Literal["loading", "ready", "failed", "unloading"] = "loading"
    reason: str = ""
    message: str = ""


class ModelState(msgspec.Struct, frozen=True, rename="camel"):
    """How a gateway finds a model that it asks; `reason` and `message` say why that is of no use to it."""

    state: Literal["unknown", "ready", "failing"] = "unknown"
    reason: str = ""
    message: str = ""


class ServerState(msgspec.Struct, frozen=True, rename="camel"):
    """The process; `default_version` is what it answers with now, `config_digest` the last configuration applied,
    `kept_bytes` how much a gateway has kept, `edge` and `cloud` the models that it asks."""

    pid: int = 0
    phase: Literal["loading", "ready", "draining", "failed"] = "loading"
    default_version: str | None = None
    versions: tuple[VersionState, ...] = ()
    config_digest: str = ""
    kept_bytes: int | None = None
    edge: ModelState = ModelState()
    cloud: ModelState = ModelState()
    reason: str = ""
    message: str = ""

    @property
    def asked(self) -> tuple[AskedModel, ...]:
        """The models that have been asked."""
        models: tuple[tuple[Literal["edge", "cloud"], ModelState], ...] = (("edge", self.edge), ("cloud", self.cloud))
        return tuple(_asked(side, model) for side, model in models if model.state != "unknown")

    def version(self, name: str) -> VersionState | None:
        return next((version for version in self.versions if version.version == name), None)


def _asked(side: Literal["edge", "cloud"], model: ModelState) -> AskedModel:
    if not model.reason:
        return AskedModel(side=side)
    retryable = model.state == "failing"
    return AskedModel(side=side, failure=Failure(reason=model.reason, message=model.message, retryable=retryable))


Said = TypeVar("Said")


class StateFile(Generic[Said]):
    """Reads the file again only when it is another than last time."""

    def __init__(self, path: Path, kind: type[Said]) -> None:
        self.path = path
        self._decoder = msgspec.json.Decoder(kind)
        self._seen: tuple[int, int, int] | None = None
        self.state: Said | None = None

    def look(self) -> bool:
        """Read it if it has changed, and say whether it has. A broken file is as good as none."""
        try:
            found = self.path.stat()
            seen = (found.st_mtime_ns, found.st_ino, found.st_size)
            if seen == self._seen:
                return False
            self.state = self._decoder.decode(self.path.read_bytes())
            self._seen = seen
        except (OSError, msgspec.MsgspecError):
            return False
        return True
