"""The plain pages of `modelwright up`."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.testclient import TestClient

from modelwright.web.pages import Places, routes


@pytest.fixture
def client() -> TestClient:
    places = Places("https://127.0.0.1:1", "/home/you/<my> data/kubeconfig", "127.0.0.1:2")
    return TestClient(Starlette(routes=routes(places, CollectorRegistry())))


def test_the_front_page_says_what_can_be_pasted_into_a_shell(client: TestClient) -> None:
    page = client.get("/").text
    assert "export KUBECONFIG=&#x27;/home/you/&lt;my&gt; data/kubeconfig&#x27;" in page
    assert "--token-file &#x27;/home/you/&lt;my&gt; data/token&#x27;" in page
    assert "https://127.0.0.1:1" in page
    assert "127.0.0.1:2/REPOSITORY" in page


def test_no_page_runs_a_script_or_loads_anything(client: TestClient) -> None:
    for path in ("/", "/healthz", "/metrics"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert "<script" not in answer.text
