"""OpenAPI v3 documents of a group and version, as kubectl reads them for apply, create, edit, replace and explain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modelwright.api.kind import Kind
from modelwright.api.object_meta import OBJECT_META
from modelwright.api.schema import object_schema

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_BODIES = ("application/json", "application/yaml")
_PATCHES = ("application/merge-patch+json", "application/json-patch+json")
_WRITING = ("dryRun", "fieldManager", "fieldValidation")
_READING = {
    "labelSelector": "string",
    "fieldSelector": "string",
    "limit": "integer",
    "continue": "string",
    "watch": "boolean",
    "resourceVersion": "string",
    "timeoutSeconds": "integer",
    "allowWatchBookmarks": "boolean",
}


def openapi_v3(group: str, version: str, kinds: Sequence[Kind]) -> dict[str, Any]:
    """The document that `/openapi/v3/apis/GROUP/VERSION` answers: the paths and schemas of these kinds."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {_META: _meta(), _LIST_META: _list_meta()}
    for kind in kinds:
        paths |= _paths(kind)
        schemas |= {_component(kind): _object(kind), f"{_component(kind)}List": _object_list(kind)}
    return {
        "openapi": "3.0.0",
        "info": {"title": f"Modelwright {group}", "version": version},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _paths(kind: Kind) -> dict[str, Any]:
    base = f"/apis/{kind.group}/{kind.version}"
    many = f"{base}/namespaces/{{namespace}}/{kind.plural}"
    one = f"{many}/{{name}}"
    paths = {
        f"{base}/{kind.plural}": _path((), {"get": _list_operation(kind)}),
        many: _path(("namespace",), {"get": _list_operation(kind), "post": _write(kind, "post", _BODIES)}),
        one: _path(("namespace", "name"), _item_operations(kind)),
    }
    if kind.has_status:
        paths[f"{one}/status"] = _path(("namespace", "name"), _item_operations(kind, delete=False))
    return paths


def _path(parameters: Sequence[str], operations: dict[str, Any]) -> dict[str, Any]:
    described = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in parameters]
    return operations | ({"parameters": described} if described else {})


def _item_operations(kind: Kind, *, delete: bool = True) -> dict[str, Any]:
    operations = {
        "get": _operation(kind, "get"),
        "put": _write(kind, "put", _BODIES),
        "patch": _write(kind, "patch", _PATCHES),
    }
    if delete:
        operations["delete"] = _operation(kind, "delete", _query({"dryRun": "string"}))
    return operations


def _list_operation(kind: Kind) -> dict[str, Any]:
    return _operation(kind, "list", _query(_READING), f"{_component(kind)}List")


def _write(kind: Kind, action: str, media_types: Sequence[str]) -> dict[str, Any]:
    body = {"schema": {"type": "object"} if action == "patch" else _reference(_component(kind))}
    operation = _operation(kind, action, _query(dict.fromkeys(_WRITING, "string")))
    return operation | {"requestBody": {"required": True, "content": dict.fromkeys(media_types, body)}}


def _operation(
    kind: Kind, action: str, parameters: list[dict[str, Any]] | None = None, answer: str = ""
) -> dict[str, Any]:
    content = {"application/json": {"schema": _reference(answer or _component(kind))}}
    return {
        "tags": [kind.plural],
        "parameters": parameters or [],
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }


def _query(parameters: dict[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "in": "query", "schema": {"type": type_}} for name, type_ in parameters.items()]


def _object(kind: Kind) -> dict[str, Any]:
    schema = object_schema(kind)
    schema["properties"]["metadata"] = {"description": "Standard object metadata.", "allOf": [_reference(_META)]}
    schema["properties"]["apiVersion"]["description"] = f"Always {kind.api_version}."
    schema["properties"]["kind"]["description"] = f"Always {kind.kind}."
    return schema | {"x-kubernetes-group-version-kind": [_gvk(kind)]}


def _object_list(kind: Kind) -> dict[str, Any]:
    return {
        "description": f"A list of {kind.plural}.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [_reference(_LIST_META)]},
            "items": {"type": "array", "items": _reference(_component(kind))},
        },
        "x-kubernetes-group-version-kind": [_gvk(kind, "List")],
    }


def _meta() -> dict[str, Any]:
    return {"description": "Metadata that every object has."} | OBJECT_META


def _list_meta() -> dict[str, Any]:
    texts = {"resourceVersion": {"type": "string"}, "continue": {"type": "string"}}
    properties = texts | {"remainingItemCount": {"type": "integer"}}
    return {"description": "Metadata of a list.", "type": "object", "properties": properties}


def _gvk(kind: Kind, suffix: str = "") -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind + suffix}


def _component(kind: Kind) -> str:
    return ".".join((*reversed(kind.group.split(".")), kind.version, kind.kind))


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
