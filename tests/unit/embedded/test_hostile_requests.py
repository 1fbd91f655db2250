"""Whatever is sent: an answer in the API's words, never an internal error, and the store stays sound."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.embedded.api import MODELS, TOKEN, VERSIONS, Answer, Client

from modelwright.adapters.embedded.apiserver.app import create_api_app
from modelwright.adapters.embedded.store import EmbeddedStore

METADATA = ["name", "namespace", "uid", "resourceVersion", "labels", "annotations", "finalizers", "ownerReferences",
            "generateName", "creationTimestamp", "deletionTimestamp", "generation", "managedFields"]  # fmt: skip
FIELDS = ["apiVersion", "kind", "metadata", "spec", "status", *METADATA, "replicas", "storage", "nfs", "path", "op",
          "value", "from", "involvedObject", "preconditions", "propagationPolicy", "dryRun", "modelName"]  # fmt: skip
WORDS = ["m", "default", "1", "", "add", "remove", "/metadata", "/spec/x", "Model", "All", "\x00", "\u2028", "x" * 300]
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)
objects = st.fixed_dictionaries(
    {"metadata": st.dictionaries(st.sampled_from(METADATA), values, max_size=5) | values}, optional={"spec": values}
)
SCALED = "/apis/sedna.io/v1alpha1/namespaces/default/inferencemodels"
paths = st.sampled_from(
    [
        MODELS, VERSIONS, f"{MODELS}/m", f"{MODELS}/m/status", f"{VERSIONS}/m", f"{SCALED}/s/scale", f"{SCALED}/s",
        "/api/v1/namespaces", "/api/v1/namespaces/other", "/api/v1/namespaces/default/events",
        "/api/v1/namespaces/default/events/e", "/apis", "/", "/openapi/v3",
    ]
)  # fmt: skip
media = st.sampled_from(
    [
        "application/json", "application/merge-patch+json", "application/json-patch+json", "application/yaml",
        "application/strategic-merge-patch+json", "application/apply-patch+yaml", "text/plain", "",
        "application/vnd.kubernetes.protobuf", "application/json; charset=utf-8",
    ]
)  # fmt: skip
queries = st.dictionaries(
    st.sampled_from(["limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector",
                     "dryRun", "fieldValidation", "timeoutSeconds", "sendInitialEvents", "propagationPolicy"]),
    st.sampled_from(["", "0", "1", "5", "99999999999999999999", "-1", "true", "All", "Strict", "Exact", "a=b", "x",
                     "metadata.name=m", "NotOlderThan", "Foreground", "\u00e9", "a in (b"]),
    max_size=3,
)  # fmt: skip
requests = st.tuples(st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]), paths, media, queries)


class World:
    """A fresh store and API for one example."""

    def __enter__(self) -> World:
        self.folder = Path(tempfile.mkdtemp(prefix="hostile-"))
        self.runner = asyncio.Runner()
        self.store = self.runner.run(EmbeddedStore.open(self.folder))
        self.api = Client(create_api_app(self.store.resources, TOKEN))
        self.runner.run(self.prepare())
        return self

    async def prepare(self) -> None:
        await self.api.make("m", finalizers=["example.com/hold"])
        spec = {"modelName": "m", "deployToLayer": "cloud", "frameworkType": "onnx", "modelVersion": "v"}
        answer = await self.api.ask("POST", SCALED, {"metadata": {"name": "s"}, "spec": spec})
        assert answer.status == 201, answer.body

    def __exit__(self, *_: object) -> None:
        self.runner.run(self.store.close())
        # What was stored can be loaded again.
        self.runner.run(self.runner.run(EmbeddedStore.open(self.folder)).close())
        self.runner.close()
        shutil.rmtree(self.folder)

    def ask(self, request: tuple[str, str, str, dict[str, str]], body: Any) -> Answer:
        method, path, content_type, query = request
        headers = {"content-type": content_type}
        return self.runner.run(self.api.ask(method, path, body, headers, **query))


def sensible(answer: Answer) -> None:
    assert answer.status in {200, 201, 400, 403, 404, 405, 406, 409, 410, 413, 415, 422, 504}, answer.body
    value = json.loads(answer.body)
    if answer.status >= 400:
        assert value["kind"] == "Status"
        assert value["message"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(requests, objects | values), min_size=1, max_size=8))
def test_any_json_is_answered(sent: list[tuple[Any, Any]]) -> None:
    with World() as world:
        for request, body in sent:
            sensible(world.ask(request, body))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(requests, st.binary(max_size=200)), min_size=1, max_size=8))
def test_any_bytes_are_answered(sent: list[tuple[Any, bytes]]) -> None:
    with World() as world:
        for request, body in sent:
            sensible(world.ask(request, body))


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["GET", "POST"]))
def test_any_path_is_answered(path: str, method: str) -> None:
    with World() as world:
        sensible(world.ask((method, "/apis/" + path.replace("?", "").replace("#", ""), "application/json", {}), {}))
