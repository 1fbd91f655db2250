"""OpenAPI v3: an index, and a document per group and version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from modelwright.adapters.embedded.apiserver.asgi import Request, Response, document
from modelwright.api.kind import Kind
from modelwright.api.object_meta import OBJECT_META
from modelwright.api.openapi import openapi_v3

PREFIX = "/openapi/v3"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class OpenApi:
    """The documents, made when first asked for."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds = tuple(kinds)
        self._documents: dict[str, bytes] = {}

    def answer(self, request: Request, path: str) -> Response | None:
        """The index or a document; None if the path is neither."""
        if not self._documents:
            self._documents = self._make()
        if path == PREFIX:
            return document({"paths": {name: self._reference(name) for name in self._documents}})
        body = self._documents.get(path.removeprefix(PREFIX + "/"))
        if body is None:
            return None
        # A URL with the hash of its content never changes its meaning.
        fixed = request.query.get("hash") == _hash(body)
        headers = ((b"cache-control", b"public, immutable"),) if fixed else ()
        return Response(body, headers=headers)

    def _make(self) -> dict[str, bytes]:
        groups = dict.fromkeys((kind.group, kind.version) for kind in self._kinds)
        documents = {"api/v1": msgspec.json.encode(_core())}
        for group, version in groups:
            kinds = [kind for kind in self._kinds if (kind.group, kind.version) == (group, version)]
            documents[f"apis/{group}/{version}"] = msgspec.json.encode(openapi_v3(group, version, kinds))
        return documents

    def _reference(self, name: str) -> dict[str, str]:
        return {"serverRelativeURL": f"{PREFIX}/{name}?hash={_hash(self._documents[name])}"}


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32].upper()


def _core() -> dict[str, Any]:
    """Namespaces and Events."""
    paths = _paths("Namespace", "/api/v1/namespaces") | _paths("Event", "/api/v1/namespaces/{namespace}/events")
    schemas = {_META: OBJECT_META, **{_component(kind): _schema(kind) for kind in ("Namespace", "Event")}}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Modelwright core", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _paths(kind: str, many: str) -> dict[str, Any]:
    changes = {verb: _operation(kind, verb, writes=True) for verb in ("put", "patch", "delete")}
    return {
        many: {"get": _operation(kind, "list"), "post": _operation(kind, "post", writes=True)},
        f"{many}/{{name}}": {"get": _operation(kind, "get"), **changes},
    }


def _component(kind: str) -> str:
    return f"io.k8s.api.core.v1.{kind}"


def _gvk(kind: str) -> dict[str, str]:
    return {"group": "", "version": "v1", "kind": kind}


def _schema(kind: str) -> dict[str, Any]:
    texts = {name: {"type": "string"} for name in ("apiVersion", "kind")}
    metadata = {"metadata": {"allOf": [{"$ref": f"#/components/schemas/{_META}"}]}}
    own: dict[str, Any] = {
        "Namespace": {
            "spec": {"type": "object", "properties": {"finalizers": {"type": "array", "items": {"type": "string"}}}},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
        "Event": {
            "involvedObject": {"type": "object", "additionalProperties": {"type": "string"}},
            "source": {"type": "object", "additionalProperties": {"type": "string"}},
            **{name: {"type": "string"} for name in ("type", "reason", "message")},
            **{name: {"type": "string", "format": "date-time"} for name in ("firstTimestamp", "lastTimestamp")},
            "count": {"type": "integer"},
        },
    }
    description = {"Namespace": "A scope for names.", "Event": "Something that happened to an object."}[kind]
    head = {"type": "object", "description": description, "x-kubernetes-group-version-kind": [_gvk(kind)]}
    return {**head, "properties": {**texts, **metadata, **own[kind]}}


def _operation(kind: str, action: str, *, writes: bool = False) -> dict[str, Any]:
    names = ("dryRun", "fieldManager", "fieldValidation") if writes else ()
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{_component(kind)}"}}}
    return {
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names],
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }
