"""Requests that are wrong in hundreds of ways: each is answered as what it is, and nothing breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gateway.conftest import EASY, Client, Stage, opened
from tests.unit.gateway.models import SmallModel

pytestmark = pytest.mark.anyio

V1, V2 = "/v1/models/joint:predict", "/v2/models/joint/infer"
FINE = {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": EASY}
WRONG: list[Any] = [
    None,
    True,
    0,
    -1,
    1e999,
    2**70,
    "",
    "x",
    "\x00",
    "ünï",
    [],
    {},
    [[]],
    [None],
    [{}],
    {"": ""},
    {"a": []},
    [[1, 2], [3]],
    [[["deep"]]],
    "x" * 5000,
    [0] * 5000,
]


def bodies() -> Iterator[tuple[str, bytes]]:
    """Paths and bodies; none of the bodies is a request that the edge model takes."""
    raw = [b"", b" ", b"\x00", b"\xff\xfe", b"nope", b"{", b"}", b"[", b"[1", b'"', b"{}{}", b"null", b"NaN", b"1e999"]
    raw += [b"[" * 100_000, b'{"instances":' * 50_000, b'{"a":' * 2000 + b"1" + b"}" * 2000, b"\xef\xbb\xbf{}"]
    raw += [b'{"instances": [[NaN, nope]]}', b'{"instances": Infinity}', b'{"instances": [1], "instances": [2]}']
    for path in (V1, V2):
        for content in raw:
            yield path, content
        for value in WRONG:
            yield path, json.dumps(value).encode()
    for value in WRONG:
        yield V1, json.dumps({"instances": value}).encode()
        yield V1, json.dumps({"inputs": value}).encode()
        yield V1, json.dumps({"instances": [EASY], "signature_name": value or 5}).encode()
        yield V1, json.dumps({"instances": [EASY, value]}).encode()
        yield V1, json.dumps({"instances": [{"x": value}]}).encode()
        yield V2, json.dumps({"inputs": value}).encode()
        yield V2, json.dumps({"inputs": [value]}).encode()
        for key in FINE:
            yield V2, json.dumps({"inputs": [FINE | {key: value}]}).encode()
        yield V2, json.dumps({"inputs": [FINE], "outputs": value or 5}).encode()
        yield V2, json.dumps({"inputs": [FINE], "outputs": [value]}).encode()
        yield V2, json.dumps({"inputs": [FINE], "parameters": value or 5}).encode()
        yield V2, json.dumps({"inputs": [FINE | {"parameters": {"binary_data_size": value}}]}).encode()
    for missing in FINE:
        yield V2, json.dumps({"inputs": [{key: each for key, each in FINE.items() if key != missing}]}).encode()
    yield V2, json.dumps({"inputs": [FINE, FINE]}).encode()
    yield V2, json.dumps({"inputs": [FINE], "outputs": [{"name": "label"}] * 2}).encode()
    yield V2, json.dumps({"inputs": [FINE | {"shape": [2**40, 2**40]}]}).encode()
    yield V2, json.dumps({"inputs": [FINE | {"shape": [0, 3], "data": []}]}).encode()
    yield V1, json.dumps({"instances": [EASY], "inputs": [EASY]}).encode()
    yield V1, json.dumps({"instances": [{"b64": "not base64!"}]}).encode()


BODIES = list(bodies())


@pytest.fixture
async def on() -> AsyncIterator[Stage]:
    async with opened() as found:
        yield found


def check(status: int, body: bytes, headers: dict[str, str]) -> None:
    """Answered, as the client's fault or as good, and in the form of the protocols."""
    assert status == 200 or 400 <= status < 500, (status, body)
    assert headers["content-type"] == "application/json"
    found = json.loads(body)
    if status != 200:
        assert isinstance(found["error"], str)
        assert found["error"]
        assert "Traceback" not in found["error"]
        assert "127.0.0.1" not in found["error"]


