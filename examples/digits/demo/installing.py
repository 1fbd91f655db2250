"""Our images, built and pushed, and the operator, installed where there is none, and taken away again."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from kube import CHECKOUT, Kube
from plane import DemoFailed
from story import say

BUILD = CHECKOUT / "deploy/image/build.py"
GENERATE = CHECKOUT / "deploy/generate_install.py"
SELECTOR = "app.kubernetes.io/name=modelwright,app.kubernetes.io/component=operator"
MANAGER = "modelwright-demo"
TRAINER = "server-sklearn"
"""What the models are trained in: it has scikit-learn, skops and a Python."""


class Images:
    """Images of this checkout by name, as HOST:PORT/REPOSITORY@DIGEST; those that are given are not built."""

    def __init__(self, kube: Kube, given: dict[str, str]) -> None:
        self._kube, self._made = kube, dict(given)

    def __getitem__(self, name: str) -> str:
        return self._made[name]

    def make(self, *names: str) -> None:
        """Build and push what is not there yet, all of it upon one base."""
        missing = [name for name in names if name not in self._made]
        if not missing:
            return
        say(f"building {', '.join(missing)} ...")
        variants = [part for name in missing for part in ("--variant", name)]
        machines = {node["status"]["nodeInfo"]["architecture"] for node in self._kube.items("nodes")}
        options = [part for machine in sorted(machines) for part in ("--arch", machine)]
        options += ["--plain-http"] if self._kube.plain_http else []
        printed = _run(BUILD, *variants, *options, "--push", f"{self._kube.registry}/modelwright/{{variant}}:demo")
        digests = [line.split()[-1] for line in printed.splitlines()[-len(missing) :]]
        for name, digest in zip(missing, digests, strict=True):
            self._made[name] = f"{self._kube.registry}/modelwright/{name}@{digest}"
            say(self._made[name])


def _run(program: pathlib.Path, *arguments: str, stdin: str = "", **more: Any) -> str:
    """What a program of this checkout prints; raises DemoFailed with its complaint."""
    command = [sys.executable, str(program), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise DemoFailed(f"`{program.name} {' '.join(arguments)}`: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def installed_operator(kube: Kube, images: Images, *, keep: bool) -> Iterator[None]:
    """The operator that runs in the cluster already, else one of this checkout."""
    found = kube.items("deployments", "--all-namespaces", "--selector", SELECTOR)
    if found:
        where = found[0]["metadata"]
        say(f"the operator {where['namespace']}/{where['name']} is there already, and used as it is")
        images.make(TRAINER)
        yield
        return
    images.make("operator", "gateway", TRAINER)
    text = _run(GENERATE, "--values", "-", stdin=json.dumps(values(kube, images)), env=kube.environment)
    kube.run("apply", "--server-side", "--force-conflicts", f"--field-manager={MANAGER}", "-f", "-", stdin=text)
    try:
        deployment = kube.items("deployments", "--all-namespaces", "--selector", SELECTOR)[0]["metadata"]
        name, namespace = deployment["name"], deployment["namespace"]
        kube.run("rollout", "status", f"deployment/{name}", "--namespace", namespace, "--timeout=300s")
        say(f"the operator {namespace}/{name} is installed")
        yield
    finally:
        if not keep:
            kube.run("delete", "--ignore-not-found", "--timeout=180s", "-f", "-", stdin=text)
            say("the operator is removed")


def values(kube: Kube, images: Images) -> dict[str, Any]:
    plain_http = [kube.registry] if kube.plain_http else []
    return {
        "image": _by_digest(images["operator"]),
        "registry": {"default": kube.registry, "plainHTTP": plain_http},
        "serving": {"images": {"gateway": images["gateway"], "sklearn": images[TRAINER]}},
    }


def _by_digest(image: str) -> dict[str, str]:
    repository, _, digest = image.partition("@")
    return {"repository": repository, "digest": digest}
