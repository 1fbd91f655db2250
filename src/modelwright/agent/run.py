"""Runs the workers of one command and writes down how they ended: `modelwright agent run --folder DIR`.

It outlives the program that started it, so that an exit code is never lost and a command never runs twice.
In DIR it finds `command.json` (`workers`, each with `argv` and `env`; `cwd`; `deadline` and `grace`), and leaves

    started         made before any worker is: who finds it does not run the command again
    workers.json    what has become of each worker, replaced whenever one has ended
    result.json     how it ended, once all workers and all that they have started are gone

The first worker that fails, the deadline, and a SIGTERM to this process end all workers: SIGTERM, then SIGKILL after
the grace period. It imports little, because a training waits for it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from modelwright.agent.group import Group, Plan, State
from modelwright.agent.member import Program

_ROOM = 4096
_ROOM_OF_WORKER = 256
_RETRY_SECONDS = 1.0


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit status, 0 whenever the result could be written."""
    parser = argparse.ArgumentParser(prog="modelwright agent run", description="Run a command and record its end.")
    parser.add_argument("--folder", type=Path, required=True, help="where command.json is, and the result will be")
    folder: Path = parser.parse_args(argv).folder
    plan = _plan(folder / "command.json")
    result = ResultFile(folder / "result.json", _ROOM + _ROOM_OF_WORKER * len(plan.programs))
    try:
        os.close(os.open(folder / "started", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        print(f"{folder}: the command has been started before and is not run again", file=sys.stderr)
        return 1
    group = Group(plan, lambda state: _publish(folder / "workers.json", state))
    return 0 if result.write(group.run(), lambda: group.asked_to_end) else 1


def _plan(path: Path) -> Plan:
    found = json.loads(path.read_bytes())
    programs = [Program(worker["argv"], worker["env"]) for worker in found["workers"]]
    return Plan(programs, found["cwd"], found["deadline"], found["grace"])


def _publish(path: Path, state: State) -> None:
    """As well as it can be: what is missed on a full disk stands in the result."""
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.write_text(json.dumps(state), "utf-8")
        fresh.replace(path)
    except OSError:
        return


class ResultFile:
    """Its room is taken while there is some: a command that has filled the disk must not lose its end."""

    def __init__(self, path: Path, room: int) -> None:
        self._path = path
        self._fresh = path.with_name(f".{path.name}.new")
        self._room = room
        try:
            self._fresh.write_bytes(b" " * room)
        except OSError:
            return

    def write(self, result: State, give_up: Callable[[], bool]) -> bool:
        """Try until it works, it is to be given up, or nobody can want it any more; whether it worked."""
        data = json.dumps(result).encode().ljust(self._room)
        while True:
            try:
                self._fill(data)
                self._fresh.replace(self._path)
            except FileNotFoundError:
                return False  # the folder is gone
            except OSError:
                if give_up():
                    return False
                time.sleep(_RETRY_SECONDS)
            else:
                return True

    def _fill(self, data: bytes) -> None:
        """Without truncating it, which would give the room away."""
        descriptor = os.open(self._fresh, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            while data:
                data = data[file.write(data) :]


if __name__ == "__main__":
    sys.exit(main())
