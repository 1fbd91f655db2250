"""Paths, methods and bodies: what is served, and in which words the rest is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.embedded.api import MODELS, VERSIONS, Answer, Client

from modelwright.adapters.embedded.apiserver.asgi import MAX_BODY_BYTES
from modelwright.adapters.embedded.apiserver.bodies import MAX_YAML_BYTES

pytestmark = pytest.mark.anyio
SCALES = "/apis/sedna.io/v1alpha1/namespaces/default/inferencemodels"
MODEL: dict[str, Any] = {
    "apiVersion": "model.kubedl.io/v1alpha1",
    "kind": "Model",
    "metadata": {"name": "m"},
    "spec": {},
}
YAML = {"content-type": "application/yaml"}


def refused(answer: Answer, status: int, reason: str) -> str:
    assert answer.status == status, answer.body
    value = answer.json
    assert (value["kind"], value["apiVersion"], value["status"]) == ("Status", "v1", "Failure")
    assert (value["reason"], value["code"]) == (reason, status)
    return str(value["message"])


@pytest.mark.parametrize(
    "path",
    [
        "/", "/nowhere", "/api/v2", "/api/v1/pods", "/api/v1/namespaces/default/pods", "/apis/nowhere.io/v1",
        "/apis/model.kubedl.io/v1/models", "/apis/model.kubedl.io/v1alpha1/models/m", f"{MODELS}/m/nothing",
        f"{MODELS}/m/scale", f"{MODELS}/m/status/more", "/api/v1/namespaces/default/status",
        "/api/v1/namespaces/default/finalize", "/apis//v1/models", "/api/v1/namespaces//models", "/openapi/v2",
        "/openapi/v3/apis/nowhere.io/v1", "/openapi/v3x", "/apis/model.kubedl.io/v1alpha1/namespaces/default",
        "/api/v1/namespaces/default/namespaces/x/y",
    ],
)  # fmt: skip
async def test_other_paths_are_not_found(api: Client, path: str) -> None:
    answer = await api.get(path)
    assert refused(answer, 404, "NotFound") == "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", MODELS), ("PATCH", MODELS), ("POST", f"{MODELS}/m"), ("DELETE", f"{MODELS}/m/status"),
        ("POST", "/apis/model.kubedl.io/v1alpha1/models"), ("DELETE", "/apis/model.kubedl.io/v1alpha1/models"),
        ("DELETE", "/api/v1/namespaces"), ("POST", "/version"), ("DELETE", "/apis"), ("TRACE", f"{MODELS}/m"),
        ("DELETE", f"{SCALES}/m/scale"),
    ],
)  # fmt: skip
async def test_other_methods_are_not_allowed(api: Client, method: str, path: str) -> None:
    refused(await api.ask(method, path), 405, "MethodNotAllowed")


async def test_discovery_is_told_in_both_ways(api: Client) -> None:
    aggregated = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}
    answer = await api.ask("GET", "/apis", None, aggregated)
    assert answer.headers["content-type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    told = {
        (group["metadata"]["name"], resource["resource"]): resource
        for group in answer.json["items"]
        for version in group["versions"]
        for resource in version["resources"]
    }
    for group in (await api.get("/apis")).json["groups"]:
        plain = (await api.get(f"/apis/{group['preferredVersion']['groupVersion']}")).json["resources"]
        for resource in plain:
            name, _, subresource = resource["name"].partition("/")
            other = told[group["name"], name]
            if subresource:
                assert subresource in [each["subresource"] for each in other["subresources"]]
                continue
            for field in ("verbs", "shortNames", "categories"):
                assert resource[field] == other[field]
    assert (await api.ask("GET", "/api", None, aggregated)).json["items"][0]["versions"][0]["version"] == "v1"
    assert (await api.get("/api")).json["versions"] == ["v1"]


async def test_every_openapi_document_of_the_index_exists_and_may_be_kept(api: Client) -> None:
    for name, reference in (await api.get("/openapi/v3")).json["paths"].items():
        path, _, query = reference["serverRelativeURL"].partition("?hash=")
        answer = await api.get(path, hash=query)
        assert answer.json["openapi"] == "3.0.0"
        assert any(name in each for each in answer.json["paths"])
        assert "immutable" in answer.headers["cache-control"]
        assert "cache-control" not in (await api.get(path, hash="0")).headers


async def test_a_body_may_be_yaml(api: Client) -> None:
    text = (
        b"apiVersion: model.kubedl.io/v1alpha1\nkind: Model\nmetadata:\n  name: m\n  annotations: {day: 2024-02-29}\n"
    )
    answer = await api.ask("POST", MODELS, text.replace(b"2024-02-29", b"'2024-02-29'"), YAML)
    assert answer.status == 201, answer.body
    assert answer.json["metadata"]["annotations"] == {"day": "2024-02-29"}


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"7", b'"text"', b"null", b"\xff\xfe", b'{"a":1}{"b":2}', b"NaN", b'{"metadata":[]}',
        b'{"metadata":{"name":"m"},"kind":"Pod"}', b'{"metadata":{"name":"m"},"apiVersion":"v1"}',
        b'{"metadata":{"name":"m","namespace":"another"}}', b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"metadata":{"name":"\\ud800"}}', b'{"spec":1e999}',
    ],
)  # fmt: skip
async def test_a_body_that_makes_no_sense_is_a_bad_request(api: Client, body: bytes) -> None:
    refused(await api.ask("POST", MODELS, body), 400, "BadRequest")


@pytest.mark.parametrize(
    "body",
    [
        b"a: b: c", b"- a\n- b", b"a: &x [1]\nb: *x\n", b"!!python/object/apply:os.system [echo]", b"\xff",
        b"[" * 3000 + b"]" * 3000, b"a: !!binary aGk=\n? [x]\n: y\n",
    ],
)  # fmt: skip
async def test_yaml_that_is_more_than_data_is_a_bad_request(api: Client, body: bytes) -> None:
    refused(await api.ask("POST", MODELS, body, YAML), 400, "BadRequest")


async def test_a_field_that_is_given_twice_is_refused_when_asked_strictly(api: Client) -> None:
    body = b'{"metadata":{"name":"m","name":"n"},"spec":{}}'
    message = refused(await api.ask("POST", MODELS, body, None, fieldValidation="Strict"), 400, "BadRequest")
    assert message == 'strict decoding error: duplicate field "name"'
    assert (await api.ask("POST", MODELS, body)).json["metadata"]["name"] == "n"


async def test_bodies_have_a_limit(api: Client) -> None:
    answer = await api.ask("POST", MODELS, b" " * (MAX_BODY_BYTES + 1))
    refused(answer, 413, "RequestEntityTooLarge")
    assert answer.headers["connection"] == "close"
    refused(await api.ask("POST", MODELS, b" " * (MAX_YAML_BYTES + 1), YAML), 413, "RequestEntityTooLarge")
    assert (await api.ask("POST", MODELS, json.dumps(MODEL).encode() + b" " * 2_000_000)).status == 201


@pytest.mark.parametrize("media", ["text/plain", "application/xml", "application/apply-patch+yaml"])
async def test_other_formats_of_objects_are_refused(api: Client, media: str) -> None:
    refused(await api.ask("POST", MODELS, MODEL, {"content-type": media}), 415, "UnsupportedMediaType")


async def test_other_formats_of_patches_are_refused_in_words(api: Client) -> None:
    await api.make("m")
    for media, words in (
        ("application/apply-patch+yaml", "server-side apply is not supported"),
        ("application/apply-patch+cbor", "server-side apply is not supported"),
        ("application/strategic-merge-patch+json", "strategic merge patch is not supported"),
        ("application/json", "unknown patch format"),
    ):
        answer = await api.ask("PATCH", f"{MODELS}/m", {}, {"content-type": media})
        assert words in refused(answer, 415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    "query", [{"dryRun": "Some"}, {"fieldValidation": "Loose"}, {"fieldValidation": "strict"}, {"dryRun": "all"}]
)
async def test_options_that_are_unknown_are_refused(api: Client, query: dict[str, str]) -> None:
    message = refused(await api.ask("POST", MODELS, MODEL, None, **query), 422, "Invalid")
    assert "supported values" in message


async def test_an_unknown_way_of_deletion_is_refused(api: Client) -> None:
    await api.make("m")
    answer = await api.ask("DELETE", f"{MODELS}/m", {"propagationPolicy": "Sideways"})
    assert "supported values" in refused(answer, 422, "Invalid")
    refused(await api.ask("DELETE", f"{MODELS}/m", {"preconditions": [1]}), 400, "BadRequest")
    refused(await api.ask("DELETE", f"{MODELS}/m", b"[]"), 400, "BadRequest")
    assert (await api.get(f"{MODELS}/m")).status == 200


async def test_a_refusal_names_what_it_is_about(api: Client) -> None:
    details = (await api.get(f"{VERSIONS}/nothing")).json["details"]
    assert details == {"name": "nothing", "group": "model.kubedl.io", "kind": "modelversions"}


async def test_warnings_are_ascii_in_a_header(api: Client) -> None:
    body = {**MODEL, "spec": {'f\xfcr "you"\n': 1}}
    answer = await api.ask("POST", MODELS, body)
    assert answer.status == 201
    assert answer.headers["warning"].startswith('299 - "unknown field ')
    assert answer.headers["warning"].isascii()
    assert "\n" not in answer.headers["warning"]


async def test_a_scale_is_read_and_written(api: Client) -> None:
    spec = {"modelName": "m", "deployToLayer": "cloud", "frameworkType": "onnx", "modelVersion": "v", "replicas": 2}
    body = {"apiVersion": "sedna.io/v1alpha1", "kind": "InferenceModel", "metadata": {"name": "m"}, "spec": spec}
    assert (await api.ask("POST", SCALES, body)).status == 201
    url = f"{SCALES}/m/scale"
    scale = (await api.get(url)).json
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})
    changed = {**scale, "spec": {"replicas": 5}}
    answer = await api.ask("PUT", url, changed)
    assert answer.json["spec"] == {"replicas": 5}
    refused(await api.ask("PUT", url, changed), 409, "Conflict")
    assert (await api.merge(url, {"spec": {"replicas": 0}})).json["spec"] == {"replicas": 0}
    for wrong in ({"replicas": -1}, {"replicas": "many"}, {"replicas": True}, 7):
        assert (await api.merge(url, {"spec": wrong})).status in (400, 422)
    assert (await api.merge(url, {"metadata": 7})).status == 400
    assert (await api.get(f"{SCALES}/m")).json["spec"]["replicas"] == 0
    refused(await api.get(f"{SCALES}/nothing/scale"), 404, "NotFound")
