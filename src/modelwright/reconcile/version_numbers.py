"""Numbers for versions, since TensorFlow Serving's REST knows integers only.

A version that is an integer is its own number; any other gets the next free one, and keeps it for the life of the
InferenceModel.
"""

from __future__ import annotations

from modelwright.api.inference_model import InferenceModel, ServableVersion

LIMIT = 64
MAX_NUMBER = 2**62
"""Larger ones are treated as words: the numbers after them must fit 64 bits too."""


def numbered(model: InferenceModel, wanted: str) -> tuple[ServableVersion, ...]:
    """The versions that have been served or can be asked for, with the wanted one, by number."""
    known = {entry.version: entry.number for entry in model.status.versions}
    for name in (*(entry.version for entry in model.spec.manifest), wanted):
        if name not in known:
            known[name] = own_number(name, set(known.values())) or next_number(known)
    kept = forget_oldest(known, model, wanted)
    return tuple(ServableVersion(version=name, number=number) for name, number in sorted(kept.items(), key=by_number))


def own_number(name: str, taken: set[int]) -> int | None:
    """The integer that the name is, if it is one and free: `4`, not `04` or `4.0`."""
    if not name.isascii() or not name.isdigit() or str(int(name[:19])) != name:
        return None
    number = int(name)
    return number if 0 < number <= MAX_NUMBER and number not in taken else None


def next_number(known: dict[str, int]) -> int:
    """One more than the highest number in use."""
    return max(known.values(), default=0) + 1


def forget_oldest(known: dict[str, int], model: InferenceModel, wanted: str) -> dict[str, int]:
    """At most LIMIT entries: those that neither the spec nor the history names go first, lowest number first."""
    named = {wanted, *(entry.version for entry in model.spec.manifest), *served_before(model)}
    spare = sorted((name for name in known if name not in named), key=lambda name: known[name])
    surplus = len(known) - LIMIT
    gone = set(spare[:surplus]) if surplus > 0 else set()
    kept = {name: number for name, number in known.items() if name not in gone}
    if len(kept) <= LIMIT:
        return kept
    first = sorted(kept, key=lambda name: (name != wanted, -kept[name]))[:LIMIT]
    return {name: kept[name] for name in first}


def served_before(model: InferenceModel) -> set[str]:
    """The versions in the history."""
    sources = [entry.source for entry in model.status.history]
    return {source.file.version if source.file else source.model_version for source in sources}


def by_number(entry: tuple[str, int]) -> int:
    return entry[1]
