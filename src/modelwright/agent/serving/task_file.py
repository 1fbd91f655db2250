"""The file with the wanted versions, which the kubelet replaces when the Pod's annotation changes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from modelwright.ports.serving import ServeTask
from modelwright.ports.workloads import Failure


class TaskFile:
    """`task` is the last that could be read, `digest` the SHA-256 (hex) of the file as it is now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content: bytes | None = None
        self.task: ServeTask | None = None
        self.digest = ""
        self.fault: Failure | None = None

    def read(self) -> bool:
        """Whether there is another task than before. Raises OSError."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            self._content, self.fault = None, _invalid(f"{self._path} does not exist yet")
            return False
        if content == self._content:
            return False
        self._content, self.digest = content, hashlib.sha256(content).hexdigest()
        try:
            task = msgspec.json.decode(content, type=ServeTask)
        except (msgspec.MsgspecError, ValueError):
            told = "holds no task that this program knows: operator and agent image must be of the same version"
            self.fault = _invalid(f"{self._path} {told}")
            return False
        self.fault = None
        changed, self.task = task != self.task, task
        return changed


def _invalid(message: str) -> Failure:
    return Failure("TaskInvalid", message, retryable=True)
