"""What the paths of both protocols ask for."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

_LONGEST_REMEMBERED = 512


class Route(NamedTuple):
    """What a path asks for: `verb` of `model` in the version or with the label that `key` names."""

    verb: str
    model: str = ""
    selector: str = ""
    key: str = ""


def route_of(path: bytes) -> Route | None:
    """The route of a raw path, or None. Only short ones are remembered: anybody can send long ones."""
    return _remembered(path) if len(path) <= _LONGEST_REMEMBERED else _read(path)


@lru_cache(maxsize=1024)
def _remembered(path: bytes) -> Route | None:
    return _read(path)


def _read(path: bytes) -> Route | None:
    parts = [unquote(part) for part in path.decode("ascii", "replace").split("/")[1:]]
    match parts:
        case ["v2"] | ["healthz"] | ["metrics"]:
            return Route(parts[0])
        case ["v2", "health", ("live" | "ready") as verb]:
            return Route(verb)
        case ["v2", "models", model, *rest]:
            return _v2_route(model, rest)
        case ["v1", "models", *rest]:
            return _v1_route(rest)
    return None


def _v2_route(model: str, rest: list[str]) -> Route | None:
    selector, key = "", ""
    if len(rest) > 1 and rest[0] == "versions":
        selector, key, rest = "versions", rest[1], rest[2:]
    match rest:
        case []:
            return Route("v2.metadata", model, selector, key)
        case [("ready" | "infer") as verb]:
            return Route(f"v2.{verb}", model, selector, key)
    return None


def _v1_route(rest: list[str]) -> Route | None:
    verb = "v1.status"
    if rest and rest[-1] == "metadata" and len(rest) in (2, 4):
        verb, rest = "v1.metadata", rest[:-1]
    elif rest and ":" in rest[-1]:
        last, _, method = rest[-1].rpartition(":")
        verb, rest = f"v1.{method}", [*rest[:-1], last]
    match rest:
        case [model] if model:
            return Route(verb, model)
        case [model, ("versions" | "labels") as selector, key] if model and key:
            return Route(verb, model, selector, key)
    return None
