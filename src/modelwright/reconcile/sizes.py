"""Sizes as a status tells them: a number that changes all the time must not make each change a write."""

from __future__ import annotations

PROGRESS_STEPS = 50


def about(size: int, digits: int) -> int:
    """Cut to so many digits."""
    unit: int = 10 ** max(0, len(str(size)) - digits)
    return size // unit * unit


def in_steps(done: int, total: int) -> int:
    """Cut to a whole fiftieth of the total; what is all there is all there."""
    return done if done >= total else done * PROGRESS_STEPS // total * total // PROGRESS_STEPS
