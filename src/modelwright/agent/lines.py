"""Telling apart what several processes print: whole lines, each with its writer's name before it."""

from __future__ import annotations

LONGEST = 16 * 1024


class Lines:
    """Cuts one writer's output into lines. One that is longer than `longest` bytes is broken into several."""

    def __init__(self, prefix: bytes, longest: int = LONGEST) -> None:
        self._prefix = prefix
        self._longest = longest
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """The lines that are whole by now, each with the prefix and a newline; the rest is kept."""
        *whole, rest = (self._rest + data).split(b"\n")
        *pieces, self._rest = self._pieces(rest)
        return b"".join(
            [*(self._marked(piece) for line in whole for piece in self._pieces(line)), *map(self._marked, pieces)]
        )

    def end(self) -> bytes:
        """What is left, as a line."""
        rest, self._rest = self._rest, b""
        return self._marked(rest) if rest else b""

    def _pieces(self, line: bytes) -> list[bytes]:
        """At least one, the last of which may be empty."""
        return [line[start : start + self._longest] for start in range(0, max(len(line), 1), self._longest)]

    def _marked(self, piece: bytes) -> bytes:
        return b"%b%b\n" % (self._prefix, piece)
