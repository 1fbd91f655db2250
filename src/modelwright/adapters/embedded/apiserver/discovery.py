"""What is served, told in the two ways of asking: aggregated (apidiscovery.k8s.io/v2) and one document per group."""

from __future__ import annotations

from typing import Any

import msgspec

from modelwright.adapters.embedded.apiserver.asgi import Request, Response, document
from modelwright.adapters.embedded.apiserver.negotiation import wants
from modelwright.adapters.embedded.core import NAMESPACES
from modelwright.adapters.embedded.definitions import Definition, Definitions

_AGGREGATED = b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUB_VERBS = ["get", "patch", "update"]
_SCALE = {"group": "autoscaling", "version": "v1", "kind": "Scale"}


class Discovery:
    """The discovery documents, encoded once."""

    def __init__(self, definitions: Definitions) -> None:
        groups = [group for group in definitions.groups() if group[0]]
        self._paths = {
            "/api": document({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
            "/apis": document({"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*g) for g in groups]}),
            "/api/v1": document(_resources(definitions, "", "v1")),
        }
        for group, version in groups:
            self._paths[f"/apis/{group}"] = document({"apiVersion": "v1", **_group(group, version)})
            self._paths[f"/apis/{group}/{version}"] = document(_resources(definitions, group, version))
        self._aggregated = {
            "/api": _aggregated(definitions, [("", "v1")]),
            "/apis": _aggregated(definitions, groups),
        }

    def answer(self, request: Request, path: str) -> Response | None:
        """The document at a path, None if it is no discovery path."""
        if path in self._aggregated and wants(request, "APIGroupDiscoveryList"):
            return self._aggregated[path]
        return self._paths.get(path)


def _group(group: str, version: str) -> dict[str, Any]:
    names = {"groupVersion": f"{group}/{version}", "version": version}
    return {"kind": "APIGroup", "name": group, "versions": [names], "preferredVersion": names}


def _verbs(definition: Definition) -> list[str]:
    return [verb for verb in _VERBS if definition is not NAMESPACES or verb != "deletecollection"]


def _resources(definitions: Definitions, group: str, version: str) -> dict[str, Any]:
    resources: list[dict[str, Any]] = []
    for item in definitions.of_group(group, version):
        entry = {"name": item.plural, "singularName": item.singular, "namespaced": item.namespaced, "kind": item.kind}
        entry |= {"verbs": _verbs(item), "shortNames": list(item.short_names), "categories": list(item.categories)}
        resources.append(entry)
        sub = {"singularName": "", "namespaced": item.namespaced, "verbs": _SUB_VERBS}
        if item.has_status:
            resources.append({"name": f"{item.plural}/status", "kind": item.kind, **sub})
        if item.scale:
            resources.append({"name": f"{item.plural}/scale", **_SCALE, **sub})
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def _aggregated(definitions: Definitions, groups: list[tuple[str, str]]) -> Response:
    items = []
    for group, version in groups:
        resources = [_discovered(item) for item in definitions.of_group(group, version)]
        versions = [{"version": version, "resources": resources, "freshness": "Current"}]
        items.append({"metadata": {"name": group} if group else {}, "versions": versions})
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}}
    return Response(msgspec.json.encode({**head, "items": items}), content_type=_AGGREGATED)


def _discovered(item: Definition) -> dict[str, Any]:
    kind = {"group": item.group, "version": item.version, "kind": item.kind}
    subresources: list[dict[str, Any]] = []
    if item.has_status:
        subresources.append({"subresource": "status", "responseKind": kind, "verbs": _SUB_VERBS})
    if item.scale:
        subresources.append({"subresource": "scale", "responseKind": _SCALE, "verbs": _SUB_VERBS})
    return {
        "resource": item.plural,
        "responseKind": kind,
        "scope": "Namespaced" if item.namespaced else "Cluster",
        "singularResource": item.singular,
        "verbs": _verbs(item),
        "shortNames": list(item.short_names),
        "categories": list(item.categories),
        "subresources": subresources,
    }
