"""Small files that others change while we run: configurations, tokens, certificates."""

from __future__ import annotations

from pathlib import Path

LONGEST = 1 << 20


def signature(path: Path | None) -> tuple[int, int, int, int] | None:
    """What changes when the file is written, replaced, or reached by another link; None if there is no file."""
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size, found.st_dev) if found else None


def read_small(path: Path) -> bytes:
    """The file's bytes. Raises OSError, and ValueError if there are more than LONGEST."""
    with path.open("rb") as stream:
        content = stream.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} bytes")
    return content


class Watched:
    """Notices that one of several files is another one than at the last look.

    The kubelet replaces the files of a Secret by swapping a link: their names stay, what they lead to changes.
    """

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._seen: object = None

    def changed(self) -> bool:
        """Whether something has changed since the last call; true the first time."""
        now = tuple(signature(path) for path in self._paths)
        before, self._seen = self._seen, now
        return now != before
