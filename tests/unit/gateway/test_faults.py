"""A model that is gone, slow, or answers nonsense: the other one answers, and nonsense is never passed on as good."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.contract.pki import Authority
from tests.unit.gateway.conftest import EASY, HARD, Open
from tests.unit.gateway.models import Behaviour, SmallModel, drip, flood, hang, raw, says
from tests.unit.kubernetes.servers import Asked, answer, chunked, listening

from modelwright.gateway import breaker, side, upstream
from modelwright.gateway.config import GatewayConfig, ModelConfig

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SURE = {"label": 0, "probabilities": [1.0, 0.0, 0.0]}
NONSENSE: dict[str, Behaviour] = {
    "nothing": raw(b""),
    "half a head": raw(b"HTTP/1.1 200 OK\r\nContent-Le"),
    "half a body": raw(OK + b'Content-Length: 99\r\n\r\n{"predictions"'),
    "chunks that end too early": raw(chunked(b'{"predictions"', end=False)),
    "no length at all": raw(OK + b'\r\n{"predictions": [0]}'),
    "length and chunks": raw(OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"),
    "two lengths": raw(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
    "a negative length": raw(OK + b"Content-Length: -1\r\n\r\n{}"),
    "another protocol": raw(b"SSH-2.0-OpenSSH_9.9\r\n"),
    "an endless head": raw(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 20000),
    "no JSON": raw(OK + b"Content-Length: 4\r\n\r\nnope"),
    "half JSON": raw(OK + b'Content-Length: 15\r\n\r\n{"predictions":', close=False),
    "deep JSON": raw(OK + b"Content-Length: 200000\r\n\r\n" + b"[" * 200000, close=False),
    "a number": says(7),
    "null": says(None),
    "an empty object": says({}),
    "another key": says({"outcome": [0]}),
    "predictions that are no list": says({"predictions": "sure"}),
    "a row too few": says({"predictions": [SURE]}),
    "a row too many": says({"predictions": [SURE] * 3}),
    "rows that lack an output": says({"predictions": [{"label": 0}] * 2}),
    "rows of text": says({"predictions": [{"label": "x", "probabilities": [1.0, 0.0, 0.0]}] * 2}),
    "scores of text": says({"predictions": [{"label": 0, "probabilities": ["1", "0", "0"]}] * 2}),
    "rows of other widths": says({"predictions": [SURE, {"label": 0, "probabilities": [1.0]}]}),
    "rows that are too wide": says({"predictions": [{"label": 0, "probabilities": [1.0, 0.0, 0.0, 0.0]}] * 2}),
    "rows of other kinds": says({"predictions": [SURE, [0, 1]]}),
    "rows of lists": says({"predictions": [[0], [1]]}),
    "deep rows": says({"predictions": [{"label": 0, "probabilities": [[[1.0]]]}] * 2}),
    "no content": raw(b"HTTP/1.1 204 No Content\r\n\r\n", close=False),
    "switching protocols": raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    "continue": raw(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a redirect": raw(answer({}, 307, Location="http://127.0.0.1:1/v1/models/m:predict"), close=False),
    "an error": says({"error": "oh"}, 500),
    "overload": says({"error": "later"}, 503),
    "too many requests": says({"error": "later"}, 429),
    "no entry": says({"error": "who are you"}, 401),
    "forbidden": says({"error": "not you"}, 403),
    "no such model": says({"error": "Servable not found"}, 404),
    "an unknown status": says({"predictions": [SURE] * 2}, 299),
}


@pytest.mark.parametrize("name", NONSENSE)
async def test_nonsense_of_the_edge_model_is_replaced_by_the_cloud_model(name: str, stage: Open) -> None:
    async with stage() as on:
        on.edge.behaviour = NONSENSE[name]
        found = await on.client.predict(EASY, HARD)
        assert (found.status, found.by, found.json) == (200, "cloud", {"predictions": [100, 101]})
        assert found.headers["x-fallback"].startswith("edge ")
        assert await on.client.metric("upstream_failures_total", side="edge") == 1
        assert await on.client.metric("fallbacks_total", failed="edge") == 1
        on.edge.behaviour = None
        assert (await on.client.predict(EASY)).by == "edge"


@pytest.mark.parametrize("name", NONSENSE)
async def test_nonsense_of_the_cloud_model_is_replaced_by_the_edge_model(name: str, stage: Open) -> None:
    async with stage() as on:
        on.cloud.behaviour = NONSENSE[name]
        found = await on.client.predict(EASY, HARD, HARD)
        assert (found.status, found.by, found.json) == (200, "edge", {"predictions": [0, 1, 1]})
        assert found.headers["x-fallback"].startswith("cloud ")
        assert await on.client.metric("fallbacks_total", failed="cloud") == 1
        on.cloud.behaviour = None
        assert (await on.client.predict(EASY, HARD)).json == {"predictions": [0, 101]}


V2_NONSENSE: dict[str, Any] = {
    "no outputs": {"model_name": "m", "outputs": []},
    "no model name": {"outputs": []},
    "a missing output": {
        "model_name": "m",
        "outputs": [{"name": "label", "shape": [2], "datatype": "INT64", "data": [0, 0]}],
    },
    "too few values": {
        "model_name": "m",
        "outputs": [
            {"name": "label", "shape": [2], "datatype": "INT64", "data": [0, 0]},
            {"name": "probabilities", "shape": [2, 3], "datatype": "FP32", "data": [1, 0, 0]},
        ],
    },
    "a negative shape": {
        "model_name": "m",
        "outputs": [
            {"name": "label", "shape": [-2], "datatype": "INT64", "data": [0, 0]},
            {"name": "probabilities", "shape": [2, 3], "datatype": "FP32", "data": [1, 0, 0, 1, 0, 0]},
        ],
    },
    "an output twice": {
        "model_name": "m",
        "outputs": [{"name": "probabilities", "shape": [2, 3], "datatype": "FP32", "data": [1, 0, 0, 1, 0, 0]}] * 2,
    },
    "bytes that do not follow": {
        "model_name": "m",
        "outputs": [
            {"name": "label", "shape": [2], "datatype": "INT64", "parameters": {"binary_data_size": 16}},
            {"name": "probabilities", "shape": [2, 3], "datatype": "FP32", "data": [1, 0, 0, 1, 0, 0]},
        ],
    },
}


@pytest.mark.parametrize("name", V2_NONSENSE)
async def test_nonsense_in_the_open_inference_protocol_is_not_passed_on(name: str, stage: Open) -> None:
    async with stage() as on:
        on.edge.behaviour = says(V2_NONSENSE[name])
        assert (await on.client.infer(EASY, HARD)).by == "cloud"
        on.edge.behaviour, on.cloud.behaviour = None, says(V2_NONSENSE[name])
        found = await on.client.infer(EASY, HARD)
        assert (found.by, found.headers["x-fallback"]) == ("edge", "cloud BadAnswer")


@pytest.mark.parametrize("behaviour", [hang, drip])
async def test_a_slow_model_is_waited_for_no_longer_than_the_timeout(behaviour: Behaviour, stage: Open) -> None:
    async with stage(timeout_seconds=1.0) as on:
        on.cloud.behaviour = behaviour
        slow_cloud = await on.client.predict(HARD)
        assert (slow_cloud.json, slow_cloud.headers["x-fallback"]) == ({"predictions": [1]}, "cloud TimedOut")
        on.cloud.behaviour, on.edge.behaviour = None, behaviour
        slow_edge = await on.client.predict(EASY)
        assert (slow_edge.json, slow_edge.headers["x-fallback"]) == ({"predictions": [100]}, "edge TimedOut")


async def test_a_body_without_end_is_cut_off(stage: Open) -> None:
    async with stage() as on:
        on.cloud.behaviour = flood
        assert (await on.client.predict(HARD)).headers["x-fallback"] == "cloud AnswerTooLong"


async def test_an_answer_to_nothing_does_not_become_the_next_answer(stage: Open) -> None:
    """A server that says more than it was asked is not listened to."""
    async with stage() as on:
        forged = answer({"predictions": [{"label": 66, "probabilities": [1.0, 0.0, 0.0]}]})

        async def twice(request: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(on.edge.answer_to(request) + forged)

        on.edge.behaviour = twice
        for _ in range(3):
            assert (await on.client.predict(EASY)).json == {"predictions": [0]}


async def test_without_either_model_the_answer_says_so_and_when_to_come_back(stage: Open) -> None:
    async with stage(timeout_seconds=1.0) as on:
        on.edge.behaviour, on.cloud.behaviour = says({"error": "x"}, 500), hang
        for ask in (on.client.predict(EASY), on.client.infer(EASY)):
            found = await ask
            assert (found.status, found.headers["retry-after"]) == (503, "1")
            assert found.json == {
                "error": "no model can answer this now (edge: ServerError, cloud: TimedOut); try again later"
            }
            assert str(on.edge.port) not in found.body.decode(), "where the models are is nobody's business"


async def test_without_urls_nothing_is_asked(stage: Open) -> None:
    async with stage() as on:
        on.client.app.configure(GatewayConfig(name="joint"))
        found = await on.client.predict(EASY)
        assert (found.status, found.json["error"]) == (
            503,
            "no model can answer this now (edge: UrlNotKnown, cloud: UrlNotKnown); try again later",
        )
        assert (await on.client.get("/v2/health/ready")).status == 503
        assert (await on.client.get("/v2/models/joint")).status == 503


async def test_models_that_are_gone_are_asked_again_when_they_are_back(stage: Open) -> None:
    async with stage() as on:
        away = SmallModel(offset=50)
        async with away.serving():
            pass
        config = GatewayConfig(name="joint", edge=ModelConfig(away.url), cloud=ModelConfig(on.cloud.url))
        on.client.app.configure(config)
        assert (await on.client.predict(EASY)).headers["x-fallback"] == "edge ConnectionFailed"
        assert (await on.client.get("/v2/health/ready")).status == 200


async def test_what_the_edge_model_refuses_is_told_to_the_client_as_it_is(stage: Open) -> None:
    async with stage() as on:
        on.edge.behaviour = says({"error": "a row has 3 values", "hint": "count again"}, 400)
        found = await on.client.predict([1.0])
        assert (found.status, found.by, found.json) == (
            400,
            "edge",
            {"error": "a row has 3 values", "hint": "count again"},
        )
        assert on.cloud.inferences == []
        on.edge.behaviour = raw(
            b"HTTP/1.1 422 X\r\nContent-Type: text/html\r\nContent-Length: 24\r\n\r\n<script>alert(1)</script",
            close=False,
        )
        page = await on.client.predict([1.0])
        assert (page.status, page.json) == (422, {"error": "the edge model refuses the request with HTTP 422"})
        assert await on.client.metric("breaker", side="edge", position="closed") == 1


async def test_what_the_cloud_model_refuses_is_the_edge_models_to_answer(stage: Open) -> None:
    async with stage() as on:
        on.cloud.behaviour = says({"error": "no such row"}, 400)
        for _ in range(2 * breaker.FAILURES):
            assert (await on.client.predict(HARD)).headers["x-fallback"] == "cloud Refused"
        assert await on.client.metric("breaker", side="cloud", position="closed") == 1, "it answers, after all"


async def test_a_model_that_refuses_what_the_gateway_adds_gets_the_request_as_it_came(stage: Open) -> None:
    async with stage() as on:
        model = on.edge

        async def only_default(request: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            refused = b"all_outputs" in request.body
            writer.write(answer({"error": "not row-shaped"}, 400) if refused else model.answer_to(request))

        on.edge.behaviour = only_default
        found = await on.client.predict(EASY)
        assert found.json == {"predictions": [100]}, "without scores a row counts as hard"
        assert [b"all_outputs" in request.body for request in on.edge.inferences] == [True, False]


async def test_a_model_that_keeps_failing_is_left_alone_for_a_while(stage: Open) -> None:
    async with stage() as on:
        on.cloud.behaviour = says({"error": "x"}, 500)
        for _ in range(breaker.FAILURES):
            assert (await on.client.predict(HARD)).headers["x-fallback"] == "cloud ServerError"
        assert (await on.client.predict(HARD)).headers["x-fallback"] == "cloud BreakerOpen"
        assert len(on.cloud.inferences) == breaker.FAILURES
        assert await on.client.metric("breaker", side="cloud", position="open") == 1
        on.cloud.behaviour = None
        async with asyncio.timeout(30):
            while (await on.client.predict(HARD)).by != "cloud":
                await asyncio.sleep(0.05)
        assert await on.client.metric("breaker", side="cloud", position="closed") == 1


async def test_requests_that_hang_do_not_pile_up(stage: Open) -> None:
    half, more = side.MOST_WAITING // 2, 20
    async with stage() as on:
        let_go, cloud = asyncio.Event(), on.cloud

        async def wait(request: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await let_go.wait()
            writer.write(cloud.answer_to(request))

        async def until(count: int, metric: str, **labels: str) -> None:
            async with asyncio.timeout(30):
                while await on.client.metric(metric, **labels) < count:
                    await asyncio.sleep(0.01)

        cloud.behaviour = wait
        tasks = [asyncio.create_task(on.client.predict(HARD)) for _ in range(half)]
        await until(half, "upstream_pending", side="cloud")
        tasks += [asyncio.create_task(on.client.predict(HARD)) for _ in range(half + more)]
        await until(more, "fallbacks_total", reason="TooManyWaiting")
        assert len(cloud.inferences) <= upstream.MAX_CONNECTIONS
        let_go.set()
        found = await asyncio.gather(*tasks)
        assert [each.by for each in found].count("cloud") == side.MOST_WAITING
        assert [each.headers.get("x-fallback") for each in found].count("cloud TooManyWaiting") == more


async def test_a_gateway_that_is_a_model_of_itself_does_not_ask_itself_for_ever(stage: Open) -> None:
    async with stage() as on:
        await on.client.predict(EASY)
        via = on.edge.inferences[0].headers["via"]
        looped = await on.client.ask("POST", "/v1/models/joint:predict", {"instances": [EASY]}, headers={"Via": via})
        assert looped.status == 508


async def test_a_model_that_changes_is_described_anew(stage: Open) -> None:
    async with stage() as on:
        assert (await on.client.predict(EASY)).json == {"predictions": [0]}
        on.edge.names, on.edge.version = {"label": "klass", "probabilities": "chances"}, "2"
        on.cloud.names = on.edge.names
        assert (await on.client.predict(EASY, HARD)).json == {"predictions": [0, 101]}
        described = (await on.client.get("/v2/models/joint")).json
        assert [output["name"] for output in described["outputs"]] == ["klass", "chances"]
        assert await on.client.metric("fallbacks_total") == 0


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted(tmp_path: Path, stage: Open) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*Authority(tmp_path).issue("server"))

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise AssertionError("nothing may be asked of it")

    async with stage() as on, listening(talk, context) as port:
        url = f"https://127.0.0.1:{port}/v1/models/big"
        config = GatewayConfig(name="joint", edge=ModelConfig(on.edge.url), cloud=ModelConfig(url))
        on.client.app.configure(config)
        assert (await on.client.predict(HARD)).headers["x-fallback"] == "cloud CertificateNotTrusted"
