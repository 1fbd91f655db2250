"""Which kind a word on the command line means: our own kinds by themselves, any other as the server knows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import typer

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.resource import EVENTS, NAMESPACES, Resource, of_kind
from modelwright.api.kinds import KINDS
from modelwright.ports.errors import NotFound

DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


class Known(msgspec.Struct, frozen=True):
    """A resource with the names it goes by."""

    resource: Resource
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """`singular.group`, as in `modelversion.model.kubedl.io/NAME`."""
        return f"{self.singular}.{self.resource.group}" if self.resource.group else self.singular

    def answers_to(self, word: str) -> bool:
        """Whether the word is its plural, singular, kind or short name, with or without the group behind it."""
        names = {self.resource.plural, self.singular, self.resource.kind.lower(), *self.short_names}
        name, _, group = word.lower().partition(".")
        group = group.removeprefix(f"{self.resource.version}.") if group else self.resource.group
        return name in names and group in (self.resource.group, f"{self.resource.version}.{self.resource.group}")


OURS = tuple(Known(of_kind(kind), kind.singular, kind.short_names, kind.categories) for kind in KINDS)
CORE = (Known(NAMESPACES, "namespace", ("ns",)), Known(EVENTS, "event", ("ev",)))


class Target(msgspec.Struct, frozen=True):
    """What is meant: a kind, and of it one object or all (an empty name)."""

    known: Known
    name: str = ""

    @property
    def label(self) -> str:
        return f"{self.known.label}/{self.name}"


async def find(client: KubernetesClient, word: str) -> tuple[Known, ...]:
    """The kinds that a word means: one, or all of a category such as `modelwright`. Raises a usage error."""
    for known in OURS + CORE:
        if known.answers_to(word):
            return (known,)
    category = tuple(known for known in OURS if word in known.categories)
    if category:
        return category
    for known in await discover(client):
        if known.answers_to(word):
            return (known,)
    ours = ", ".join(known.resource.plural for known in OURS)
    raise typer.BadParameter(f"{client.url} knows no kind {word!r}; Modelwright's own are {ours}", param_hint="KIND")


async def find_kind(client: KubernetesClient, api_version: str, kind: str) -> Known:
    """The resource of a manifest's kind. Raises NotFound."""
    for known in OURS + CORE:
        if (known.resource.api_version, known.resource.kind) == (api_version, kind):
            return known
    for known in await discover(client):
        if (known.resource.api_version, known.resource.kind) == (api_version, kind):
            return known
    raise NotFound(f"{client.url} has no kind {kind} of {api_version}", reason="KindNotFound")


async def targets(client: KubernetesClient, words: list[str]) -> list[Target]:
    """What `KIND`, `KIND,KIND`, `KIND NAME...` or `KIND/NAME...` means. Raises a usage error."""
    if any("/" in word for word in words):
        return [await _target(client, word) for word in words]
    kinds = [known for word in words[0].split(",") for known in await find(client, word.strip())]
    if len(words) == 1:
        return [Target(known) for known in kinds]
    if len(kinds) > 1:
        raise typer.BadParameter("a name needs one kind before it", param_hint="KIND")
    return [Target(kinds[0], name) for name in words[1:]]


async def named(client: KubernetesClient, words: list[str]) -> list[Target]:
    """As `targets`, but each must have a name."""
    found = await targets(client, words)
    if not all(target.name for target in found):
        raise typer.BadParameter("a name is needed: KIND NAME or KIND/NAME", param_hint="NAME")
    return found


async def _target(client: KubernetesClient, word: str) -> Target:
    kind, slash, name = word.partition("/")
    if not slash or not kind or not name or "/" in name:
        raise typer.BadParameter(f"{word!r} is not of the form KIND/NAME", param_hint="KIND/NAME")
    known = await find(client, kind)
    if len(known) > 1:
        raise typer.BadParameter(f"{kind!r} is not one kind", param_hint="KIND/NAME")
    return Target(known[0], name)


async def discover(client: KubernetesClient) -> list[Known]:
    """All resources that the server serves, as its aggregated discovery says."""
    found = []
    for path in ("/api", "/apis"):
        answer = await client.raw("GET", path, headers={"Accept": DISCOVERY})
        found += list(_resources(msgspec.json.decode(answer.body, type=dict[str, Any])))
    return found


def _resources(document: dict[str, Any]) -> Iterator[Known]:
    for group in document.get("items") or ():
        name = group["metadata"].get("name", "")
        for version in group.get("versions") or ():
            for each in version.get("resources") or ():
                kind = (each.get("responseKind") or {}).get("kind") or ""
                namespaced = each.get("scope") == "Namespaced"
                resource = Resource(name, version["version"], each["resource"], kind, namespaced)
                singular = each.get("singularResource") or kind.lower()
                yield Known(resource, singular, tuple(each.get("shortNames") or ()))
