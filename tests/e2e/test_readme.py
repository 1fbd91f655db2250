"""The commands of the README, as a reader would run them."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

from tests.e2e.plane import BIN

ROOT = Path(__file__).parents[2]
OWN_LINES = ("export PATH=", ".venv/bin/modelwright up")
"""What the test does itself: the path, and the control plane in the foreground of another terminal."""


def commands() -> list[str]:
    """The commands of the five-minute tour."""
    tour = (ROOT / "README.md").read_text().partition("## Five minutes")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", tour, re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [line for line in lines if not line.startswith(OWN_LINES)]


def test_the_five_minute_tour_works_as_it_is_written(tmp_path: Path) -> None:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path / "home"), "PYTHONWARNINGS": ""}
    for name in ("KUBECONFIG", "XDG_DATA_HOME"):
        environment.pop(name, None)
    (tmp_path / "home").mkdir()
    up = subprocess.Popen(
        [str(BIN / "modelwright"), "up", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    with up:
        assert up.stdout is not None
        assert up.stdout.readline().startswith("ready http://127.0.0.1:")
        try:
            printed = [run(command, tmp_path, environment) for command in commands()]
        finally:
            up.send_signal(signal.SIGINT)
    assert up.returncode == 0
    assert len(printed) >= 10
    assert any('"predictions"' in text for text in printed)
    assert "digits-v2" in printed[-1], "the history that `describe` shows"


def run(command: str, tmp_path: Path, environment: dict[str, str]) -> str:
    """One command by the shell, in the root of the checkout, with folders of the test's own."""
    command = command.replace("/tmp/digits", shlex.quote(str(tmp_path / "digits")))
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout
