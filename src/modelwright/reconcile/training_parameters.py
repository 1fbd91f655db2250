"""The parameters of a training, as its result's lineage tells them: options, variables, the command.

Lineage is attached to the image and goes where that goes: what looks like a password, a token or a key is left out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from modelwright.api.training_model import TrainingModelSpec

LIMIT = 128
VALUE_LIMIT = 1024
HIDDEN = "***"

_SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|credential|token$|(api|access|private|signing)[-_.]?key|(^|[-_.])(auth|pwd)([-_.]|$)",
    re.IGNORECASE,
)
_OPTION = re.compile(r"--(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_NUMBER = re.compile(r"-[0-9.]")
_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def parameters(spec: TrainingModelSpec) -> dict[str, str]:
    """At most 128 names with values of at most 1,024 characters, the command and its options before variables."""
    words = tuple(without_secrets((*spec.command, *spec.args)))
    variables = {variable.name: variable.value for variable in spec.env if not is_secret(variable.name)}
    found = {**about(spec, words), **options(words)}
    merged = {**found, **{name: value for name, value in variables.items() if name not in found}}
    return {name: shortened(without_login(value)) for name, value in list(merged.items())[:LIMIT]}


def about(spec: TrainingModelSpec, words: Sequence[str]) -> dict[str, str]:
    """The command as a shell would quote it, and what else decides how it runs."""
    told = {
        "command": shlex.join(words),
        "workers": str(spec.workers) if spec.workers > 1 else "",
        "frameworkType": spec.framework_type,
    }
    return {name: value for name, value in told.items() if value}


def options(words: Sequence[str]) -> dict[str, str]:
    """`--epochs 3` and `--epochs=3` are epochs: 3; an option without a value is true; the last of a name counts."""
    found: dict[str, str] = {}
    for position, word in enumerate(words):
        if word == "--":
            break
        option = _OPTION.fullmatch(word)
        if option is not None and not is_secret(option["name"]):
            value = option["value"]
            found[option["name"]] = value if value is not None else value_after(words, position)
    return {name: value for name, value in found.items() if name not in ("command", "workers", "frameworkType")}


def value_after(words: Sequence[str], position: int) -> str:
    """The word after an option, if that is a value and no option itself."""
    word = words[position + 1] if position + 1 < len(words) else "-"
    return word if not word.startswith("-") or _NUMBER.match(word) else "true"


def without_secrets(words: Sequence[str]) -> Iterator[str]:
    """The words, with the values of options that look secret hidden."""
    hide = False
    for word in words:
        option = _OPTION.fullmatch(word)
        if hide and not (option is not None or word == "--"):
            yield HIDDEN
            hide = False
            continue
        hide = option is not None and is_secret(option["name"]) and option["value"] is None
        if option is not None and is_secret(option["name"]) and option["value"] is not None:
            yield f"--{option['name']}={HIDDEN}"
        else:
            yield word


def is_secret(name: str) -> bool:
    """Whether a value of this name is likely to be a secret."""
    return _SECRET.search(name) is not None


def without_login(text: str) -> str:
    """The text, with user and password taken out of its URLs."""
    return _LOGIN.sub(HIDDEN, text)


def shortened(text: str) -> str:
    return text if len(text) <= VALUE_LIMIT else text[: VALUE_LIMIT - 1] + "…"
