"""Any Kubernetes that tests run against: this project's own cluster, or one that was given."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec


class Kubernetes(msgspec.Struct, frozen=True):
    """How an administrator reaches it."""

    kubeconfig: Path
    kubectl: Path

    def run(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl; what it printed. Raises CalledProcessError, with what it complained of as a note."""
        command = [str(self.kubectl), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True)
        if check and done.returncode:
            fault = subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
            fault.add_note(done.stderr)
            raise fault
        return done.stdout

    def get(self, *arguments: str) -> dict[str, Any]:
        """`kubectl get ARGUMENTS -o json`."""
        decoded: dict[str, Any] = json.loads(self.run("get", *arguments, "-o", "json"))
        return decoded

    def apply(self, *objects: dict[str, Any], namespace: str = "default") -> None:
        """Create or change objects, by server-side apply."""
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.run("apply", "--server-side", "--namespace", namespace, "-f", "-", stdin=manifest)

    def wait_for_service_account(self, namespace: str) -> None:
        """Wait until Pods can be made in a new namespace."""
        self.run("wait", "--for=create", "--timeout=60s", "serviceaccount/default", "--namespace", namespace)
