"""The log of a server process."""

from __future__ import annotations

import logging
import sys


class OneLine(logging.Formatter):
    """Marks the lines that follow the first of a message: what a client has sent cannot pass for a line of ours."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace("\r", "\\r").replace("\n", "\n| ")


def start_log() -> None:
    """Messages go to stderr; whoever reads them may be gone, which is no reason to stop serving."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.raiseExceptions = False
