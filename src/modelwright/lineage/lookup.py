"""Which node a word on the command line means: NAME, or KIND/NAME with the kind's usual spellings."""

from __future__ import annotations

from modelwright.api.kinds import KINDS
from modelwright.lineage.graph import Graph
from modelwright.lineage.ids import training_id, version_id
from modelwright.ports.errors import Invalid, NotFound

_OBJECTS = tuple(kind.kind for kind in KINDS)
_OWN = {f"{kind.lower()}{plural}": kind for kind in ("Dataset", "File", "Image") for plural in ("", "s")}


def kind_of(word: str) -> str:
    """The kind that a word means, such as `mv`, `modelversions` or `modelversion.model.kubedl.io`; empty if none."""
    name, _, group = word.lower().partition(".")
    for kind in KINDS:
        names = {kind.plural, kind.singular, kind.kind.lower(), *kind.short_names}
        if name in names and group in ("", kind.group, f"{kind.version}.{kind.group}"):
            return kind.kind
    return _OWN.get(word.lower(), "")


def choose(graph: Graph, word: str) -> str:
    """The id of the node that is meant: objects come before data sets and files, which bear any name.

    Raises NotFound, Invalid (NameAmbiguous, UnknownKind).
    """
    kind, name = _parsed(word)
    found = graph.find(name, (kind,) if kind else _OBJECTS) or ([] if kind else graph.find(name))
    if not found:
        what = f"{kind} {name}" if kind else f"{name}: no model, version, training, service or data set has this name"
        raise NotFound(f"there is no {what} in this namespace", reason="NotFound")
    pair = {training_id(name), version_id(name)}
    if set(found) == pair and graph.joins(training_id(name), version_id(name)):
        return version_id(name)  # a training makes a version of its own name: from there, both are seen
    if len(found) > 1:
        raise Invalid(f"{name} is the name of several things: say which of {', '.join(found)}", reason="NameAmbiguous")
    return found[0]


def _parsed(word: str) -> tuple[str, str]:
    head, slash, name = word.partition("/")
    if not slash:
        return "", word
    kind = kind_of(head)
    if not kind or not name:
        spellings = "mo, mv, tm, infm, jis, dataset, file"
        raise Invalid(f"{word!r} is not of the form KIND/NAME with a kind such as {spellings}", reason="UnknownKind")
    return kind, name
