"""What was served, the newest last: what `rollback` goes back to."""

from __future__ import annotations

from datetime import datetime

import msgspec

from modelwright.api.inference_model import HistoryEntry, InferenceModelStatus, Source

LIMIT = 10


def remember(status: InferenceModelStatus, source: Source, now: datetime) -> InferenceModelStatus:
    """The status with this source as the newest entry, unless it is that already."""
    if status.history and status.history[-1].source == source:
        return status
    history = (*status.history, HistoryEntry(source=source, since=now))[-LIMIT:]
    return msgspec.structs.replace(status, history=history)
