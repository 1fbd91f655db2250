"""Names inside archives and layers: which may become a path below a folder, and which may not."""

from __future__ import annotations

import re
import unicodedata

from modelwright.ports.errors import Rejected

MAX_PATH = 4096
MAX_COMPONENT = 255
WHITEOUT = ".wh."
"""OCI image-spec, layer.md: an entry of this prefix deletes another one."""

_DRIVE = re.compile(r"[A-Za-z]:")
_UNSEEN = frozenset("\u061c\u200e\u200f\u2028\u2029") | {
    chr(c) for c in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}


def shown(name: str | bytes) -> str:
    """The name as it may stand in a message: printable ASCII, at most 120 characters."""
    text = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
    text = ascii(text)
    return text if len(text) <= 120 else f"{text[:117]}..."


def decode_name(raw: bytes) -> str:
    """The name as text. Raises Rejected if it is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Rejected(f"the entry {shown(raw)} has a name that is not UTF-8", reason="ArchiveNameInvalid") from None


def entry_parts(name: str) -> tuple[str, ...]:
    """The components of an entry's name, without `.` and empty ones: () for the root itself.

    Raises Rejected: ArchiveEscapes if the name leads out of the folder, ArchiveNameInvalid if a component is too long
    or has characters that systems and people read differently (NUL, backslash, control, bidirectional).
    """
    _refuse_odd_characters(name)
    if name == "/":  # the root itself, as Kaniko and others spell it
        return ()
    if name.startswith("/") or _DRIVE.match(name):
        raise Rejected(f"the entry {shown(name)} has an absolute path", reason="ArchiveEscapes")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise Rejected(f"the entry {shown(name)} leads out of the archive by '..'", reason="ArchiveEscapes")
    if any(len(part.encode()) > MAX_COMPONENT for part in parts):
        raise Rejected(f"the entry {shown(name)} has a component over 255 bytes", reason="ArchiveNameInvalid")
    return parts


def collision_key(part: str) -> str:
    """Equal for names that some file system takes for one: Unicode compatibility forms and case are folded."""
    folded = unicodedata.normalize("NFKC", part).casefold()
    return unicodedata.normalize("NFKC", folded)


def _refuse_odd_characters(name: str) -> None:
    if name == "":
        raise Rejected("an entry has an empty name", reason="ArchiveNameInvalid")
    if "\\" in name:
        raise Rejected(f"the entry {shown(name)} has a backslash in its name", reason="ArchiveEscapes")
    if any(unicodedata.category(c) in ("Cc", "Cs") or c in _UNSEEN for c in name):
        raise Rejected(f"the entry {shown(name)} has control characters in its name", reason="ArchiveNameInvalid")
    if len(name.encode()) > MAX_PATH:
        raise Rejected(f"the entry {shown(name)} has a path over 4096 bytes", reason="ArchiveNameInvalid")