async def test_hundreds_of_wrong_bodies_are_refused_and_the_next_request_is_answered(on: Stage) -> None:
    assert len(BODIES) > 300
    for path, body in BODIES:
        async with asyncio.timeout(30):
            found = await on.client.ask("POST", path, body)
        check(found.status, found.body, found.headers)
    assert (await on.client.predict(EASY)).json == {"predictions": [0]}
    assert await on.client.metric("breaker", side="edge", position="closed") == 1
    assert on.cloud.inferences == [], "what is wrong is not asked twice"


UNREADABLE = [
    (V1, b'{"instances": [["\xff\xfe"]]}'),
    (V1, b'{"instances": [{"\xff": [1, 2, 3]}]}'),
    (V1, b'{"inputs": {"\xff": [[1, 2, 3]]}}'),
    (V1, b'{"instances": [[1e999, 0, 0]]}'),
    (V1, b'{"instances": [{"x": [NaN, 0, 0], "y": "\\ud800"}]}'),
    (V2, json.dumps({"inputs": [FINE], "outputs": [{"name": "nope"}]}).encode()),
]


@pytest.mark.parametrize("described", [True, False])
@pytest.mark.parametrize("edge", ["v1", "v2"])
@pytest.mark.parametrize("cloud", ["v1", "v2"])
async def test_what_has_to_be_read_for_a_model_of_the_other_protocol_is_refused_as_well(
    edge: str, cloud: str, described: bool, tmp_path: Path
) -> None:
    first, second = SmallModel(v1=edge == "v1", v2=edge == "v2"), SmallModel(v1=cloud == "v1", v2=cloud == "v2")
    first.described = described
    async with opened(first, second, keep_folder=str(tmp_path), keep_max_bytes=100_000) as on:
        for path, body in UNREADABLE:
            found = await on.client.ask("POST", path, body)
            check(found.status, found.body, found.headers)
        assert (await on.client.ask_rows(edge, EASY)).status == 200
        for side in ("edge", "cloud"):
            assert await on.client.metric("breaker", side=side, position="closed") == 1


@pytest.mark.parametrize("edge", ["v1", "v2"])
@pytest.mark.parametrize("tensors", [{"instances": []}, {"inputs": []}, {"inputs": {"x": []}}])
async def test_no_rows_get_an_answer_without_rows(edge: str, tensors: Any) -> None:
    async with opened(SmallModel(v1=edge == "v1", v2=edge == "v2", outputs=("label",))) as on:
        found = await on.client.ask("POST", V1, tensors)
        assert (found.status, found.by, list(found.json.values())) == (200, "edge", [[]]), found.body
        assert on.cloud.inferences == []


HEADERS: list[dict[str, str]] = [
    {"Inference-Header-Content-Length": value}
    for value in ("", "-1", "x", "1e3", "99999999999999999999", "0", "5", "²", " 5", "5, 5")
]
HEADERS += [{"Content-Encoding": value} for value in ("gzip", "deflate", "br", "identity, gzip")]
HEADERS += [{"Via": "1.0 x"}, {"X-Request-Id": "\xff\x7f"}, {"Traceparent": "00-zz"}, {"Expect": "200-ok"}]


@pytest.mark.parametrize("headers", HEADERS)
async def test_wrong_headers_are_refused_or_ignored(headers: dict[str, str], on: Stage) -> None:
    for path, body in ((V1, {"instances": [EASY]}), (V2, {"inputs": [FINE]})):
        found = await on.client.ask("POST", path, body, headers=headers)
        check(found.status, found.body, found.headers)
    assert (await on.client.predict(EASY)).status == 200


PATHS = [
    ("GET", "/", 404),
    ("GET", "//", 404),
    ("GET", "/v1", 404),
    ("GET", "/v1/models", 404),
    ("GET", "/v1/models/", 404),
    ("GET", "/v1/models/other", 404),
    ("GET", "/v1/models/joint:predict", 405),
    ("PUT", "/v1/models/joint:predict", 405),
    ("POST", "/v1/models/joint", 405),
    ("POST", "/v1/models/joint:classify", 404),
    ("POST", "/v1/models/joint:", 404),
    ("POST", "/v1/models/other:predict", 404),
    ("POST", "/v1/models/joint/versions/:predict", 404),
    ("POST", "/v1/models/joint/versions/../../x:predict", 404),
    ("POST", "/v1/models/..%2F..%2Fjoint:predict", 404),
    ("POST", "/v1/models/joint/stages/1:predict", 404),
    ("GET", "/v2/models/joint/infer", 405),
    ("DELETE", "/v2/models/joint/infer", 405),
    ("POST", "/v2/models/other/infer", 404),
    ("POST", "/v2/models/joint/explain", 404),
    ("GET", "/v2/health/nope", 404),
    ("POST", "/metrics", 405),
    ("POST", "/healthz", 405),
]


