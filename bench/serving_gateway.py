"""What the gateway on the edge node adds to asking the edge model itself."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.gateway import CASES, MOST_ADDED_P50, MOST_ADDED_P99, RATE, Case, Run, body, write_model
from bench.serving_models import packed
from bench.serving_site import Figures, Site
from tests.cluster import namespaces
from tests.cluster.edge.edge_team import JOINT, EdgeTeam
from tests.cluster.rig.names import BARE_NODE
from tests.cluster.serving.team import manifest

from modelwright.http.connection import Connection, Response
from modelwright.http.pool import Pool
from modelwright.http.server import loop_factory
from modelwright.http.streams import open_stream

EASY = [case for case in CASES if not case.hard]
"""The cloud is asked for none of these rows."""
SIZES = {"edge": [65, 64, 10], "cloud": [65, 256, 256, 10]}


class Loaded(NamedTuple):
    """What became of requests, and what was wrong, how often."""

    run: Run
    faults: Counter[str]


def measure(site: Site) -> None:
    """A joint service of a small and a larger network for digits; the gateway and its edge model in turn."""
    rounds, seconds = (2, 4.0) if site.quick else (5, 10.0)
    with namespaces.fresh(site.cluster, "privileged") as namespace:
        team = EdgeTeam(site.cluster, namespace, site.cluster.start_node(BARE_NODE))
        try:
            urls = joined(site, team)
            for case in EASY:
                compare(site.figures, case, urls, rounds, seconds)
        finally:
            team.leave()


def joined(site: Site, team: EdgeTeam) -> dict[str, str]:
    """Where the edge model and the gateway answer, once they do."""
    sources = {}
    for side, sizes in SIZES.items():
        write_model(site.folder / side, sizes)
        file = packed(site.folder / side)
        versions = manifest(v1=(site.downloads.give(file), file.sha256))
        sources[side] = {"modelName": "digits", "manifest": versions, "targetVersion": "v1"}
    team.serve_here("digits-edge", **sources["edge"])
    team.serve("digits-cloud", nodeName="cloud-0", **sources["cloud"])
    team.join("digits", edgeModel={"name": "digits-edge"}, cloudModel={"name": "digits-cloud"}, timeoutSeconds=2)
    team.ready("digits-edge", "digits-cloud", JOINT)
    return {"edge": team.url("digits-edge"), "gateway": team.url(JOINT)}


def compare(figures: Figures, case: Case, urls: dict[str, str], rounds: int, seconds: float) -> None:
    """Alternating rounds, so that both see the same machine; medians over rounds."""
    runs: dict[str, list[Loaded]] = {name: [] for name in urls}
    for url in urls.values():
        run_load(url, case, 1.0)  # connections, caches
    for turn in range(rounds):
        for name in list(urls) if turn % 2 == 0 else list(urls)[::-1]:
            runs[name].append(run_load(urls[name], case, seconds))
    middle = {
        (name, percent): statistics.median(each.run.at(percent) for each in found)
        for name, found in runs.items()
        for percent in (50, 99)
    }
    for name, words in {"edge": "the edge model itself", "gateway": "the gateway"}.items():
        value = f"{middle[name, 50]:.2f} / {middle[name, 99]:.2f} ms"
        figures.report(f"{case.name.removesuffix(', none hard')}: {words}, p50 / p99", value)
    for percent, goal in ((50, MOST_ADDED_P50), (99, MOST_ADDED_P99)):
        added = middle["gateway", percent] - middle["edge", percent]
        figures.most(f"  the gateway adds, p{percent}", added, goal, "ms")
    every = [each for found in runs.values() for each in found]
    failed, asked = sum(each.run.errors for each in every), sum(len(each.run.latencies) for each in every)
    figures.none_failed("  failed requests", failed, asked)
    for fault, count in sum((each.faults for each in every), Counter[str]()).items():
        print(f"    {count} {fault}", flush=True)


def run_load(url: str, case: Case, seconds: float) -> Loaded:
    """The load in this process."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(load(url, case, seconds))


async def load(url: str, case: Case, seconds: float) -> Loaded:
    """An open load: requests start when the clock says so, whatever became of the former ones; late is slow."""
    parts = urlsplit(url if case.protocol == "v1" else url.replace("/v1/models/", "/v2/models/"))
    path = parts.path + (":predict" if case.protocol == "v1" else "/infer")
    requests = []
    for seed in range(64):
        content = body(case, seed)
        head = f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(content)}\r\n\r\n"
        requests.append((head.encode(), content))

    async def connect() -> Connection:
        return Connection(*await open_stream(str(parts.hostname), parts.port or 80))

    pool, latencies, faults = Pool(connect), [], Counter[str]()

    async def one(number: int, due: float) -> None:
        try:
            fault = wrong(await pool.exchange(*requests[number % len(requests)], again=True))
        except Exception as error:
            fault = type(error).__name__
        faults.update([fault] if fault else [])
        latencies.append((time.perf_counter() - due) * 1000)

    began = time.perf_counter() + 0.05
    async with asyncio.TaskGroup() as tasks:
        for number in range(int(seconds * RATE)):
            due = began + number / RATE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.create_task(one(number, due))
    await pool.aclose()
    return Loaded(Run(latencies, faults.total()), faults)


def wrong(response: Response) -> str:
    """What is wrong with an answer that is to come from the edge model; empty for nothing."""
    by = response.headers.get("x-served-by", "edge")
    return f"status {response.status}" if response.status != 200 else "" if by == "edge" else f"served by {by}"
