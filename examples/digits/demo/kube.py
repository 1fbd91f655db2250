"""The cluster that the demo runs on: the one of KUBECONFIG, else the project's test cluster, started for it."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from plane import DemoFailed

CHECKOUT = pathlib.Path(__file__).resolve().parents[3]
RIG = [sys.executable, "-m", "tests.cluster.rig"]
RIG_NAME = "demo"


class Kube:
    """kubectl, against one cluster and one namespace; and the registry that its nodes pull from."""

    def __init__(self, kubeconfig: str, path: str, registry: str, *, plain_http: bool) -> None:
        self.kubeconfig, self.registry, self.plain_http = kubeconfig, registry, plain_http
        self.environment = {**os.environ, "PATH": path, "KUBECONFIG": kubeconfig}
        program = shutil.which("kubectl", path=path)
        if program is None:
            raise DemoFailed("kubectl is not found: https://kubernetes.io/docs/tasks/tools says how to install it")
        self._program = program
        self.namespace = "default"

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints; raises DemoFailed with its complaint."""
        done = subprocess.run(
            [self._program, *arguments], input=stdin, capture_output=True, text=True, env=self.environment
        )
        if done.returncode != 0:
            raise DemoFailed(f"`kubectl {' '.join(arguments)}`: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def get(self, *arguments: str) -> Any:
        return json.loads(self.run("get", *arguments, "-o", "json"))

    def items(self, *arguments: str) -> list[Any]:
        """What `kubectl get` lists."""
        found: list[Any] = self.get(*arguments)["items"]
        return found

    def apply(self, *objects: Any) -> None:
        self.run(
            "apply",
            "--server-side",
            "-f",
            "-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
        )

    def in_namespace(self, namespace: str, folder: pathlib.Path) -> Kube:
        """The same cluster by a kubeconfig of its own (in `folder`), whose context has this namespace."""
        own = folder / "kubeconfig"
        own.touch(mode=0o600)
        own.write_text(self.run("config", "view", "--raw", "--minify", "--flatten"))
        there = Kube(str(own), self.environment["PATH"], self.registry, plain_http=self.plain_http)
        there.run("config", "set-context", "--current", "--namespace", namespace)
        there.namespace = namespace
        return there


@contextlib.contextmanager
def cluster(*, keep: bool) -> Iterator[Kube]:
    """That of KUBECONFIG; without that a test cluster, which is removed again, unless it is to be kept."""
    if given := os.environ.get("KUBECONFIG"):
        registry = os.environ.get("MODELWRIGHT_REGISTRY", "")
        if not registry:
            raise DemoFailed(
                "MODELWRIGHT_REGISTRY=HOST:PORT has to name a registry that this machine may push to and the nodes "
                "pull from; with MODELWRIGHT_PLAIN_HTTP=1 it is spoken to without TLS"
            )
        plain_http = os.environ.get("MODELWRIGHT_PLAIN_HTTP") == "1"
        yield Kube(given, os.environ["PATH"], registry.rstrip("/"), plain_http=plain_http)
        return
    found = _rig("status") is not None
    try:
        yield _started()
    finally:
        if not (keep or found):
            _rig("down")


def _started() -> Kube:
    said = _rig("up", stderr=None)
    if said is None:
        raise DemoFailed("there is no cluster: KUBECONFIG is not set, and none was started here (see above)")
    prefix = "export "
    lines = [line.removeprefix(prefix).partition("=") for line in said.splitlines() if line.startswith(prefix)]
    settings = {name: value for name, _, value in lines}
    path = settings["PATH"].replace("$PATH", os.environ["PATH"])
    return Kube(settings["KUBECONFIG"], path, settings["REGISTRY"], plain_http=True)


def _rig(verb: str, stderr: int | None = subprocess.DEVNULL) -> str | None:
    """What it prints; None if it fails."""
    command = [*RIG, verb, "--name", RIG_NAME]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=CHECKOUT)
    return done.stdout if done.returncode == 0 else None
