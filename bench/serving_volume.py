"""A large ModelVersion, mounted from its image or unpacked by an init container: seconds, and bytes on the node."""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.serving_models import large_model
from bench.serving_site import DEADLINE_SECONDS, MEGABYTE, Api, Figures, Site, say, until, used_bytes
from tests.cluster.builds import local, version
from tests.cluster.serving import models
from tests.cluster.serving.team import Team, inference_model, team_of

from modelwright.adapters.kubernetes.resource import of_kind
from modelwright.api.kinds import MODEL_VERSION

NODE = "cloud-0"
LARGE, QUICK = 1500 * MEGABYTE, 150 * MEGABYTE
VERSIONS = of_kind(MODEL_VERSION)
FETCH, MOUNT = "init container", "image volume"
SWITCH = "MODELWRIGHT_IMAGE_VOLUMES"
PARTS = {
    "content": "var/lib/containerd/io.containerd.content.v1.content",
    "snapshots": "var/lib/containerd/io.containerd.snapshotter.v1.overlayfs",
    "pods": "var/lib/kubelet/pods",
}
"""Where a node keeps images as they were pulled, images unpacked, and the volumes of Pods."""
PROBES = "app.kubernetes.io/component=image-volume-probe"
SLACK = 0.02
"""How much of the model's size other files may have taken."""


class Disk(msgspec.Struct, frozen=True):
    """Bytes on the node's disk."""

    content: int
    snapshots: int
    pods: int

    def since(self, before: Disk) -> Disk:
        return Disk(self.content - before.content, self.snapshots - before.snapshots, self.pods - before.pods)

    @property
    def all(self) -> int:
        return self.content + self.snapshots + self.pods


class Start(msgspec.Struct, frozen=True):
    """What one more Pod has taken: seconds from what was asked to Ready, and bytes."""

    seconds: float
    wrote: Disk


Pair = tuple[Start, Start]
"""The first Pod with a model on a node, and the second one."""


def measure(site: Site) -> None:
    """Each round has a model of its own, which the node does not have: the init container brings it first, as that
    leaves nothing behind, and then it is mounted, after which its image stays on the node."""
    size, rounds = (QUICK, 1) if site.quick else (LARGE, 3)
    found: dict[str, list[Pair]] = {FETCH: [], MOUNT: []}
    with team_of(site.cluster) as team, Api(site.cluster, team.namespace) as api:
        prepare(site, team, api)
        for number in range(rounds):
            say(f"building a ModelVersion of {size // MEGABYTE} MB, {number + 1} of {rounds}")
            build(site, team, api, f"large-{number}", number + 101, size)
            for way, pairs in found.items():
                say(f"serving it by {way}")
                with way_of(site, way):
                    pairs.append(served(site, team, api, f"large-{number}", way))
                say(f"Ready after {pairs[-1][0].seconds:.1f} s, a second Pod after {pairs[-1][1].seconds:.1f} s")
    report(site.figures, size, found)


def prepare(site: Site, team: Team, api: Api) -> None:
    """Have the images on the node, and a Pod show that it can mount models: neither is part of what is measured."""
    build(site, team, api, "small", 1, 0)
    with way_of(site, MOUNT):
        api.create(inference_model("prepare", modelVersion="small", nodeName=NODE))
        api.ready("prepare")
        probes = ("--selector", f"{PROBES},modelwright.dev/node={node_uid(site)}")
        phases = ("get", "pods", *probes, "-o", "jsonpath={.items[*].status.phase}")
        until(lambda: "Succeeded" in site.operator.run(*phases), f"a Pod to show that {NODE} can mount images", 180)
        team.kubectl("delete", "infm", "prepare")


def node_uid(site: Site) -> str:
    return str(site.cluster.get("node", NODE)["metadata"]["uid"])


def build(site: Site, team: Team, api: Api, name: str, value: int, size: int) -> None:
    """Build a ModelVersion; the folder that it is made from is removed."""
    path = f"models/{team.namespace}/{name}"
    folder = Path(site.cluster.node(NODE).root, path)
    if size:
        large_model(folder, value, size)
    else:
        models.onnx_model(folder, value)
    try:
        api.create(version(name, local(NODE, f"/{path}")), VERSIONS)
        api.ready(name, VERSIONS, seconds=600)
    finally:
        shutil.rmtree(folder.parent)


