"""Values that sound secret are not shown and never leave for a registry: parameters are often an environment."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

HIDDEN = "(not shown)"

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SECRET = frozenset(
    {"password", "passwd", "passphrase", "pwd", "secret", "secrets", "credential", "credentials", "apikey", "authtoken"}
)
_KEYS = frozenset({"api", "access", "private", "secret", "account", "signing", "encryption", "ssh", "auth"})
_USER = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)([^/@?#]*)@")
_OPTION = re.compile(
    r"""(?<![\w./-])(?P<name>--?[A-Za-z][\w.-]*(?=[=\s])|[A-Za-z_]\w*(?==))(?P<gap>=|\s+)(?P<value>'[^']*'|"[^"]*"|\S+)"""
)


def sounds_secret(name: str) -> bool:
    """Whether a parameter of this name holds a password, key or token, as its words say (`HF_TOKEN`, `apiKey`)."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not _SECRET.isdisjoint(words) or words[-1:] == ["token"]:
        return True
    return any(second == "key" and first in _KEYS for first, second in itertools.pairwise(words))


def parameters(values: Mapping[str, str]) -> dict[str, str]:
    """The parameters, sorted by name, without what sounds secret; numbers never do."""
    return {name: _value(name, values[name]) for name in sorted(values)}


def command(text: str) -> str:
    """The command without the values of options and variables that sound secret."""
    return _OPTION.sub(_option, text)


def uri(text: str) -> str:
    """The URI without password and user, which may be a token; ssh's user is none."""
    return _USER.sub(_authority, text)


def _authority(found: re.Match[str]) -> str:
    user = found[2].partition(":")[0] if found[1].endswith("ssh://") else ""
    return found[1] + (f"{user}@" if user else "")


def _value(name: str, value: str) -> str:
    return HIDDEN if value and sounds_secret(name) and not _is_number(value) else value


def _option(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    if not sounds_secret(name) or value.startswith("-") or _is_number(value):
        return found[0]
    return f"{name}{found['gap']}{HIDDEN}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
