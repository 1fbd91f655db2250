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
_SIGNATURES = (["signature"], ["sig"])
_USER = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)([^/?#]*)@")
_USER_IN_TEXT = re.compile(r"""((?:ssh)?://)([^/?#\s'"]*)@""")
_QUERY = re.compile(r"""([?&])([^=&?#\s'"]{1,64})=([^&#\s'"]*)""")
_OPTION = re.compile(
    r"(?<![\w./-])(?P<name>--?[A-Za-z][\w.-]*(?=[=\s])|[A-Za-z_]\w*(?==))(?P<gap>=|\s+)",
)
_VALUE = re.compile(r"""(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|\S)+""")
_QUOTED_VALUE = re.compile(r"""[^']*(?:'"'"'[^']*)*(?=')""")
"""The rest of a word that is quoted as a whole, as `shlex.join` writes it."""


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
    text, shown, at = _urls(text), [], 0
    for option in _OPTION.finditer(text):
        value = _secret(option, text) if option.start() >= at else None
        if value is not None:
            shown += [text[at : value.start()], HIDDEN]
            at = value.end()
    return "".join((*shown, text[at:]))


def uri(text: str) -> str:
    """The URI without password, user (which may be a token; ssh's is none), and what sounds secret in its query."""
    return _QUERY.sub(_queried, _USER.sub(_authority, text))


def _urls(text: str) -> str:
    """A text with URLs as `uri` shows them."""
    return _QUERY.sub(_queried, _USER_IN_TEXT.sub(_authority, text))


def _queried(found: re.Match[str]) -> str:
    name = found[2]
    words = [word.lower() for word in _WORDS.findall(name)]
    return f"{found[1]}{name}=" if sounds_secret(name) or words[-1:] in _SIGNATURES else found[0]


def _authority(found: re.Match[str]) -> str:
    user = found[2].partition(":")[0] if found[1].endswith("ssh://") else ""
    return found[1] + (f"{user}@" if user else "")


def _value(name: str, value: str) -> str:
    return HIDDEN if value and sounds_secret(name) and not _is_number(value) else _urls(value)


def _secret(option: re.Match[str], text: str) -> re.Match[str] | None:
    """The value of an option or variable, if it is not to be shown."""
    if not sounds_secret(option["name"]):
        return None
    before = text[max(0, option.start() - 2) : option.start()]
    quoted = option["gap"] == "=" and before.endswith("'") and not before[:-1].strip()
    value = (quoted and _QUOTED_VALUE.match(text, option.end())) or _VALUE.match(text, option.end())
    if value is None or _is_number(value[0]) or (option["gap"] != "=" and value[0].startswith("-")):
        return None  # what begins with a dash is another option
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