@contextmanager
def way_of(site: Site, way: str) -> Iterator[None]:
    """The operator as an admin has it who wants image volumes, or none."""
    if way == MOUNT:
        yield
        return
    site.operator.set_environment(**{SWITCH: "false"})
    try:
        yield
    finally:
        site.operator.set_environment(**{SWITCH: None})


def served(site: Site, team: Team, api: Api, model: str, way: str) -> Pair:
    """Serve it with one Pod, then with two on the same node, and remove it."""
    name = f"{model}-{way.split(maxsplit=1)[0]}"
    before = disk(site)
    began = api.create(inference_model(name, modelVersion=model, nodeName=NODE))
    ready = api.ready(name)
    check(team, name, way)
    one = disk(site)
    again = api.change(name, replicas=2)
    both = api.ready(name)
    pair = Start(ready - began, one.since(before)), Start(both - again, disk(site).since(one))
    uids = [pod["metadata"]["uid"] for pod in team.pods(name)]
    team.kubectl("delete", "infm", name)
    pods = Path(site.cluster.node(NODE).root, PARTS["pods"])
    until(lambda: not any((pods / uid).exists() for uid in uids), f"the Pods of {name} to be gone", DEADLINE_SECONDS)
    return pair


def check(team: Team, name: str, way: str) -> None:
    """Raises ValueError if the model came in the other way."""
    (pod,) = team.pods(name)
    mounted = any("image" in volume for volume in pod["spec"]["volumes"])
    if mounted != (way == MOUNT):
        raise ValueError(f"{name} was to be served by {way}, and its Pod has {'an' if mounted else 'no'} image volume")


def disk(site: Site) -> Disk:
    """After a moment in which what was just ended is tidied up."""
    time.sleep(2)
    root = Path(site.cluster.node(NODE).root)
    return Disk(**{part: used_bytes(root / folder) for part, folder in PARTS.items()})


# Figures ------------------------------------------------------------------------------------------------------------


def report(figures: Figures, size: int, found: dict[str, list[Pair]]) -> None:
    figures.report("the model", f"{size / MEGABYTE:.0f} MB")
    for number, which in enumerate(("first Pod on a node", "second Pod on the node")):
        starts = {way: [pair[number] for pair in pairs] for way, pairs in found.items()}
        seconds = {way: statistics.median(start.seconds for start in all_) for way, all_ in starts.items()}
        for way in found:
            figures.report(f"{which}, {way}: until Ready", f"{seconds[way]:.1f} s")
            report_disk(figures, [start.wrote for start in starts[way]])
        figures.report("  an image volume saves", f"{seconds[FETCH] - seconds[MOUNT]:.1f} s")
        figures.report("  and bytes", f"{(wrote(starts[FETCH]) - wrote(starts[MOUNT])) / MEGABYTE:.0f} MB")
    unpacked = [(one.wrote.snapshots + one.wrote.pods + two.wrote.all) / size for one, two in found[MOUNT]]
    once = max(abs(copies - 1) for copies in unpacked) <= SLACK
    what = "image volume: model on the node for both Pods, unpacked"
    figures.report(what, f"{statistics.median(unpacked):.2f} times", "goal once", met=once)
    pulled = statistics.median(one.wrote.content for one, _ in found[MOUNT]) / size
    figures.report("  and beside it, as containerd has pulled it", f"{pulled:.2f} times")


def report_disk(figures: Figures, wrote: list[Disk]) -> None:
    words = {
        "content": "the image as it was pulled",
        "snapshots": "the image unpacked",
        "pods": "volumes of the Pod",
    }
    for part, what in words.items():
        value = statistics.median(getattr(each, part) for each in wrote)
        figures.report(f"    written: {what}", f"{value / MEGABYTE:.0f} MB")


def wrote(starts: list[Start]) -> float:
    return statistics.median(start.wrote.all for start in starts)
