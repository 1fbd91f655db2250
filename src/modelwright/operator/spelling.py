"""How the operator's settings are spelled on its command line and in its environment."""

from __future__ import annotations

import re
from collections.abc import Iterable

from modelwright.ports.errors import Invalid
from modelwright.ports.quantity import is_quantity, parse
from modelwright.ports.workloads import Resources

NONE = "none"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9./]*[a-z0-9])?")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


def items(texts: Iterable[str] | None) -> tuple[str, ...]:
    """The items of an option that may be repeated, and may hold several with commas between them."""
    found = (item.strip() for text in texts or () for item in text.split(","))
    return tuple(dict.fromkeys(item for item in found if item))


def registries(texts: Iterable[str] | None) -> tuple[str, ...]:
    """HOST or HOST:PORT, each. Raises Invalid."""
    found = items(texts)
    for item in found:
        if "/" in item:
            raise Invalid(f"{item!r} is not HOST or HOST:PORT", reason="InvalidSetting")
    return found


def folders(texts: Iterable[str] | None) -> tuple[str, ...]:
    """Absolute paths on nodes. Raises Invalid."""
    found = items(texts)
    for item in found:
        if not item.startswith("/") or ".." in item.split("/"):
            raise Invalid(f"{item!r} is not an absolute path without '..'", reason="InvalidSetting")
    return found


def quantities(text: str) -> dict[str, str]:
    """Amounts by resource name, of `cpu=100m,memory=128Mi`; of `none`, no amounts. Raises Invalid."""
    found: dict[str, str] = {}
    if text.strip() == NONE:  # an empty variable is one that is not set
        return found
    for item in items([text]):
        name, equals, amount = item.partition("=")
        if not equals or not _NAME.fullmatch(name) or not is_quantity(amount):
            raise Invalid(f"{item!r} is not of the form cpu=100m or memory=128Mi", reason="InvalidSetting")
        found[name] = amount
    return found


def check_resources(resources: Resources, what: str) -> None:
    """`what` has them, such as `a build`. Raises Invalid where more is set aside than may be used: the API server
    refuses every Pod of that kind."""
    for name, limit in resources.limits.items():
        request = resources.requests.get(name, "0")
        if parse(request, name) > parse(limit, name):
            raise Invalid(
                f"{what} sets {name}={request} aside, and may use {name}={limit} at most: raise the limit",
                reason="InvalidSetting",
            )


def seconds(text: str) -> float:
    """The seconds of `15`, `15s`, `1.5s`, `500ms`, `10m` or `1h`. Raises Invalid."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise Invalid(f"{text!r} is not a length of time such as 15s or 10m", reason="InvalidSetting")
    return float(match[1]) * _UNITS[match[2]]


def address(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT. Raises Invalid."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise Invalid(f"{text!r} is not HOST:PORT", reason="InvalidSetting")
    return host.strip("[]") or "::", int(port)  # as for other programs, `:8080` is every address
