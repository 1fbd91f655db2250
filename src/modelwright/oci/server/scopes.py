"""Scopes, as the distribution project's token specification writes them: `repository:NAME:ACTION,ACTION`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from modelwright.oci.server.faults import Fault

PULL, PUSH, DELETE = "pull", "push", "delete"
ACTIONS = (PULL, PUSH, DELETE)

Access = dict[str, frozenset[str]]
"""What may be done, by repository."""

_SCOPE = re.compile(r"repository(?:\([a-z0-9]+\))?:([a-z0-9][a-z0-9._/-]{0,254}):([a-z*,]{0,64})")
_MAX_SCOPES = 32
"""So that a token, which is sent in a header, stays small; a request to mount names two or three."""


def parse(texts: Iterable[str]) -> Access:
    """The repositories and actions that scopes name; what we do not know is left out, and `*` is every action.

    Raises Fault 400 for too many.
    """
    scopes = [scope for text in texts for scope in text.split()]
    if len(scopes) > _MAX_SCOPES:
        raise Fault(400, "UNSUPPORTED", f"a token is for {_MAX_SCOPES} scopes at most: ask for several tokens")
    access: Access = {}
    for match in filter(None, map(_SCOPE.fullmatch, scopes)):
        asked = match[2].split(",")
        known = frozenset(ACTIONS if "*" in asked else set(asked) & set(ACTIONS))
        access[match[1]] = access.get(match[1], frozenset()) | known
    return access


def limited(access: Access, allowed: Iterable[str]) -> Access:
    """What remains of it for those who may do no more than `allowed`."""
    rest = {name: actions & frozenset(allowed) for name, actions in access.items()}
    return {name: actions for name, actions in rest.items() if actions}


def spell(access: Mapping[str, Iterable[str]]) -> str:
    """The scopes in one string, in an order that is always the same."""
    return " ".join(
        f"repository:{name}:{','.join(sorted(actions, key=ACTIONS.index))}" for name, actions in sorted(access.items())
    )
