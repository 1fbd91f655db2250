"""Lengths of time on the command line: `30s`, `5m`, `1h30m`, or seconds."""

from __future__ import annotations

import re
from typing import Annotated

import typer

DurationOption = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="How long at most, such as 90s, 10m or 1h30m.")
]
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")


def seconds_of(text: str) -> float:
    """The seconds that a duration has. Raises a usage error."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        raise typer.BadParameter(f"{text!r} is not a duration such as 90s, 10m or 1h30m", param_hint="--timeout")
    return sum(float(amount) * _UNITS[unit] for amount, unit in parts)
