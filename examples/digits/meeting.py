"""Workers that bring together what each of them has found.

Each is told its place by its environment, as any distributed training is: RANK and WORLD_SIZE, and MASTER_ADDR and
MASTER_PORT, where worker 0, the chief, listens.
"""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

RANK = int(os.environ.get("RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))


def gather(found: Any, seconds: float = 60.0) -> list[Any] | None:
    """What each worker has found, by rank, for the chief; None for the others.

    Raises TimeoutError if the workers do not meet within these seconds: a training that waits for ever is worse than
    one that fails, and is started again.
    """
    deadline = time.monotonic() + seconds
    if RANK != 0:
        _report(found, deadline)
        return None
    return [found, *_collect(deadline)]


def _collect(deadline: float) -> list[Any]:
    if WORLD_SIZE == 1:
        return []
    reports: dict[int, Any] = {}
    with socket.create_server(_address()) as server:
        while len(reports) < WORLD_SIZE - 1:
            server.settimeout(_left(deadline, f"{WORLD_SIZE - 1 - len(reports)} of {WORLD_SIZE} workers are missing"))
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            with connection, connection.makefile("r") as lines:
                connection.settimeout(_left(deadline, "a worker is too slow"))
                report = json.loads(lines.readline())
            reports[report["rank"]] = report["found"]
    return [reports[rank] for rank in sorted(reports)]


def _report(found: Any, deadline: float) -> None:
    """The chief may not listen yet, or compute still: try until it does."""
    while True:
        left = _left(deadline, "the chief does not listen")
        try:
            with socket.create_connection(_address(), timeout=left) as connection:
                connection.sendall(json.dumps({"rank": RANK, "found": found}).encode() + b"\n")
            return
        except ConnectionRefusedError:
            time.sleep(0.05)


def _address() -> tuple[str, int]:
    return os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def _left(deadline: float, otherwise: str) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(otherwise)
    return left
