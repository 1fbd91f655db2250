"""Runs the command line, in this process or as a program of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import typer
from typer.testing import CliRunner, Result

from modelwright.cli import apply, delete, describe, get, logs, predict, wait

DEADLINE_SECONDS = 60


def make_app() -> typer.Typer:
    """The client verbs, and nothing else."""
    app = typer.Typer(pretty_exceptions_enable=False)
    for verb in (apply, delete, describe, get, logs, predict, wait):
        verb.register(app)
    return app


@dataclass(frozen=True)
class Cli:
    """The verbs for one server and namespace."""

    kubeconfig: Path
    namespace: str = ""

    def within(self, namespace: str) -> Cli:
        return replace(self, namespace=namespace)

    def arguments(self, *words: str) -> list[str]:
        where = ["--namespace", self.namespace] if self.namespace else []
        return [words[0], "--kubeconfig", str(self.kubeconfig), *where, *words[1:]]

    def run(self, *words: str, stdin: str = "") -> str:
        """What was printed; it must succeed, and complain of nothing."""
        result = self._invoke(words, stdin)
        assert result.exit_code == 0, result.stderr
        assert result.stderr == ""
        return result.stdout

    def fail(self, *words: str, stdin: str = "", code: int = 1) -> str:
        """What was complained of; it must fail, without a traceback."""
        result = self._invoke(words, stdin)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result.stderr

    def start(self, *words: str, **more: int) -> subprocess.Popen[str]:
        """As a program of its own."""
        root = Path(__file__).parents[3]
        environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONWARNINGS": "error"}
        command = [sys.executable, "-m", "tests.integration.cli.support", *self.arguments(*words)]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen(command, text=True, env=environment, **streams)  # type: ignore[call-overload, no-any-return]

    def _invoke(self, words: tuple[str, ...], stdin: str) -> Result:
        return CliRunner().invoke(make_app(), self.arguments(*words), input=stdin, catch_exceptions=False)


if __name__ == "__main__":
    make_app()()
