"""`modelwright agent sweep`: removes the models that a node kept for an owner who is gone.

MODELS_FOLDER is the node's folder of a whole namespace, the variable names the owner's in it.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress

from modelwright.agent.ending import SERVING_MEMORY, Words, run_reported
from modelwright.agent.printing import Printer
from modelwright.ports.errors import Invalid
from modelwright.ports.serving import MODELS_FOLDER, SWEEP_VARIABLE

MODELS_VARIABLE = "MODELWRIGHT_MODELS_FOLDER"
"""Another MODELS_FOLDER, for runs outside of Kubernetes."""
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
WORDS = Words(what="removal of the kept models", more_memory=SERVING_MEMORY)


def main() -> int:
    """The exit code: 0 when nothing is there any more, 1 after a report why not."""
    return run_reported(lambda printer: _run(os.environ, printer), WORDS, lambda error: error.message)


def _run(environment: Mapping[str, str], printer: Printer) -> None:
    name = environment.get(SWEEP_VARIABLE, "")
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"the variable {SWEEP_VARIABLE} holds no UID: operator and agent image must be of the same version",
            reason="TaskInvalid",
        )
    removed = sweep(environment.get(MODELS_VARIABLE) or MODELS_FOLDER, name)
    printer.say(f"removed {name}" if removed else f"{name} is not there")


def sweep(root: str, name: str) -> bool:
    """Remove the folder `name` in `root` with all that is in it; False if there is none.

    No link is followed: of one, the link itself is removed. Raises OSError.
    """
    try:
        # The root may lead through links, which an admin has made: it is what is mounted.
        above = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return _remove(above, name)
    finally:
        os.close(above)


def _remove(above: int, name: str) -> bool:
    try:
        mode = os.lstat(name, dir_fd=above).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        _open_up(above, name)
        shutil.rmtree(name, dir_fd=above)
    else:
        os.unlink(name, dir_fd=above)
    return True


def _open_up(above: int, name: str) -> None:
    """Models lie in read-only folders, which even root without capabilities cannot empty."""
    with suppress(FileNotFoundError):
        folder = os.open(name, _FOLDER, dir_fd=above)
        try:
            os.fchmod(folder, 0o700)
            with os.scandir(folder) as entries:
                inner = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            for each in inner:
                _open_up(folder, each)
        finally:
            os.close(folder)
