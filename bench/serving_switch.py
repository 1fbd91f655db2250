"""Changes of versions under load: a large model at the edge, and rollouts in the cloud."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

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

Switch = tuple[float, Report]
"""Seconds from the change of the spec to the first answer of the new version, and all answers."""


# The edge -----------------------------------------------------------------------------------------------------------


def measure_edge(site: Site) -> None:
    """Switches of a large model, each to content that the node has never had, while requests come.

    What plain tools take is measured beside each: `curl` of the same file on the same node, and the server's own time
    to load such a model, at its start, when nothing else is done.
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
            load = load_seconds(team, "v1")
            curls = [curl_seconds(site, url) for url in urls[1:]]
            found = [switch(team, api, number) for number in range(2, rounds + 2)]
        finally:
            team.leave()
    for file in files:
        file.path.unlink()
    report_edge(site.figures, files[0], load, curls, found)


def switch(team: EdgeTeam, api: Api, number: int) -> Switch:
    """Change the spec, under load, to another version."""
    say(f"switching to v{number}")
    with team.traffic(NAME, rate=RATE) as traffic:
        traffic.more()
        began = api.change(NAME, targetVersion=f"v{number}")
        api.ready(NAME)
        traffic.answers(number)
        traffic.more()
    return traffic.report.first(number) - began, traffic.report


def report_edge(figures: Figures, file: File, load: float, curls: list[float], found: list[Switch]) -> None:
    download, took = statistics.median(curls), [seconds for seconds, _ in found]
    figures.report(f"{file.size // MEGABYTE} MB: curl of the file on the node, median", f"{download:.2f} s")
    figures.report("the server's own load of it, at its start", f"{load:.2f} s")
    goal = FACTOR * (download + load) + ADDED_SECONDS
    what = f"change of the spec to serving, worst of {len(took)}"
    figures.report(what, f"{max(took):.2f} s", f"goal <= {goal:.2f} s", met=max(took) <= goal)
    figures.report("  its median", f"{statistics.median(took):.2f} s")
    report_requests(figures, [report for _, report in found])


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
