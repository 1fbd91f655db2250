"""Numbers as people read them: bytes, ages, and how many there are of a thing."""

from __future__ import annotations

from datetime import datetime


def readable(size: int) -> str:
    """A number of bytes in powers of 1000, such as `1.5 GB`."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def counted(count: int, thing: str) -> str:
    """`1 layer`, `2 layers`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def age(seconds: int) -> str:
    """A length of time in its two biggest units, such as `5m10s` or `3d`."""
    parts = []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        amount, seconds = divmod(max(0, seconds), length)
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts[:2]) or "0s"


def since(timestamp: object, now: datetime) -> str:
    """How long ago an RFC 3339 timestamp was; `unknown` for what is none."""
    try:
        return age(int((now - datetime.fromisoformat(str(timestamp))).total_seconds()))
    except (ValueError, TypeError):
        return "unknown"
