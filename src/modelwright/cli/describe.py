"""`modelwright describe`: one object for reading, with its conditions and what happened to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modelwright.cli.context import Connection, ContextOption, KubeconfigOption, NamespaceOption, run

if TYPE_CHECKING:
    from modelwright.adapters.kubernetes.client import KubernetesClient
    from modelwright.cli.output import Style
    from modelwright.cli.resources import Target

JSON = dict[str, Any]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("describe")(describe)


def describe(
    words: Annotated[list[str], typer.Argument(metavar="KIND NAME", help="Or KIND/NAME.", show_default=False)],
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Show an object's spec, status, conditions and Events.

    Example: modelwright describe infm/digits
    """
    from modelwright.cli import resources

    async def verb() -> None:
        async with Connection(kubeconfig, context, namespace).client() as client:
            for number, target in enumerate(await resources.named(client, words)):
                await _describe(client, target, apart=number > 0)

    run(verb())


async def _describe(client: KubernetesClient, target: Target, *, apart: bool) -> None:
    from modelwright.cli.output import say

    place = client.namespace if target.known.resource.namespaced else ""
    value = await client.get(target.known.resource, place, target.name)
    events = await _events(client, value)
    if apart:
        say()
    now = datetime.now(UTC)
    _head(value, now)
    _block("Spec", value.get("spec"))
    status = dict(value.get("status") or {})
    conditions = status.pop("conditions", None) or []
    _block("Status", status)
    _conditions(conditions, now)
    _print_events(events, now)


def _head(value: JSON, now: datetime) -> None:
    from modelwright.cli.merge import LAST_APPLIED
    from modelwright.cli.output import paint, safe

    metadata = value["metadata"]
    annotations = {key: each for key, each in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    owners = [f"{owner['kind']}/{owner['name']}" for owner in metadata.get("ownerReferences") or ()]
    lines = {
        "Name": metadata["name"],
        "Namespace": metadata.get("namespace"),
        "Kind": f"{value['kind']} ({value['apiVersion']})",
        "Labels": _pairs(metadata.get("labels") or {}),
        "Annotations": _pairs(annotations),
        "Owner": ", ".join(owners),
        "Finalizers": ", ".join(metadata.get("finalizers") or ()),
        "Generation": metadata.get("generation"),
        "Created": _dated(metadata.get("creationTimestamp"), now),
        "Deleting since": _dated(metadata.get("deletionTimestamp"), now),
    }
    for name, text in lines.items():
        if text:
            print(f"{paint(name + ':', 'bold')}{' ' * (16 - len(name))}{safe(text)}")


def _pairs(pairs: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(pairs.items()))


def _block(title: str, value: Any) -> None:
    from modelwright.cli.output import paint, safe, to_yaml

    if not value:
        return
    print(paint(f"{title}:", "bold"))
    for line in to_yaml([value]).splitlines():
        print(f"  {safe(line)}")


def _conditions(conditions: list[JSON], now: datetime) -> None:
    from modelwright.cli.output import paint, table
    from modelwright.cli.units import since

    if not conditions:
        return
    print(paint("Conditions:", "bold"))
    rows = [
        [
            each.get("type") or "",
            each.get("status") or "",
            since(each.get("lastTransitionTime"), now),
            each.get("reason") or "",
            each.get("message") or "",
        ]
        for each in conditions
    ]
    table(["TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"], rows, indent="  ", styles=_condition_styles)


def _condition_styles(row: Sequence[str]) -> list[Style | None]:
    """Only the status is painted, by what it means for the type: that an object is not Stalled is no fault."""
    type_, status, *rest = row
    good: dict[str, Style] = {"True": "good", "False": "bad", "Unknown": "busy"}
    odd: dict[str, dict[str, Style]] = {"Stalled": {"True": "bad"}, "Reconciling": {"True": "busy"}}
    return [None, odd.get(type_, good).get(status), *(None for _ in rest)]


async def _events(client: KubernetesClient, value: JSON) -> list[JSON]:
    from modelwright.adapters.kubernetes.client import Selection
    from modelwright.adapters.kubernetes.resource import EVENTS

    metadata = value["metadata"]
    wanted = {"uid": metadata.get("uid", ""), "name": metadata["name"], "kind": value["kind"]}
    fields = ",".join(f"involvedObject.{key}={each}" for key, each in wanted.items())
    return await client.list(EVENTS, Selection(metadata.get("namespace") or "default", fields=fields))


def _print_events(events: list[JSON], now: datetime) -> None:
    from modelwright.cli.output import paint, table

    if not events:
        print(f"{paint('Events:', 'bold')}         none")
        return
    print(paint("Events:", "bold"))
    rows = [
        [each.get("type") or "", each.get("reason") or "", _when(each, now), each.get("message") or ""]
        for each in sorted(events, key=_order)
    ]
    table(["TYPE", "REASON", "AGE", "MESSAGE"], rows, indent="  ")


def _last(event: JSON) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def _order(event: JSON) -> tuple[str, int]:
    """By time, which is told in whole seconds, then by which was written first."""
    version = str(event["metadata"].get("resourceVersion", ""))
    return _last(event), int(version) if version.isdecimal() else 0


def _when(event: JSON, now: datetime) -> str:
    from modelwright.cli.units import since

    count = event.get("count") or 1
    return f"{since(_last(event), now)} (x{count})" if count > 1 else since(_last(event), now)


def _dated(timestamp: object, now: datetime) -> str:
    from modelwright.cli.units import since

    return f"{timestamp} ({since(timestamp, now)} ago)" if timestamp else ""
