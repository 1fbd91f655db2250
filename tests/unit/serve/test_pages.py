"""Metrics, health, and errors that are ours."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

INFER = "/v2/models/m/infer"


def samples(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@pytest.mark.anyio
async def test_the_metrics_count_requests_by_protocol_and_code(serve: Any) -> None:
    client = await serve("affine", "triple")
    for _ in range(3):
        await client.post("/v1/models/m:predict", {"instances": [[1, 2, 3]]})
    await client.post(INFER, {})
    await client.get("/v2/health/ready")
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(answer.body)
    model = ("model", "m")
    assert found["modelwright_requests_total", (("code", "200"), model, ("protocol", "v1"))] == 3
    assert found["modelwright_requests_total", (("code", "400"), model, ("protocol", "v2"))] == 1
    assert found["modelwright_request_seconds_count", (model, ("protocol", "v1"))] == 3
    assert found["modelwright_request_seconds_bucket", (("le", "+Inf"), model, ("protocol", "v1"))] == 3
    assert found["modelwright_inference_seconds_count", (model,)] == 3
    assert found["modelwright_model_loaded", (("default", "true"), model, ("version", "triple"))] == 1
    assert found["modelwright_model_load_seconds", (model, ("version", "affine"))] > 0
    assert found["modelwright_inference_pending", ()] == 0


@pytest.mark.anyio
async def test_liveness_is_a_short_text(serve: Any) -> None:
    client = await serve("affine")
    answer = await client.get("/healthz")
    assert (answer.status, answer.body) == (200, b"ok\n")
    assert (await client.ask("HEAD", "/healthz")).status == 200


@pytest.mark.anyio
async def test_a_fault_of_the_server_is_logged_and_not_shown(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    client = await serve("affine")
    client.registry.serving.default.release()
    answer = await client.post("/v1/models/m:predict", {"instances": [[1, 2, 3]]})
    assert answer.status == 500
    assert answer.json == {"error": "the server failed to answer this request; its log says why"}
    assert "AttributeError" in caplog.text


@pytest.mark.anyio
async def test_a_version_of_any_spelling_is_a_header_and_a_path(serve: Any, models: Any) -> None:
    client = await serve("affine")
    config = client.registry.config
    version = type(config.versions[0])("förste/1.0 %", 7, str(models / "affine"))
    await client.registry.apply(type(config)("m", "onnx", (version,), "förste/1.0 %"))
    answer = await client.get("/v2/models/m/versions/f%C3%B6rste%2F1.0%20%25")
    assert answer.json["versions"] == ["förste/1.0 %"]
    assert answer.headers["x-model-version"] == "f%C3%B6rste/1.0 %25"
