"""Serving on a real cluster of two nodes and an edge node: part of `make bench-cluster`.

    python bench/serving.py [--quick] [--only PART ...]

On the cluster of MODELWRIGHT_TEST_RIG=STATE_FILE, else on one that is started and removed, with the operator installed
from this checkout's image. Parts:

gateway        what the gateway on the edge node adds to asking the edge model itself, at 200 requests/s
switch         a 500 MB model at the edge switches under load, beside what curl and the server's own load take
rollouts       ten rollouts of two replicas in the cloud under load
first-answer   creation to first answer in the cloud and at the edge, with the images on the node
image-volume   a 1.5 GB ModelVersion as an image volume and by an init container: seconds, bytes on the node's disk

Ends with 1 if a goal is missed or a part came to no end. On a cluster that was given, models that were built stay in
its registry, and mounted ones among the images of its node, until the cluster goes.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import serving_gateway, serving_start, serving_switch, serving_volume
from bench.serving_site import Site, at_most, say, site
from tests.cluster.rig import consent


class Part(NamedTuple):
    """A measurement, and how many minutes it may take."""

    title: str
    measure: Callable[[Site], None]
    minutes: int


PARTS = {
    "gateway": Part("gateway on the edge node, open load of 200 requests/s", serving_gateway.measure, 20),
    "switch": Part("switch of a large model at the edge, 40 requests/s", serving_switch.measure_edge, 20),
    "rollouts": Part("rollouts in the cloud, 40 requests/s", serving_switch.measure_cloud, 20),
    "first-answer": Part("creation to first answer, images on the node", serving_start.measure, 20),
    "image-volume": Part("a large ModelVersion comes to a node", serving_volume.measure, 40),
}


def main() -> int:
    arguments = parsed()
    signal.signal(signal.SIGTERM, ended)
    try:
        return measured(arguments.only or list(PARTS), quick=arguments.quick)
    except consent.Refused as refusal:
        print(f"serving is not measured: {refusal}", file=sys.stderr)
        return 2


def measured(names: list[str], *, quick: bool) -> int:
    """Measures these parts; 1 if one of them misses a goal."""
    with site(quick=quick) as where:
        for name in names:
            run(where, PARTS[name])
    for what in where.figures.missed:
        print(f"MISSED: {what.strip()}")
    return 1 if where.figures.missed else 0


def run(where: Site, part: Part) -> None:
    """One part; what goes wrong in it is told, and keeps no other from being measured."""
    print(f"serving: {part.title}{' (quick: smaller, and fewer times)' if where.quick else ''}", flush=True)
    began = time.monotonic()
    try:
        with at_most(60 * part.minutes, part.title):
            part.measure(where)
    except Exception as fault:
        where.figures.failed(part.title, fault)
    say(f"{time.monotonic() - began:.0f} s")


def ended(_: int, __: FrameType | None) -> NoReturn:
    """Whoever ends this leaves nothing behind either."""
    sys.exit(143)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller models, and fewer times")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part alone; may be given again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
