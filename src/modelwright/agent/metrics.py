"""The numbers that a training left beside its model, read without trusting them."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path

import msgspec

from modelwright.ports.errors import Rejected

MAX_BYTES = 64 * 1024
MAX_COUNT = 64
MAX_NAME = 128
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def read_metrics(model: Path) -> dict[str, float]:
    """What `.modelwright/metrics.json` in the model's folder says, empty if there is none.

    Raises Rejected (MetricsIgnored) for what is no object of at most 64 finite numbers, or is reached over a link.
    """
    try:
        data = _read(model)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _ignored(f"it cannot be read ({error.strerror})") from error
    try:
        found = msgspec.json.decode(data, type=dict[str, float])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _ignored(f"it is no object of numbers ({str(error)[:200]})") from error
    if len(found) > MAX_COUNT:
        raise _ignored(f"it has {len(found)} numbers, more than {MAX_COUNT}")
    if any(len(name) > MAX_NAME or not math.isfinite(number) for name, number in found.items()):
        raise _ignored(f"a name is longer than {MAX_NAME} characters or a number is not finite")
    return dict(sorted(found.items()))


def _read(model: Path) -> bytes:
    top = os.open(model, _FOLDER)
    try:
        folder = os.open(".modelwright", _FOLDER | os.O_NOFOLLOW, dir_fd=top)
    finally:
        os.close(top)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open("metrics.json", flags, dir_fd=folder)
    finally:
        os.close(folder)
    with os.fdopen(file, "rb", buffering=0) as stream:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise _ignored("it is no regular file")
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _ignored(f"it is longer than {MAX_BYTES} bytes")
    return data


def _ignored(why: str) -> Rejected:
    return Rejected(f".modelwright/metrics.json was ignored: {why}", reason="MetricsIgnored")
