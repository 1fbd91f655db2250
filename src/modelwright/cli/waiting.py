"""Waits until an object is as wanted, and shows meanwhile how far it is."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TextIO

import msgspec

from modelwright.adapters.kubernetes.client import KubernetesClient, Selection
from modelwright.adapters.kubernetes.watch import watch_once
from modelwright.cli.output import colourful, safe
from modelwright.cli.resources import Target
from modelwright.cli.units import readable
from modelwright.ports.errors import Expired, Invalid, NotFound, Unavailable
from modelwright.reconcile.requests import SUSPEND

JSON = dict[str, Any]
WATCH_SECONDS = 280


async def until(
    client: KubernetesClient,
    target: Target,
    place: str,
    seconds: float,
    done: Callable[[JSON | None], bool],
    lacking: Callable[[JSON | None], str],
) -> None:
    """Wait until `done` is true of the object (None: there is none). What it raises ends the waiting.

    The time counts from when the object was first seen, so that 0 seconds looks once.
    Raises Unavailable (reason WaitTimedOut), which says what was `lacking`.
    """
    progress, last, seen = LiveLine(sys.stderr), "", None
    try:
        async with asyncio.timeout(None) as limit, aclosing(_states(client, target, place)) as states:
            async for state in states:
                if done(state):
                    return
                if limit.when() is None:
                    limit.reschedule(asyncio.get_running_loop().time() + seconds)
                last, seen = situation(state), state
                progress.show(f"{target.label}: {last}")
    except TimeoutError:
        message = f"{target.label} {lacking(seen)} after {round(seconds, 1):g} s (--timeout): {last}"
        raise Unavailable(message, reason="WaitTimedOut") from None
    finally:
        progress.clear()


async def until_gone(client: KubernetesClient, target: Target, place: str, seconds: float, *, uid: str = "") -> None:
    """Wait until there is no object of the name, or, where a uid is given, until it is another one."""

    def gone(state: JSON | None) -> bool:
        return state is None or bool(uid and state["metadata"]["uid"] != uid)

    await until(client, target, place, seconds, gone, lambda _: "is still there")


async def until_condition(
    client: KubernetesClient, target: Target, place: str, seconds: float, type_: str, wanted: str
) -> None:
    """Wait until a condition has a status; fails as soon as the object is Stalled. Raises NotFound, Invalid."""

    def met(state: JSON | None) -> bool:
        if state is None:
            raise NotFound(f"{target.label} does not exist", reason="NotFound")
        condition = current_condition(state, type_)
        if condition is not None and str(condition.get("status", "")).lower() == wanted.lower():
            return True
        stalled = current_condition(state, "Stalled")
        if stalled is not None and stalled.get("status") == "True" and type_.lower() != "stalled":
            message = f"{target.label} is stalled: {stalled.get('reason', '')}: {stalled.get('message', '')}"
            raise Invalid(message, reason="Stalled")
        return False

    await until(client, target, place, seconds, met, lambda state: _lacking(state, type_, wanted))


def _lacking(state: JSON | None, type_: str, wanted: str) -> str:
    """What an object has not become; names the conditions that it has, where it never had the one that is meant."""
    known = [str(each.get("type", "")) for each in ((state or {}).get("status") or {}).get("conditions") or ()]
    if known and type_.lower() not in map(str.lower, known):
        return f"has no condition {type_} (but {', '.join(known)})"
    return f"has not got condition {type_}={wanted}"


def current_condition(state: JSON, type_: str) -> JSON | None:
    """The condition of a type, unless it speaks of an older generation of the object."""
    status, generation = state.get("status") or {}, state["metadata"].get("generation") or 0
    for condition in status.get("conditions") or ():
        if str(condition.get("type", "")).lower() == type_.lower():
            observed = condition.get("observedGeneration") or status.get("observedGeneration")
            return None if observed is not None and observed < generation else dict(condition)
    return None


async def _states(client: KubernetesClient, target: Target, place: str) -> AsyncGenerator[JSON | None, None]:
    """The object now, then after each change; None when there is none."""
    resource = target.known.resource
    where = Selection(place, fields=f"metadata.name={target.name}")
    while True:
        items, version = await client.list_bytes(resource, where)
        yield msgspec.json.decode(items[0], type=JSON) if items else None
        try:
            while True:
                async with aclosing(watch_once(client, resource, version, where, seconds=WATCH_SECONDS)) as changes:
                    async for change in changes:
                        state = msgspec.json.decode(change.object, type=JSON)
                        version = state["metadata"]["resourceVersion"]
                        if change.type != "BOOKMARK":
                            yield None if change.type == "DELETED" else state
        except Expired:
            continue


def situation(state: JSON | None) -> str:
    """How an object is doing, in a line."""
    if state is None:
        return "not there"
    metadata, status = state["metadata"], state.get("status") or {}
    if metadata.get("deletionTimestamp"):
        held = ", ".join(metadata.get("finalizers") or ())
        return f"being deleted, held by {held}" if held else "being deleted"
    parts = [_progress(status.get("progress") or {})]
    for type_ in ("Stalled", "Ready"):
        condition = current_condition(state, type_)
        if condition is not None and (type_ == "Ready" or condition.get("status") == "True"):
            parts.append(f"{condition.get('reason', '')}: {condition.get('message', '')}".strip(": "))
            break
    if (metadata.get("annotations") or {}).get(SUSPEND, "").lower() == "true":
        parts.append(f"suspended by its annotation {SUSPEND}")
    return "  ".join(part for part in parts if part) or "nothing is known yet"


def _progress(progress: JSON) -> str:
    done, total = progress.get("bytesDone") or 0, progress.get("bytesTotal") or 0
    if not total:
        return ""
    return f"{100 * done // total}% of {readable(total)}"


class LiveLine:
    """One line at the bottom of a terminal that is written over; nothing at all anywhere else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty() and colourful(stream)
        self._shown = False

    def show(self, text: str) -> None:
        if self._live:
            columns = shutil.get_terminal_size().columns
            self._stream.write(f"\r\x1b[2K{safe(text)[: columns - 1]}")
            self._stream.flush()
            self._shown = True

    def clear(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
