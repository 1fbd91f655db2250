"""From a path to the resource that it names."""

from __future__ import annotations

import msgspec

from modelwright.adapters.embedded.apiserver.status import Subject
from modelwright.adapters.embedded.core import NAMESPACES
from modelwright.adapters.embedded.definitions import Definition, Definitions


class Target(msgspec.Struct, frozen=True):
    """What a request is about: a collection if `name` is empty, else an object or its subresource.

    `namespace` is empty for all namespaces, and for what has none.
    """

    definition: Definition
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def subject(self) -> Subject:
        return Subject(name=self.name, group=self.definition.group, kind=self.definition.plural)


def target_of(definitions: Definitions, path: str) -> Target | None:
    """The resource of a path such as /apis/GROUP/VERSION/namespaces/NS/PLURAL/NAME/status; None if there is none."""
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            return _resource(definitions, "", version, rest)
        case ["apis", group, version, *rest] if group:
            return _resource(definitions, group, version, rest)
    return None


def _resource(definitions: Definitions, group: str, version: str, path: list[str]) -> Target | None:
    if not path or not all(path):
        return None
    # /namespaces/NS alone is the object NS; with a plural after it, it says where.
    if path[0] == NAMESPACES.plural and len(path) > 2:
        namespaced = definitions.by_plural(group, version, path[2])
        return _target(namespaced, path[1], path[3:]) if namespaced and namespaced.namespaced else None
    definition = definitions.by_plural(group, version, path[0])
    if definition is None or (definition.namespaced and len(path) > 1):
        return None
    return _target(definition, "", path[1:])


def _target(definition: Definition, namespace: str, rest: list[str]) -> Target | None:
    match rest:
        case []:
            return Target(definition, namespace)
        case [name]:
            return Target(definition, namespace, name)
        case [name, "status"] if definition.has_status:
            return Target(definition, namespace, name, "status")
        case [name, "scale"] if definition.scale is not None:
            return Target(definition, namespace, name, "scale")
    return None