@pytest.mark.parametrize(("method", "path", "status"), PATHS)
async def test_wrong_paths_and_methods_are_told(method: str, path: str, status: int, on: Stage) -> None:
    found = await on.client.ask(method, path, {"instances": [EASY]} if method == "POST" else b"")
    assert found.status == status, found.body
    check(found.status, found.body, found.headers)
    assert on.edge.inferences == []


async def test_a_key_in_a_path_stays_a_key(on: Stage) -> None:
    """What a client writes as a version cannot lead to another path of the model server."""
    found = await on.client.ask(
        "POST", "/v1/models/joint/versions/1%2F..%2F..%2Fevil%3Fx=1:predict", {"instances": [EASY]}
    )
    assert found.status == 404
    assert [each.target for each in on.edge.inferences] == ["/v1/models/m/versions/1%2F..%2F..%2Fevil%3Fx%3D1:predict"]


async def test_a_body_beyond_the_limit_is_refused_before_it_is_read() -> None:
    async with opened(max_request_bytes=1000) as on:
        for chunks in (1, 50):
            found = await on.client.ask("POST", V1, b"x" * 1001, chunks=chunks)
            assert (found.status, found.json["error"]) == (
                413,
                "the body is longer than 1000 bytes, the limit of this server",
            )
        assert (await on.client.ask("POST", V1, json.dumps({"instances": [EASY]}).encode(), chunks=9)).status == 200


async def test_versions_that_a_model_makes_up_cannot_break_headers(on: Stage) -> None:
    on.edge.version = 'x"\r\nSet-Cookie: a=b'
    found = await on.client.infer(EASY)
    assert found.headers["x-model-version"] == "x%22%0D%0ASet-Cookie: a%3Db"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["x", "name", "b64", "data"]), inner),
    max_leaves=12,
)
requests = st.one_of(
    st.fixed_dictionaries({"instances": values}),
    st.fixed_dictionaries({"inputs": values}, optional={"signature_name": values}),
    st.fixed_dictionaries(
        {
            "inputs": st.lists(
                st.fixed_dictionaries({"name": values, "shape": values, "datatype": values, "data": values})
            )
        }
    ),
    st.fixed_dictionaries(
        {"inputs": st.just([FINE])}, optional={"outputs": values, "parameters": values, "id": values}
    ),
)


def test_any_request_is_answered() -> None:
    """One gateway for all examples: an earlier one must not spoil a later one either."""
    with asyncio.Runner() as runner:
        stage = opened()
        on: Stage = runner.run(stage.__aenter__())
        try:
            run_any(runner, on.client)
        finally:
            runner.run(stage.__aexit__(None, None, None))


def run_any(runner: asyncio.Runner, client: Client) -> None:
    @given(requests, st.sampled_from([V1, V2]))
    @settings(max_examples=200, deadline=None)
    def ask(body: Any, path: str) -> None:
        found = runner.run(client.ask("POST", path, json.dumps(body).encode()))
        check(found.status, found.body, found.headers)

    @given(st.binary(max_size=64), st.sampled_from([V1, V2]), st.sampled_from([None, "0", "3", "9"]))
    @settings(max_examples=100, deadline=None)
    def ask_bytes(body: bytes, path: str, header: str | None) -> None:
        headers = {} if header is None else {"Inference-Header-Content-Length": header}
        found = runner.run(client.ask("POST", path, body, headers=headers))
        check(found.status, found.body, found.headers)

    ask()
    ask_bytes()
