"""The pages that a reader follows: their commands, run in one shell as they are written, and what they should print."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.e2e.plane import BIN

ROOT = Path(__file__).parents[2]
DEADLINE = 120.0
OF_THE_TEST = ("export PATH=", "modelwright up", ".venv/bin/modelwright up")
"""What the test does itself: the path, and the control plane in the foreground of another terminal."""


class Step(NamedTuple):
    """A command, and the lines that the page shows of what it prints."""

    page: str
    command: str
    shown: tuple[str, ...]


def steps(page: Path, section: str = "") -> list[Step]:
    """What stands in the `console` blocks of a page, or of one section of it."""
    text = page.read_text()
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    found = [step for block in blocks for step in steps_of(block, page.name)]
    return [step for step in found if not step.command.startswith(OF_THE_TEST)]


def steps_of(block: str, page: str) -> Iterator[Step]:
    """Each begins with `$ `; a backslash at the end of a line goes on in the next."""
    for part in re.split(r"^\$ ", block.replace("\\\n", ""), flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield Step(page, command.strip(), tuple(line.strip() for line in shown if line.strip() not in ("", "…")))


# What is printed ------------------------------------------------------------------------------------------------------

LOOSE = (
    (r"\s*…\s*", r".*"),
    (r"sha256:[0-9a-f]+", r"sha256:[0-9a-f]+"),
    (r"127\.0\.0\.1:\d+", r"127\.0\.0\.1:\d+"),
    (r":v[0-9a-f]{5}\b", r":v[0-9a-f]{5,}"),
    (r"\b\d+(\.\d+)? (k|M)?B\b", r"[\d.]+ \w*B"),
    (r"\b0\.\d+\b", r"[01](\.\d+)?"),
    (r"\b\d+(s|m)\b", r"[\dhms]+"),
    (r"\s+", r"\s+"),
)
"""What a page spells in one way and every run in another: digests, ports, tags, sizes, measures, ages, columns."""


def pattern(line: str) -> re.Pattern[str]:
    """What a line that a page shows may look like."""
    found = re.compile("|".join(f"(?P<p{number}>{shown})" for number, (shown, _) in enumerate(LOOSE)))
    out, end = [], 0
    for match in found.finditer(line):
        out += [re.escape(line[end : match.start()]), LOOSE[int(str(match.lastgroup)[1:])][1]]
        end = match.end()
    return re.compile("".join([*out, re.escape(line[end:])]))


def missing(shown: tuple[str, ...], printed: str) -> str:
    """The first line that the page shows and the command has not printed, in that order; empty if all are there."""
    lines = iter(printed.splitlines())
    return next((line for line in shown if not any(pattern(line).search(each) for each in lines)), "")


# Running --------------------------------------------------------------------------------------------------------------


class Shell:
    """A terminal: commands are run one after the other in the same bash, with what they print put together."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._script = folder / "command.sh"
        self._process = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=ROOT,
            start_new_session=True,
        )

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the shell, and what it has left in the background."""
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.communicate(timeout=DEADLINE)

    def run(self, command: str) -> str:
        """What it prints; it must end with 0."""
        mark = secrets.token_hex(8)
        self._script.write_text(command + "\n")
        assert self._process.stdin is not None
        self._process.stdin.write(f". '{self._script}' < /dev/null; echo; echo {mark} $?\n".encode())
        self._process.stdin.flush()
        printed, _, code = self._read(mark).partition(f"\n{mark} ")
        assert code == "0", f"{command}\n{printed}"
        return printed

    def _read(self, mark: str) -> str:
        assert self._process.stdout is not None
        descriptor, end, printed = self._process.stdout.fileno(), time.monotonic() + DEADLINE, b""
        while not re.search(rf"^{mark} \d+\n".encode(), printed, re.MULTILINE):
            ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            part = os.read(descriptor, 65536) if ready else b""
            assert part, (
                f"no end within {DEADLINE:.0f} s: {self._script.read_text()}\n{printed.decode(errors='replace')}"
            )
            printed += part
        return printed.decode(errors="replace").rstrip("\n")


@contextlib.contextmanager
def home(folder: Path) -> Iterator[tuple[dict[str, str], str]]:
    """A reader's home with a control plane running, as the first terminal has it; the second's environment, and where
    the control plane listens."""
    (folder / "home").mkdir()
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(folder / "home"), "NO_COLOR": "1", "PYTHONWARNINGS": ""}
    for name in ("KUBECONFIG", "XDG_DATA_HOME"):
        environment.pop(name, None)
    command = [str(BIN / "modelwright"), "up", "--listen", "127.0.0.1:0"]
    with (
        (folder / "up.log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment) as up,
    ):
        assert up.stdout is not None
        ready = up.stdout.readline()
        try:
            assert ready.startswith("ready http://127.0.0.1:"), (folder / "up.log").read_text()
            yield environment, ready.split()[1].removeprefix("http://")
        finally:
            up.send_signal(signal.SIGINT)
    assert up.returncode == 0, (folder / "up.log").read_text()


def walk(walked: Iterable[Step], folder: Path) -> list[str]:
    """Take these steps in one terminal, with folders and ports of the test's own; what they printed."""
    (folder / "work").mkdir()
    printed = []
    with home(folder) as (environment, listening), Shell(environment, folder) as shell:
        here = {
            "/tmp/digits": str(folder / "work" / "digits"),
            "127.0.0.1:7817": listening,
            "127.0.0.1:8500": f"127.0.0.1:{unused_port()}",
        }
        for step in walked:
            printed.append(shell.run(adapted(step.command, here)))
            absent = missing(tuple(adapted(line, here) for line in step.shown), printed[-1])
            assert not absent, f"{step.page}: `{step.command}` does not print\n  {absent}\nbut\n{printed[-1]}"
    return printed


def adapted(text: str, here: Mapping[str, str]) -> str:
    for written, real in here.items():
        text = text.replace(written, real)
    return text


def unused_port() -> int:
    """One below those that the system gives to connections, so that nobody takes it by chance."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("no port is free")
