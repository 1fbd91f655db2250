"""Names a kind of object as URLs spell it."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from modelwright.api.kind import Kind


class Resource(msgspec.Struct, frozen=True):
    """A kind by its place in the API; `kind` is for messages and bodies."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`plural.group`, as kubectl's `-o name` begins with (singular there)."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path: of all objects, of a namespace's, of one, or of a part of one."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, *([name] if name else []), *([subresource] if subresource else [])]
        return "/" + "/".join(quote(part, safe="") for part in parts)


def of_kind(kind: Kind) -> Resource:
    """The resource of one of our kinds."""
    return Resource(kind.group, kind.version, kind.plural, kind.kind)


EVENTS = Resource("", "v1", "events", "Event")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
