"""What is said to a warm worker and by it: one JSON document a line, requests on its standard input, replies on its
standard output. The supervisor of processes is one side, `agent.worker` the other."""

from __future__ import annotations

import msgspec

from modelwright.ports.workloads import BuildImage, BuildResult, Failure, ModelSource


class Build(msgspec.Struct, tag="build", rename="camel", kw_only=True):
    """Build and push. `registry_host` is the embedded registry's own, kept in `registry_storage`."""

    action: BuildImage
    registry_host: str
    registry_storage: str
    forbidden: tuple[str, ...] = ()
    push_secret: str = ""
    """The folder that holds the secret's keys as files."""


class Obtain(msgspec.Struct, tag="obtain", rename="camel", kw_only=True):
    """Put a verified model into `folder`, or verify what is there."""

    source: ModelSource
    folder: str
    registry_host: str
    registry_storage: str
    forbidden: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    """Folders in forbidden ones that may be read all the same."""
    secret: str = ""


class Obtained(msgspec.Struct, frozen=True):
    """`digest` is that of the file that was downloaded, `sha256:HEX`; empty for an image."""

    digest: str = ""


class Moved(msgspec.Struct, tag="moved", rename="camel"):
    """How far it has come."""

    bytes_done: int
    bytes_total: int


class Done(msgspec.Struct, tag="done"):
    """It is done; what `result` is depends on the request."""

    result: msgspec.Raw


class Failed(msgspec.Struct, tag="failed"):
    """It failed."""

    failure: Failure


class Built(msgspec.Struct, frozen=True):
    """What was built; `note` says what was passed over."""

    result: BuildResult
    note: str = ""


Request = Build | Obtain
Reply = Moved | Done | Failed
