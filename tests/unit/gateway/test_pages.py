"""What the gateway says of itself and of its model."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.gateway.conftest import EASY, Open
from tests.unit.gateway.models import SmallModel, says

pytestmark = pytest.mark.anyio


async def test_the_joint_model_is_described_as_the_edge_model(stage: Open) -> None:
    async with stage() as on:
        await on.client.predict([1.0, 1.1, 0.0])
        assert (await on.client.get("/v2")).json["name"] == "modelwright-gateway"
        found = (await on.client.get("/v2/models/joint")).json
        assert (found["name"], found["versions"], found["platform"]) == ("joint", ["1"], "modelwright_gateway")
        assert found["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]
        older = (await on.client.get("/v1/models/joint/metadata")).json
        assert older["model_spec"] == {"name": "joint", "signature_name": "", "version": "1"}
        signatures = older["metadata"]["signature_def"]["signature_def"]
        assert list(signatures["serving_default"]["outputs"]) == ["label"]
        assert signatures["serving_default"]["inputs"]["x"]["dtype"] == "DT_FLOAT"
        assert (await on.client.get("/v1/models/joint")).json["model_version_status"][0]["state"] == "AVAILABLE"
        assert (await on.client.get("/v2/models/joint/ready")).status == 200


async def test_a_model_of_the_other_protocol_is_described_in_both(stage: Open) -> None:
    async with stage(SmallModel(v1=False), SmallModel(v1=False)) as on:
        await on.client.predict(EASY)
        status = await on.client.get("/v1/models/joint")
        assert status.json["model_version_status"][0]["version"] == "1"
        older = (await on.client.get("/v1/models/joint/metadata")).json
        assert list(older["metadata"]["signature_def"]["signature_def"]) == ["serving_default"]
        assert (await on.client.get("/v1/models/joint/versions/9")).status == 404


async def test_the_status_of_the_cloud_model_is_told_where_the_edge_model_is_away(stage: Open) -> None:
    async with stage() as on:
        assert (await on.client.get("/v1/models/joint/versions/1")).status == 200
        assert (await on.client.get("/v1/models/joint/labels/none")).status == 404
        assert (await on.client.get("/v1/models/nobody")).status == 404


async def test_it_is_ready_as_soon_as_one_model_can_be_asked(stage: Open) -> None:
    async with stage(SmallModel(v1=False, v2=False)) as on:
        async with asyncio.timeout(30):
            while (await on.client.get("/v2/health/ready")).status != 200:
                await asyncio.sleep(0.01)
        on.client.app.draining = True
        assert (await on.client.get("/v2/health/ready")).json == {"ready": False}
        assert (await on.client.get("/v2/health/live")).json == {"live": True}
        assert (await on.client.get("/healthz")).body == b"ok\n"


async def test_it_is_not_ready_while_nobody_can_answer(stage: Open) -> None:
    async with stage(SmallModel(v1=False, v2=False), SmallModel(v1=False, v2=False)) as on:
        assert (await on.client.predict(EASY)).status == 503
        assert (await on.client.get("/v2/health/ready")).status == 503
        assert on.client.app.joint.pair.edge.state.reason == "ModelNotFound"


async def test_metrics_say_how_much_goes_to_the_cloud(stage: Open) -> None:
    async with stage() as on:
        await on.client.predict(EASY, EASY, EASY, [1.0, 1.1, 0.0])
        await on.client.infer([1.0, 1.1, 0.0])
        on.cloud.behaviour = says({}, 500)
        await on.client.predict([1.0, 1.1, 0.0])
        metric = on.client.metric
        assert await metric("rows_total", served_by="edge") == 4
        assert await metric("rows_total", served_by="cloud") == 2
        assert await metric("offloaded_share") == pytest.approx(2 / 6)
        assert await metric("hard_rows_total") == 3
        assert await metric("requests_total", protocol="v1", served_by="mixed", code="200") == 1
        assert await metric("requests_total", protocol="v2", served_by="cloud", code="200") == 1
        assert await metric("fallbacks_total", failed="cloud", reason="ServerError") == 1
        assert await metric("request_seconds_count", protocol="v1") == 2
        assert await metric("upstream_seconds_count", side="edge") == 3
        assert await metric("model_ready", side="edge") == 1
        assert await metric("breaker", side="cloud", position="closed") == 1
