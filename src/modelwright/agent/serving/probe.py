"""`modelwright agent probe-volume PATH`: whether a folder that is mounted from an image has files that can be read."""

from __future__ import annotations

import os
from pathlib import Path

from modelwright.agent.ending import SERVING_MEMORY, Words, run_reported
from modelwright.agent.printing import Printer
from modelwright.ports.errors import NotFound

WORDS = Words(what="probe of the volume", more_memory=SERVING_MEMORY)


def main(path: str) -> int:
    """The exit code: 0 if it has, 1 after a report why not."""
    return run_reported(lambda printer: _run(Path(path), printer), WORDS, lambda error: error.message)


def _run(folder: Path, printer: Printer) -> None:
    for place, _, files in os.walk(folder):
        for name in sorted(files):
            file = Path(place, name)
            if file.is_symlink() or not file.is_file():
                continue
            with file.open("rb") as stream:
                stream.read(1)
            printer.say(f"{file} can be read")
            return
    raise NotFound(f"{folder} has no file: the image was not mounted there", reason="VolumeEmpty")
