"""Operators as real processes, on a kube-apiserver of their own: what they do there, they do to no other test."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient
from modelwright.adapters.kubernetes.lease_record import LEASES
from modelwright.adapters.kubernetes.resource import CRDS, Resource, of_kind
from modelwright.api.kinds import KINDS
from modelwright.ports.errors import AlreadyExists, NotFound

DEADLINE_SECONDS = 120.0
LEASE = "operator"
QUICK = ("--lease-duration=6s", "--lease-renew-deadline=4500ms", "--lease-retry-period=200ms")
LASTING = ("--lease-duration=1h", "--lease-renew-deadline=30m", "--lease-retry-period=200ms")
"""A lease that is taken over within a test only if it was given back."""


class Page(NamedTuple):
    """What a page of the operator said."""

    status: int
    body: str


class OperatorProcess:
    """One replica; `log` has everything that it said."""

    def __init__(self, name: str, kubeconfig: Path, folder: Path, options: tuple[str, ...]) -> None:
        self.name = name
        self._output = folder / f"{name}.log"
        command = [sys.executable, "-m", "modelwright", "operator", f"--kubeconfig={kubeconfig}", "--agent-image=a:1"]
        command += [f"--lease-name={LEASE}", "--listen=127.0.0.1:0", "--resync=1s", *options]
        clean = {key: value for key, value in os.environ.items() if not key.startswith("MODELWRIGHT_")}
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                command, env=clean, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    @property
    def log(self) -> str:
        return self._output.read_text()

    def said(self, text: str) -> bool:
        """Whether it has said this; fails once it has ended without."""
        if text in self.log:
            return True
        assert self.process.poll() is None or text in self.log, f"{self.name} ended:\n{self.log}"
        return False

    def page(self, path: str) -> Page:
        """What it answers at a path now; status 0 while it does not answer."""
        found = re.search(r"probes and metrics at (http://[0-9.:]+)", self.log)
        if found is None:
            return Page(0, "")
        try:
            with urllib.request.urlopen(found[1] + path, timeout=10) as answer:
                return Page(answer.status, answer.read().decode())
        except urllib.error.HTTPError as refused:
            with refused:
                return Page(refused.code, refused.read().decode())
        except OSError:
            return Page(0, "")

    @property
    def leads(self) -> bool:
        return self.page("/readyz") == (200, "leading\n")

    @property
    def stands_by(self) -> bool:
        page = self.page("/readyz")
        return page.status == 200 and page.body.startswith("standing by: ")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Its exit code, once it has ended by itself."""
        await until(lambda: self.process.poll() is not None)
        return int(self.process.returncode)


@contextmanager
def operator(kubeconfig: Path, folder: Path, *options: str, name: str = "operator") -> Iterator[OperatorProcess]:
    """A replica that runs for the length of the block, and is gone after it whatever happened."""
    running = OperatorProcess(name, kubeconfig, folder, options)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


async def until(condition: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    """Wait for something to become true; fails if it does not."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.05)


# The cluster --------------------------------------------------------------------------------------------------------


async def lease(client: KubernetesClient) -> JSON | None:
    """The spec of the operators' lease, None if there is none."""
    try:
        found = await client.get(LEASES, "default", LEASE)
    except NotFound:
        return None
    spec: JSON = found.get("spec") or {}
    return spec


async def uninstall(client: KubernetesClient) -> None:
    """No CRD of our names, and no lease: as a cluster that never saw an operator."""
    for kind in KINDS:
        await gone(client, CRDS, kind.crd_name)
    for kind in KINDS:
        await until(lambda name=kind.crd_name: missing(client, CRDS, name))
    await gone(client, LEASES, LEASE, "default")


async def clear(client: KubernetesClient) -> None:
    """No object of our kinds, and no lease."""
    for resource in map(of_kind, KINDS):
        for each in await client.list(resource):
            await gone(client, resource, each["metadata"]["name"], each["metadata"]["namespace"])
    await gone(client, LEASES, LEASE, "default")


async def gone(client: KubernetesClient, resource: Resource, name: str, namespace: str = "") -> None:
    """Delete it, if it is there."""
    try:
        await client.delete(resource, namespace, name)
    except NotFound:
        return


async def missing(client: KubernetesClient, resource: Resource, name: str, namespace: str = "") -> bool:
    """Whether there is no such object."""
    try:
        await client.get(resource, namespace, name)
    except NotFound:
        return True
    return False


async def made(client: KubernetesClient, resource: Resource, namespace: str, body: Any) -> None:
    """Create it once its CRD is served."""

    async def created() -> bool:
        try:
            await client.create(resource, namespace, body)
        except NotFound:
            return False
        except AlreadyExists:
            return True
        return True

    await until(created)


async def states(client: KubernetesClient, *resources: Resource) -> dict[str, str]:
    """The resource version of every object of these kinds, in all namespaces."""
    found: dict[str, str] = {}
    for resource in resources:
        for each in await client.list(resource):
            name = f"{resource.plural}/{each['metadata'].get('namespace', '')}/{each['metadata']['name']}"
            found[name] = each["metadata"]["resourceVersion"]
    return found


def kubeconfig_at(original: Path, url: str, path: Path) -> Path:
    """The same login, for a server at another address."""
    config = json.loads(original.read_text())
    config["clusters"][0]["cluster"]["server"] = url
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path
