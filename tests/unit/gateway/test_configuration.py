"""What a gateway is told to do is checked, and taken over in place."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.gateway.conftest import EASY, HARD, Open
from tests.unit.gateway.models import SmallModel
from tests.unit.kubernetes.servers import Asked

from modelwright.gateway import config as configuration
from modelwright.gateway.address import parse_url
from modelwright.gateway.config import GatewayConfig, ModelConfig
from modelwright.gateway.options import GatewayOptions, config_by_hand
from modelwright.ports.errors import Invalid

URL = "http://127.0.0.1:8501/v1/models/m"
WHOLE = {
    "name": "digits",
    "edge": {"url": URL},
    "cloud": {"url": "https://example.org/models/v1/models/big"},
    "policy": "margin",
    "parameters": {"threshold": 0.4},
    "timeoutSeconds": 0.5,
    "keepFolder": "/kept",
    "keepMaxBytes": 1000,
    "somethingNewer": True,
}


def parse(**changes: Any) -> GatewayConfig:
    return configuration.parse(json.dumps(WHOLE | changes).encode(), "a test")


def test_a_configuration_is_read_with_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(WHOLE))
    found, digest = configuration.read(path)
    assert (found.name, found.edge.url, found.policy, found.timeout_seconds) == ("digits", URL, "margin", 0.5)
    assert len(digest) == 64


def test_a_name_is_enough() -> None:
    found = configuration.parse(b'{"name": "digits"}', "a test")
    assert (found.edge.url, found.cloud.url, found.policy) == ("", "", "confidence")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": ""}, "name must be"),
        ({"name": "a/b"}, "name must be"),
        ({"timeoutSeconds": 0}, "timeoutSeconds"),
        ({"timeoutSeconds": 601}, "timeoutSeconds"),
        ({"timeoutSeconds": "2"}, "timeoutSeconds"),
        ({"keepMaxBytes": 0}, "keepMaxBytes"),
        ({"maxRequestBytes": 0}, "maxRequestBytes"),
        ({"policy": "nope"}, "there is no policy 'nope'"),
        ({"parameters": {"threshold": 2}}, "threshold must be"),
        ({"edge": {"url": "ftp://x/v1/models/m"}}, "ftp://x"),
        ({"edge": URL}, "edge"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match="a test") as refused:
        parse(**changes)
    assert told in refused.value.message
    assert refused.value.reason == "ConfigInvalid"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"name": 1}', b"\xff", b"[" * 100000])
def test_what_is_no_configuration_is_refused(content: bytes) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        configuration.parse(content, "a test")


def test_a_configuration_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="No such file"):
        configuration.read(tmp_path / "none")


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        (URL, ("http", "127.0.0.1", 8501, "127.0.0.1:8501", "", "m")),
        ("https://h/a/b/v2/models/x%20y/", ("https", "h", 443, "h", "/a/b", "x y")),
        ("http://[::1]:9/v1/models/m", ("http", "::1", 9, "[::1]:9", "", "m")),
    ],
)
def test_a_url_leads_to_a_model(url: str, parts: tuple[object, ...]) -> None:
    assert tuple(parse_url(url)) == parts


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://h",
        "http://h/v1/models/",
        "http://h/v1/models/a/b",
        "http://h/v1/models/m:predict",
        "http://h/v1/models/m?x=1",
        "http://h/v1/models/m#x",
        "http://u:p@h/v1/models/m",
        "http://h:x/v1/models/m",
        "http:///v1/models/m",
        "file:///v1/models/m",
        "http://h/v1/models/m\r\nX: y",
        "http://h o/v1/models/m",
        "http://hö/v1/models/m",
        "http://h/€/v1/models/m",
    ],
)
def test_any_other_url_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match=r"not of the form http://HOST:PORT/v1/models/NAME"):
        parse_url(url)


def test_by_hand_the_name_is_the_edge_models() -> None:
    found = config_by_hand(GatewayOptions(edge=ModelConfig(URL), cloud=ModelConfig("http://h/v1/models/big")))
    assert found.name == "m"
    with pytest.raises(Invalid, match="--edge URL and --cloud URL"):
        config_by_hand(GatewayOptions(edge=ModelConfig(URL)))


# In force -----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_another_configuration_is_in_force_at_once(stage: Open) -> None:
    async with stage() as on:
        app, before = on.client.app, on.client.app.joint.config
        assert (await on.client.predict(HARD)).by == "cloud"
        edge = app.joint.pair.edge
        app.configure(GatewayConfig(name="joint", edge=before.edge, cloud=before.cloud, parameters={"threshold": 0.1}))
        assert (await on.client.predict(HARD)).by == "edge"
        assert app.joint.pair.edge is edge, "what is known of a model is kept"
        app.configure(GatewayConfig(name="other", edge=before.edge, cloud=before.cloud))
        assert (await on.client.predict(HARD)).status == 404


@pytest.mark.anyio
async def test_requests_under_way_end_with_the_models_they_began_with(stage: Open) -> None:
    async with stage() as on, SmallModel(offset=50).serving() as fresh:
        asked, go_on, edge = asyncio.Event(), asyncio.Event(), on.edge

        async def slow(request: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            await go_on.wait()
            writer.write(edge.answer_to(request))

        await on.client.predict(EASY)
        edge.behaviour = slow
        task = asyncio.create_task(on.client.predict(EASY))
        await asked.wait()
        cloud = on.client.app.joint.config.cloud
        on.client.app.configure(GatewayConfig(name="joint", edge=ModelConfig(fresh.url), cloud=cloud))
        assert (await on.client.predict(EASY)).json == {"predictions": [50]}
        go_on.set()
        assert (await task).json == {"predictions": [0]}


@pytest.mark.anyio
async def test_a_configuration_that_cannot_be_changes_nothing(stage: Open) -> None:
    async with stage() as on:
        before = on.client.app.joint
        with pytest.raises(Invalid):
            on.client.app.configure(GatewayConfig(name="joint", policy="nope"))
        assert on.client.app.joint is before
        assert (await on.client.predict(EASY)).by == "edge"
