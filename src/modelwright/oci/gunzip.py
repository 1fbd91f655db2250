"""A gzip stream (RFC 1952), expanded in constant memory and bounded by what was read of it."""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, BinaryIO, cast

from modelwright.oci.tree import Limits
from modelwright.ports.errors import Rejected

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAGIC = b"\x1f\x8b"
_IN = 1 << 16
_OUT = 1 << 18
_MAX_EMPTY_MEMBERS = 16


def gunzip(stream: BinaryIO, limits: Limits) -> BinaryIO:
    """The expanded bytes. Reading raises Rejected: ArchiveTruncated, ArchiveCorrupt, or ArchiveIsBomb by ratio."""
    return cast("BinaryIO", io.BufferedReader(_Gunzip(stream, limits), _OUT))


class _Gunzip(io.RawIOBase):
    def __init__(self, stream: BinaryIO, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._member = zlib.decompressobj(31)
        self._member_size = 0
        self._empty_members = 0
        self._pending = b""
        self._taken = 0
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        while not self._member.eof or self._next_member():
            data = self._expand(len(view))
            if data:
                view[: len(data)] = data
                return len(data)
        return 0

    def _expand(self, count: int) -> bytes:
        if not self._pending and not self._fill() and not self._member.eof:
            data = self._member.flush()
            if not data and not self._member.eof:
                raise Rejected("the gzip stream ends too early", reason="ArchiveTruncated")
            return data
        try:
            data = self._member.decompress(self._pending, count)
        except zlib.error:
            raise Rejected("the gzip stream is damaged", reason="ArchiveCorrupt") from None
        self._pending = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        self._member_size += len(data)
        self._given += len(data)
        if self._given > self._limits.ratio * self._taken + self._limits.slack:
            raise Rejected(
                f"the archive expands more than {self._limits.ratio} times: send such content uncompressed",
                reason="ArchiveIsBomb",
            )
        return data

    def _next_member(self) -> bool:
        """Whether another member follows; zeros may pad the end, nothing else may."""
        self._empty_members += self._member_size == 0
        if self._empty_members > _MAX_EMPTY_MEMBERS:
            raise Rejected("the gzip stream has too many empty members", reason="ArchiveIsBomb")
        if not self._pending and not self._fill():
            return False
        if self._pending[0] == 0:
            self._expect_only_zeros()
            return False
        if self._pending[0] != MAGIC[0]:
            raise Rejected("there is data behind the end of the gzip stream", reason="ArchiveAmbiguous")
        self._member, self._member_size = zlib.decompressobj(31), 0
        return True

    def _expect_only_zeros(self) -> None:
        while self._pending:
            if self._pending.strip(b"\0"):
                raise Rejected("there is data behind the end of the gzip stream", reason="ArchiveAmbiguous")
            self._pending = b""
            self._fill()

    def _fill(self) -> bool:
        self._pending = self._stream.read(_IN)
        self._taken += len(self._pending)
        return bool(self._pending)
