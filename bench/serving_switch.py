"""Changes of versions under load: a large model at the edge, and rollouts in the cloud."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.serving_models import large_model, packed
from bench.serving_site import MEGABYTE, Api, Figures, Site, say
from tests.cluster import namespaces
from tests.cluster.edge.edge_team import EdgeTeam
from tests.cluster.rig.names import BARE_NODE
from tests.cluster.serving import models
from tests.cluster.serving.models import File
from tests.cluster.serving.team import Team, ask, inference_model, manifest, team_of
from tests.cluster.serving.traffic import Report

NAME = "switched"
RATE = 40.0
LARGE, QUICK = 500 * MEGABYTE, 100 * MEGABYTE
CURLS = 3
FACTOR, ADDED_SECONDS = 1.2, 3.0
"""Serving the new version may take so many times what plain tools take, and so much more."""
REPLICAS = 2


class Switch(NamedTuple):
    """Seconds from the change of the spec to the first answer of the new version; what plain tools take for it; and
    all answers."""

    took: float
    curl: float
    load: float
    report: Report

    @property
    def limit(self) -> float:
        return FACTOR * (self.curl + self.load) + ADDED_SECONDS


# The edge -----------------------------------------------------------------------------------------------------------


def measure_edge(site: Site) -> None:
    """Switches of a large model, each to content that the node has never had, while requests come.

    What plain tools take is measured for each: `curl` of the same file on the same node, before any switch, and how
    long the server says that it has loaded the model, in that switch.
    """
    size, rounds = (QUICK, 1) if site.quick else (LARGE, 3)
    say(f"making {rounds + 1} models of {size // MEGABYTE} MB")
    files = [packed(large_model(site.folder / f"large-{value}", value, size)) for value in range(1, rounds + 2)]
    urls = [site.downloads.give(file) for file in files]
    versions = {f"v{number}": (url, file.sha256) for number, (url, file) in enumerate(zip(urls, files, strict=True), 1)}
    with (
        namespaces.fresh(site.cluster, "privileged") as namespace,
        Api(site.cluster, namespace) as api,
    ):
        team = EdgeTeam(site.cluster, namespace, site.cluster.start_node(BARE_NODE))
        try:
            team.serve_here(NAME, manifest=manifest(**versions), targetVersion="v1")
            api.ready(NAME)
            curls = [curl_seconds(site, url) for url in urls[1:]]
            found = [switch(team, api, number, curl) for number, curl in enumerate(curls, 2)]
        finally:
            team.leave()
    report_edge(site.figures, files[0], found)
    for file in files:
        file.path.unlink()


def switch(team: EdgeTeam, api: Api, number: int, curl: float) -> Switch:
    """Change the spec, under load, to another version."""
    say(f"switching to v{number}")
    with team.traffic(NAME, rate=RATE) as traffic:
        traffic.more()
        began = api.change(NAME, targetVersion=f"v{number}")
        api.ready(NAME)
        traffic.answers(number)
        traffic.more()
    return Switch(traffic.report.first(number) - began, curl, load_seconds(team, f"v{number}"), traffic.report)


def report_edge(figures: Figures, file: File, found: list[Switch]) -> None:
    size = f"{file.size // MEGABYTE} MB"
    figures.report(f"{size}: curl of the file on the node", each(switch.curl for switch in found))
    figures.report("the server's own load of it", each(switch.load for switch in found))
    figures.report("change of the spec to first answer of the new version", each(switch.took for switch in found))
    worst = max(found, key=lambda switch: switch.took - switch.limit)
    goal = f"goal <= {worst.limit:.2f} s"
    figures.report("  the worst by its own goal", f"{worst.took:.2f} s", goal, met=worst.took <= worst.limit)
    report_requests(figures, [switch.report for switch in found])


def each(seconds: Iterable[float]) -> str:
    """The figure of each switch, in their order."""
    return " ".join(f"{one:.2f}" for one in seconds) + " s"


def load_seconds(team: EdgeTeam, version: str) -> float:
    """How long the server has loaded this version, as its metrics say."""
    text = ask(team.url(NAME).partition("/v1/")[0] + "/metrics", body=None).body.decode()
    start, mark = "modelwright_model_load_seconds{", f'version="{version}"'
    (line,) = [line for line in text.splitlines() if line.startswith(start) and mark in line]
    return float(line.split()[-1])


def curl_seconds(site: Site, url: str) -> float:
    """What curl takes for the file on the edge node, onto the disk where models are kept: the median of some times."""
    target = "/var/tmp/bench-curl"
    command = ["curl", "--silent", "--fail", "--output", target, "--write-out", "%{time_total}", url]
    try:
        times = [float(site.cluster.on_node(BARE_NODE, *command)) for _ in range(CURLS)]
    finally:
        site.cluster.on_node(BARE_NODE, "rm", "-f", target)
    return statistics.median(times)


# The cloud ----------------------------------------------------------------------------------------------------------


def measure_cloud(site: Site) -> None:
    """Rollouts of a small model with two replicas, one after the other, while requests come."""
    count = 3 if site.quick else 10
    versions = {}
    for value in range(1, count + 2):
        file = packed(models.onnx_model(site.folder / f"rolled-{value}", value))
        versions[f"v{value}"] = (site.downloads.give(file), file.sha256)
    with team_of(site.cluster) as team, Api(site.cluster, team.namespace) as api:
        first = inference_model(NAME, manifest=manifest(**versions), targetVersion="v1", replicas=REPLICAS)
        api.create(first)
        api.ready(NAME)
        moments, report = rolled(team, api, count)
        team.kubectl("delete", "infm", NAME)
    figures = site.figures
    figures.report("rollouts, replicas", f"{count}, {REPLICAS}")
    answered = [report.first(value) - began for value, (began, _) in enumerate(moments, 2)]
    done = [ready - began for began, ready in moments]
    for what, times in {"first answer of the new version": answered, "nothing of the old is left": done}.items():
        figures.report(f"change to {what}, p50 / max", f"{statistics.median(times):.1f} / {max(times):.1f} s")
    report_requests(figures, [report])


def rolled(team: Team, api: Api, count: int) -> tuple[list[tuple[float, float]], Report]:
    """When each rollout began and was done, and all answers."""
    moments = []
    with team.traffic(NAME, rate=RATE) as traffic:
        traffic.more()
        for value in range(2, count + 2):
            say(f"rollout {value - 1} of {count}")
            moments.append((api.change(NAME, targetVersion=f"v{value}"), api.ready(NAME)))
            time.sleep(1)  # under load, as versions are
        traffic.more()
    return moments, traffic.report


# Both ---------------------------------------------------------------------------------------------------------------


def report_requests(figures: Figures, reports: list[Report]) -> None:
    answers = [answer for report in reports for answer in report.answers]
    failures = [answer for answer in answers if answer.failed]
    figures.none_failed("failed requests", len(failures), len(answers))
    for failure in failures[:5]:
        print(f"    {failure.status or ''} {failure.fault}", flush=True)
    figures.report("  sent again on a new connection", str(sum(answer.again for answer in answers)))
    figures.report("  slowest answer", f"{1000 * max(answer.took for answer in answers):.0f} ms")
