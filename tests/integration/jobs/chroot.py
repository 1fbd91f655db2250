"""Kaniko's executor as a process of this machine, in a root of its own.

It takes the root of its file system for the image and removes what is in it. So it runs in a mount namespace that ends
with it, and in a folder made for it, where the model is mounted read-only.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from modelwright.ports.job import BUILD_FOLDER, SHARED_FOLDER

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
DEADLINE_SECONDS = 120
_ENTER = """
set -eu
root=$1 executor=$2 model=$3 shared=$4
shift 4
[ "$(stat -c %d:%i "$root")" != "$(stat -c %d:%i /)" ]
mount --bind "$executor" "$root/kaniko/executor"
mount --bind "$model" "$root{build}"
mount -o remount,bind,ro "$root{build}"
mount --bind "$shared" "$root{shared}"
mount -t proc proc "$root/proc"
exec chroot "$root" /kaniko/executor --force "$@"
"""


class Kaniko:
    """An executor in the folder `root`."""

    def __init__(self, executor: Path, root: Path) -> None:
        self._executor, self._root = executor, root
        for folder in ("kaniko", "proc", "dev", "etc", "tmp", BUILD_FOLDER.strip("/"), SHARED_FOLDER.strip("/")):
            (root / folder).mkdir(parents=True)
        (root / "kaniko" / "executor").touch()

    def put(self, path: str, data: bytes) -> None:
        """A file in its root, as a volume would bring it."""
        file = self._root / path.strip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def run(self, model: Path, shared: Path, arguments: list[str], variables: dict[str, str]) -> None:
        """Build and push. Raises AssertionError with its log if that fails."""
        if os.geteuid() != 0 or self._root.resolve() == Path("/"):
            raise AssertionError("Kaniko needs root, and a folder that is not the machine's root")
        script = _ENTER.format(build=BUILD_FOLDER, shared=SHARED_FOLDER)
        places = [str(path) for path in (self._root, self._executor, model, shared)]
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private",
             "sh", "-c", script, "kaniko", *places, *arguments],
            env={"PATH": PATH, "HOME": "/root", **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
