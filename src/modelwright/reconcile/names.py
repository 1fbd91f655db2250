"""Names of children: a function of the owner and of what the child is, so that making one twice is harmless."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

NAME_LIMIT = 63
"""A label value and a DNS label are no longer."""


def short_hash(*parts: Any) -> str:
    """Ten hexadecimal digits over these values, in order."""
    encoded = msgspec.json.encode([msgspec.to_builtins(part, str_keys=True) for part in parts], order="sorted")
    return hashlib.sha256(encoded).hexdigest()[:10]


def child_name(owner_name: str, role: str, *parts: Any) -> str:
    """`owner-role-hash`, cut in the owner's part so that the role and the hash always stand."""
    tail = f"-{role}-{short_hash(*parts)}"
    return owner_name[: NAME_LIMIT - len(tail)].rstrip("-.").replace(".", "-") + tail
