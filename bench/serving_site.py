"""What the measurements of serving on a cluster share: where they run, how time is taken, and how figures are said."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Self

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.cluster import operator as operators
from tests.cluster.operator import Operator
from tests.cluster.rig import consent, leftovers, lifecycle, state
from tests.cluster.rig.cluster import Cluster
from tests.cluster.serving.downloads import Downloads
from tests.cluster.serving.team import ask

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import Resource, of_kind
from modelwright.api.kinds import INFERENCE_MODEL
from modelwright.ports.errors import ModelwrightError

RIG = "MODELWRIGHT_TEST_RIG"
MODELS = of_kind(INFERENCE_MODEL)
DEADLINE_SECONDS = 300.0
LOOK_SECONDS = 0.05
"""How often a condition is looked at: so much may be too much in a time."""
MEGABYTE = 1_000_000


class Figures:
    """Prints figures, and knows whether one has missed its goal."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def report(self, what: str, value: str, goal: str = "", *, met: bool = True) -> None:
        """A figure; with its goal, whether it is met."""
        verdict = ("met" if met else "MISSED") if goal else ""
        print(f"  {what:58} {value:>16}  {goal:26}{verdict}".rstrip(), flush=True)
        if not met:
            self.missed.append(what)

    def most(self, what: str, value: float, goal: float, unit: str, digits: int = 2) -> None:
        """A figure that is to be `goal` at most."""
        self.report(what, f"{value:.{digits}f} {unit}", f"goal <= {goal:g} {unit}", met=value <= goal)

    def none_failed(self, what: str, failed: int, count: int) -> None:
        """Of so many requests, how many were not answered with 200."""
        self.report(what, f"{failed} of {count}", "goal 0", met=not failed and count > 0)

    def failed(self, what: str, fault: BaseException) -> None:
        """A measurement that came to no end."""
        self.report(what, "NOT MEASURED", "", met=False)
        print(f"    {type(fault).__name__}: {fault}", flush=True)
        for note in getattr(fault, "__notes__", ()):
            print(note, file=sys.stderr, flush=True)


class Site(msgspec.Struct, frozen=True):
    """Where all parts measure: a cluster with the operator in it, a server of files, and a folder for them."""

    cluster: Cluster
    operator: Operator
    downloads: Downloads
    folder: Path
    figures: Figures
    quick: bool


@contextlib.contextmanager
def site(*, quick: bool) -> Iterator[Site]:
    """The cluster of MODELWRIGHT_TEST_RIG=STATE_FILE, else one that is started and removed."""
    with _cluster() as cluster, tempfile.TemporaryDirectory(prefix="mw-bench-", dir=state.cache()) as folder:
        say("installing the operator, with images of this checkout")
        operator = operators.install(cluster)
        with Downloads(cluster.state.names.gateway) as downloads:
            yield Site(cluster, operator, downloads, Path(folder), Figures(), quick)


@contextlib.contextmanager
def _cluster() -> Iterator[Cluster]:
    if rig := os.environ.get(RIG):
        yield Cluster.of(state.read(Path(rig)))
        return
    consent.check()
    programs = consent.install_programs()
    leftovers.remove()
    say("starting a cluster")
    with lifecycle.running_cluster(leftovers.own_name("b"), programs) as running:
        yield running


def say(what: str) -> None:
    """What is being done, for who watches."""
    print(f"    {what}", file=sys.stderr, flush=True)


# Time ---------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def at_most(seconds: int, what: str) -> Iterator[None]:
    """Raises TimeoutError in what takes longer."""

    def late(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"{what} took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def until(probe: Callable[[], Any], what: str, seconds: float = DEADLINE_SECONDS) -> Any:
    """What `probe` gives, once it gives something. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not (found := probe()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(LOOK_SECONDS)
    return found


class Api:
    """One namespace of the Kubernetes API, over a connection that stays.

    A look at an object takes a millisecond or two; a kubectl would take a tenth of a second of CPU.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._config, self._namespace = load_kubeconfig([cluster.kubeconfig]), namespace

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner()
        self._client = self._runner.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()

    def create(self, body: dict[str, Any], kind: Resource = MODELS) -> float:
        """Make an object; the moment at which this was asked for."""
        began = time.monotonic()
        self._runner.run(self._client.create(kind, self._namespace, body))
        return began

    def change(self, name: str, kind: Resource = MODELS, **spec: Any) -> float:
        """Change fields of a spec; the moment at which this was asked for."""
        began = time.monotonic()
        self._runner.run(self._client.merge_patch(kind, self._namespace, name, {"spec": spec}))
        return began

    def get(self, name: str, kind: Resource = MODELS) -> dict[str, Any]:
        """The object as it is; what passes by itself is asked again."""
        while True:
            try:
                return self._runner.run(self._client.get(kind, self._namespace, name))
            except ModelwrightError as error:
                if not error.retryable:
                    raise
                time.sleep(LOOK_SECONDS)

    def ready(self, name: str, kind: Resource = MODELS, *, seconds: float = DEADLINE_SECONDS) -> float:
        """Wait until the newest spec is fully realised; the moment at which that was seen."""
        until(lambda: is_ready(self.get(name, kind)), f"{kind.kind} {name} to be Ready", seconds)
        return time.monotonic()

    def answers(self, name: str, seconds: float = DEADLINE_SECONDS) -> float:
        """Wait until status.url is there, and answers there; the moment at which the answer had come."""
        url = str(until(lambda: self.get(name).get("status", {}).get("url"), f"{name} to have a URL", seconds))
        until(lambda: _answered(f"{url}:predict"), f"{name} to answer at {url}", seconds)
        return time.monotonic()

    async def _open(self) -> KubernetesClient:
        return await KubernetesClient(self._config).__aenter__()


def is_ready(found: dict[str, Any]) -> bool:
    """Whether the newest spec of an object is fully realised."""
    status = found.get("status", {})
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return False
    return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))


def _answered(url: str) -> bool:
    try:
        return ask(url, seconds=10, patience=0).status == 200
    except OSError:
        return False


# The node -----------------------------------------------------------------------------------------------------------


def used_bytes(folder: Path) -> int:
    """The room that files of a node take on the disk, as the host sees it: without what is mounted there."""
    du = ["du", "--summarize", "--one-file-system", "--block-size=1", str(folder)]
    done = subprocess.run(du, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # files may come and go
    return int(done.stdout.split()[0]) if folder.exists() else 0
