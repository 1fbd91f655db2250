"""CustomResourceDefinitions of the kinds."""

from __future__ import annotations

from typing import Any

import msgspec

from modelwright.api.kind import Column, Kind
from modelwright.api.schema import object_schema

PART_OF = {"app.kubernetes.io/part-of": "modelwright"}
"""The label by which the operator knows its own CRDs from others of the same name."""

AGE = Column("Age", ".metadata.creationTimestamp", type="date", description="How old the object is.")


def printed_columns(kind: Kind) -> tuple[Column, ...]:
    """The columns after the name: those always shown, the age, and those of `-o wide`."""
    shown = tuple(column for column in kind.columns if column.priority == 0)
    wide = tuple(column for column in kind.columns if column.priority > 0)
    return (*shown, AGE, *wide)


def crd(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name, "labels": dict(PART_OF)},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": _names(kind),
            "versions": [_version(kind)],
        },
    }


def _names(kind: Kind) -> dict[str, Any]:
    return {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.singular,
        "shortNames": list(kind.short_names),
        "categories": list(kind.categories),
    }


def _version(kind: Kind) -> dict[str, Any]:
    return {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": object_schema(kind)},
        "subresources": _subresources(kind),
        "additionalPrinterColumns": [_column(column) for column in printed_columns(kind)],
    }


def _subresources(kind: Kind) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}} if kind.has_status else {}
    if kind.scale:
        paths = {
            "specReplicasPath": kind.scale.spec_replicas,
            "statusReplicasPath": kind.scale.status_replicas,
            "labelSelectorPath": kind.scale.selector,
        }
        subresources["scale"] = {key: path for key, path in paths.items() if path}
    return subresources


def _column(column: Column) -> dict[str, Any]:
    printed = msgspec.to_builtins(column)
    printed["jsonPath"] = printed.pop("path")
    return {key: value for key, value in printed.items() if value}
