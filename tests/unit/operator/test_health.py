"""Probes and metrics over a real socket, and the lines of the log."""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry

from modelwright.operator.health import Health, OperatorMetrics, Pages, Standing, served
from modelwright.operator.logs import JsonLines, TextLines
from modelwright.ports.errors import Unavailable

pytestmark = pytest.mark.anyio


def get(url: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


async def test_readiness_says_in_words_how_the_process_stands() -> None:
    health, registry = Health(), CollectorRegistry()
    async with served(Pages(health, registry), "127.0.0.1", 0) as url:
        assert await asyncio.to_thread(get, f"{url}/readyz") == (503, "starting\n")
        health.say("waiting for something")
        assert await asyncio.to_thread(get, f"{url}/readyz") == (503, "waiting for something\n")
        filled: list[int] = []
        health.ask(lambda: Standing(ready=bool(filled), message="leading" if filled else "filling"))
        assert await asyncio.to_thread(get, f"{url}/readyz") == (503, "filling\n")
        filled.append(1)
        assert await asyncio.to_thread(get, f"{url}/readyz") == (200, "leading\n")
        health.say("stopping")
        assert await asyncio.to_thread(get, f"{url}/readyz") == (503, "stopping\n")
        assert await asyncio.to_thread(get, f"{url}/healthz") == (200, "ok\n")


async def test_metrics_are_there_and_nothing_else_is() -> None:
    registry = CollectorRegistry()
    metrics = OperatorMetrics(registry, "a-lease")
    metrics.leader.set(1)
    metrics.answered("GET", 200)
    async with served(Pages(Health(), registry), "127.0.0.1", 0) as url:
        _, text = await asyncio.to_thread(get, f"{url}/metrics")
        assert 'leader_election_master_status{name="a-lease"} 1.0' in text
        assert 'rest_client_requests_total{code="200",method="GET"} 1.0' in text
        assert "modelwright_lease_renew_seconds_count 0.0" in text
        assert (await asyncio.to_thread(get, f"{url}/"))[0] == 404
        assert (await asyncio.to_thread(get, f"{url}/healthz", "POST"))[0] == 405


async def test_a_port_that_is_taken_is_said() -> None:
    pages = Pages(Health(), CollectorRegistry())
    async with served(pages, "127.0.0.1", 0) as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(Unavailable, match=str(port)):
            async with served(pages, "127.0.0.1", port):
                pass


def record(message: str, error: Exception | None = None) -> logging.LogRecord:
    info = (type(error), error, None) if error is not None else None
    made = logging.LogRecord("modelwright.x", logging.WARNING, __file__, 1, message, None, info)
    made.created = 1700000000.25
    return made


def test_a_line_is_one_line_whatever_is_in_it() -> None:
    line = JsonLines().format(record('two\nlines and a "quote"', ValueError("why")))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "modelwright.x",
        "message": 'two\nlines and a "quote"',
        "error": "ValueError: why",
    }
    lines = TextLines().format(record("first", ValueError("why"))).splitlines()
    assert lines[0] == "2023-11-14T22:13:20.250Z WARNING first"
    assert all(rest.startswith("  ") for rest in lines[1:]), "what begins a line is always a time"
