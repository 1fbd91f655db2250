"""The real kubectl, with a cache of its own: what it remembers of one server must not serve for another."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

JSON = dict[str, Any]
DEADLINE_SECONDS = 60


@dataclass(frozen=True)
class Kubectl:
    """kubectl for one server and namespace."""

    program: Path
    kubeconfig: Path
    cache: Path
    namespace: str = ""

    def within(self, namespace: str) -> Kubectl:
        return replace(self, namespace=namespace)

    def command(self, *arguments: str) -> list[str]:
        where = ["--namespace", self.namespace] if self.namespace else []
        return [
            str(self.program), "--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.cache), *where, *arguments,
        ]  # fmt: skip

    def run(self, *arguments: str, stdin: str = "", **environment: str) -> str:
        """What kubectl printed; it must succeed, and say nothing else."""
        done = self._run(arguments, stdin, environment)
        assert done.returncode == 0, f"kubectl {arguments}: {done.stderr}"
        assert done.stderr == "", f"kubectl {arguments} warns: {done.stderr}"
        return done.stdout

    def fail(self, *arguments: str, stdin: str = "", code: int = 1) -> str:
        """What kubectl complained about; it must fail."""
        done = self._run(arguments, stdin, {})
        assert done.returncode == code, f"kubectl {arguments}: {done.returncode} {done.stdout} {done.stderr}"
        return done.stderr or done.stdout

    def differ(self, *arguments: str, stdin: str = "") -> str:
        """What `kubectl diff` found: it tells by its exit code 1 that there is something."""
        done = self._run(("diff", *arguments), stdin, {})
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    def json(self, *arguments: str) -> JSON:
        value: JSON = json.loads(self.run(*arguments, "-o", "json"))
        return value

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """kubectl in the background, its output to be read."""
        pipe, environment = subprocess.PIPE, self._environment({})
        return subprocess.Popen(self.command(*arguments), stdout=pipe, stderr=pipe, text=True, env=environment)

    def _run(
        self, arguments: tuple[str, ...], stdin: str, environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            env=self._environment(environment),
        )

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        # kubectl's own settings of whoever runs the tests must not change what it does.
        return {"PATH": os.environ["PATH"], "HOME": str(self.cache), **more}
