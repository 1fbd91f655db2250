"""Structural OpenAPI v3 schemas of the structs, as CustomResourceDefinitions need them.

msgspec gives JSON Schema 2020-12; a structural schema has no references, no null, no union but int-or-string.
"""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from modelwright.api.kind import Kind, Rule

Schema = dict[str, Any]

_DROPPED = ("title", "propertyNames", "$defs", "$ref", "anyOf")
_ORDER = ("description", "type", "format", "enum", "default")


def schema_of(type_: Any) -> Schema:
    """The structural schema of a struct or of a field's type, without rules."""
    (node,), definitions = msgspec.json.schema_components((type_,), ref_template="{name}")
    return _structural(node, definitions)


def object_schema(kind: Kind) -> Schema:
    """The schema of a kind's objects with its rules and refused fields; `metadata` is left to Kubernetes."""
    schema = schema_of(kind.type)
    schema["properties"]["metadata"] = {"type": "object"}
    for field in ("apiVersion", "kind"):
        schema["properties"][field] = {"type": "string"}
    for wrong in kind.misspellings:
        text = f"Refused: the name of this field is {wrong.right}."
        schema_at(schema, wrong.at)["properties"][wrong.wrong] = _refused(text)
    for rule in kind.all_rules:
        schema_at(schema, rule.at).setdefault("x-kubernetes-validations", []).append(_validation(rule))
    return schema


def schema_at(schema: Schema, path: str) -> Schema:
    """The part of a schema at a rule's path, such as `spec.manifest[].version` or `spec.nodeSelector{}`."""
    for step in path.replace("[]", ".[]").replace("{}", ".{}").split(".") if path else ():
        if step == "[]":
            schema = schema["items"]
        elif step == "{}":
            schema = schema["additionalProperties"]
        else:
            schema = schema["properties"][step]
    return schema


def _refused(text: str) -> Schema:
    return {"description": text, "type": "string", "maxLength": 253}


def _validation(rule: Rule) -> Schema:
    validation: Schema = {"rule": rule.rule, "message": rule.message}
    if rule.field_path:
        validation["fieldPath"] = rule.field_path
    if rule.reason != "FieldValueInvalid":
        validation["reason"] = rule.reason
    return validation


def _structural(node: Schema, definitions: dict[str, Schema]) -> Schema:
    result: Schema = {}
    if "$ref" in node:
        result |= _structural(definitions[node["$ref"]], definitions)
    if "anyOf" in node:
        result |= _union(node["anyOf"], definitions)
    result |= {key: value for key, value in node.items() if key not in _DROPPED}
    if "properties" in node:
        result["properties"] = {key: _structural(inner, definitions) for key, inner in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            result[key] = _structural(node[key], definitions)
    return _tidy(result)


def _union(branches: list[Schema], definitions: dict[str, Schema]) -> Schema:
    real = [branch for branch in branches if branch.get("type") != "null"]
    if len(real) == 1:
        return _structural(real[0], definitions)
    by_type = {branch.get("type"): branch for branch in real}
    if by_type.keys() != {"integer", "string"}:
        raise TypeError(f"a structural schema cannot say {branches}")
    limits = {key: value for key, value in by_type["string"].items() if key != "type"}
    return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True} | limits


def _tidy(schema: Schema) -> Schema:
    if "description" in schema:
        schema["description"] = inspect.cleandoc(schema["description"])
    if "enum" in schema:
        schema["type"] = "string"
    if "exclusiveMinimum" in schema:
        schema |= {"minimum": schema["exclusiveMinimum"], "exclusiveMinimum": True}
    if not schema.get("required", True):
        del schema["required"]
    _tidy_default(schema)
    head = {key: schema[key] for key in _ORDER if key in schema}
    return head | {key: schema[key] for key in sorted(schema) if key not in _ORDER}


def _tidy_default(schema: Schema) -> None:
    # In the structs "", 0, {} and () stand for "absent": only other defaults are written into stored objects.
    default = schema.get("default")
    if not default or isinstance(default, dict):
        schema.pop("default", None)
    elif isinstance(default, float) and default.is_integer():
        schema["default"] = int(default)
