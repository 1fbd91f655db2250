"""One line for each thing that happens: `text` for people, `json` for what collects logs."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec


def start_log(format_: str, level: str) -> None:
    """Log `text` or `json` to stderr; whoever reads it may be gone, which is no reason to stop."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if format_ == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.raiseExceptions = False


class JsonLines(logging.Formatter):
    """An object on a line: time, level, logger, message, and error with the trace where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name}
        line["message"] = record.getMessage()
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class TextLines(logging.Formatter):
    """Time, level, message; a trace follows indented."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + self.formatException(record.exc_info)
        return f"{_time(record)} {record.levelname:<7} " + message.replace("\n", "\n  ")


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
