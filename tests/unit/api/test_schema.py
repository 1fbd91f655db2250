"""The schemas are structural, limited everywhere, and the CRDs say what a kind promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from modelwright.api.crd import crd
from modelwright.api.kind import Kind
from modelwright.api.kinds import INFERENCE_MODEL, JOINT_INFERENCE_SERVICE, KINDS, MODEL, MODEL_VERSION, TRAINING_MODEL
from modelwright.api.openapi import openapi_v3
from modelwright.api.schema import object_schema, schema_at, schema_of

EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for key, sign in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            yield from nodes(schema[key], path + sign)


@EVERY_KIND
def test_every_text_list_and_map_has_a_limit(kind: Kind) -> None:
    for path, node in nodes(object_schema(kind)):
        if path in {".apiVersion", ".kind", ".metadata"}:
            continue
        if node.get("type") == "string":
            assert node.keys() & {"maxLength", "enum", "format"}, path
        if node.get("type") == "array":
            assert "maxItems" in node, path
        if node.get("type") == "object":
            assert node.keys() & {"properties", "maxProperties"}, path


@EVERY_KIND
def test_a_schema_is_structural(kind: Kind) -> None:
    refused = {"$ref", "$defs", "title", "propertyNames", "const", "oneOf", "not"}
    for path, node in nodes(object_schema(kind)):
        assert not node.keys() & refused, path
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path
        assert ("anyOf" in node) == ("x-kubernetes-int-or-string" in node), path
        assert not ("properties" in node and "additionalProperties" in node), path


@EVERY_KIND
def test_every_field_is_described(kind: Kind) -> None:
    for path, node in nodes(object_schema(kind)):
        if path.startswith((".spec", ".status")) and not path.endswith(("[]", "{}")):
            assert node.get("description"), path


def test_a_field_in_full() -> None:
    schema = object_schema(MODEL_VERSION)
    nfs = schema_at(schema, "spec.storage.nfs")
    assert nfs["description"] == "An NFS export."
    assert nfs["required"] == ["server", "path"]
    mount_path = nfs["properties"]["mountPath"]
    assert mount_path.pop("x-kubernetes-validations")
    assert mount_path == {
        "description": "The absolute path inside training containers.",
        "type": "string",
        "default": "/kubedl-model",
        "maxLength": 1024,
    }
    assert schema_at(schema, "spec.builder")["enum"] == ["kaniko", "native"]
    assert schema_at(schema, "status.finishTime")["format"] == "date-time"


def test_lists_that_are_maps_say_so() -> None:
    manifest = schema_at(object_schema(INFERENCE_MODEL), "spec.manifest")
    assert manifest["x-kubernetes-list-type"] == "map"
    assert manifest["x-kubernetes-list-map-keys"] == ["version"]
    assert "version" in manifest["items"]["required"]
    for kind in KINDS:
        conditions = schema_at(object_schema(kind), "status.conditions")
        assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_what_stands_for_absent_is_no_default() -> None:
    defaults = {
        (kind.kind, path): node["default"]
        for kind in (MODEL_VERSION, INFERENCE_MODEL, TRAINING_MODEL, JOINT_INFERENCE_SERVICE)
        for path, node in nodes(schema_of(kind.type)["properties"]["spec"])
        if "default" in node and ".spec." not in path
    }
    mount_paths = [".storage.localStorage.mountPath", ".storage.nfs.mountPath"]
    assert defaults == {
        ("ModelVersion", ".builder"): "native",
        **{(kind, path): "/kubedl-model" for kind in ("ModelVersion", "TrainingModel") for path in mount_paths},
        ("InferenceModel", ".replicas"): 1,
        ("InferenceModel", ".service.type"): "LoadBalancer",
        ("TrainingModel", ".deployToLayer"): "cloud",
        ("TrainingModel", ".workers"): 1,
        ("TrainingModel", ".backoffLimit"): 6,
        ("JointInferenceService", ".hardExampleMining.policy"): "confidence",
        ("JointInferenceService", ".timeoutSeconds"): 2,
    }


def test_a_union_that_cannot_be_said_is_refused() -> None:
    class Either(msgspec.Struct):
        value: int | list[int]

    with pytest.raises(TypeError, match="cannot say"):
        schema_of(Either)


def test_an_immutable_spec_is_required() -> None:
    for kind in KINDS:
        if kind.immutable:
            assert "spec" in object_schema(kind)["required"]
    assert "required" not in object_schema(MODEL)


@EVERY_KIND
def test_a_crd_says_what_the_kind_promises(kind: Kind) -> None:
    made = crd(kind)
    assert made["metadata"]["labels"] == {"app.kubernetes.io/part-of": "modelwright"}
    assert made["spec"]["names"]["categories"] == ["modelwright"]
    assert made["spec"]["names"]["shortNames"] == list(kind.short_names)
    (version,) = made["spec"]["versions"]
    assert version["subresources"]["status"] == {}
    assert [each["name"] for each in version["additionalPrinterColumns"]].count("Age") == 1
    assert len(msgspec.json.encode(made)) < 128 * 1024


def test_only_an_inference_model_can_be_scaled() -> None:
    scaled = [kind.kind for kind in KINDS if "scale" in crd(kind)["spec"]["versions"][0]["subresources"]]
    assert scaled == ["InferenceModel"]


def test_the_misspelling_is_refused_and_not_recommended() -> None:
    properties = object_schema(INFERENCE_MODEL)["properties"]["spec"]["properties"]
    assert properties["fraemworkType"]["description"] == "Refused: the name of this field is frameworkType."
    assert "fraemworkType" not in schema_of(INFERENCE_MODEL.type)["properties"]["spec"]["properties"]


@EVERY_KIND
def test_an_openapi_document_has_what_kubectl_asks_for(kind: Kind) -> None:
    document = openapi_v3(kind.group, kind.version, [kind])
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    one = f"/apis/{kind.api_version}/namespaces/{{namespace}}/{kind.plural}/{{name}}"
    writes = document["paths"][one]["patch"], document["paths"][one.removesuffix("/{name}")]["post"]
    for operation in writes:
        assert operation["x-kubernetes-group-version-kind"] == gvk
        assert {"fieldValidation", "dryRun", "fieldManager"} <= {each["name"] for each in operation["parameters"]}
    schemas = document["components"]["schemas"]
    assert [gvk] in [each.get("x-kubernetes-group-version-kind") for each in schemas.values()]
    assert references(document) <= {f"#/components/schemas/{name}" for name in schemas}


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        here = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return here.union(*(references(inner) for inner in value.values()))
    if isinstance(value, list):
        return set[str]().union(*(references(inner) for inner in value))
    return set()
