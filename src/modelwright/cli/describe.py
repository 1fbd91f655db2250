"""`modelwright describe`: one object for reading, with its conditions and what happened to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modelwright.cli.context import Connection, ContextOption, KubeconfigOption, NamespaceOption, run

if TYPE_CHECKING:
    from modelwright.adapters.kubernetes.client import KubernetesClient
    from modelwright.cli.resources import Target

JSON = dict[str, Any]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("describe")(describe)


def describe(
    words: Annotated[list[str], typer.Argument(metavar="KIND NAME...", help="Or KIND/NAME.", show_default=False)],
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Show an object's spec, status, conditions and Events."""
    from modelwright.cli import resources
    from modelwright.cli.output import say

    async def verb() -> None:
        async with Connection(kubeconfig, context, namespace).client() as client:
            for number, target in enumerate(await resources.named(client, words)):
                if number:
                    say()
                await _describe(client, target)

    run(verb())


async def _describe(client: KubernetesClient, target: Target) -> None:
    place = client.namespace if target.known.resource.namespaced else ""
    value = await client.get(target.known.resource, place, target.name)
    events = await _events(client, value)
    _head(value)
    _block("Spec", value.get("spec"))
    status = dict(value.get("status") or {})
    conditions = status.pop("conditions", None) or []
    _block("Status", status)
    _conditions(conditions)
    _print_events(events)


def _head(value: JSON) -> None:
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
        "Created": metadata.get("creationTimestamp"),
        "Deleting since": metadata.get("deletionTimestamp"),
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


def _conditions(conditions: list[JSON]) -> None:
    from modelwright.cli.output import paint, table

    if not conditions:
        return
    print(paint("Conditions:", "bold"))
    rows = [
        [each.get(key) or "" for key in ("type", "status", "lastTransitionTime", "reason", "message")]
        for each in conditions
    ]
    table(["TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"], rows, indent="  ")


async def _events(client: KubernetesClient, value: JSON) -> list[JSON]:
    from modelwright.adapters.kubernetes.client import Selection
    from modelwright.adapters.kubernetes.resource import EVENTS

    metadata = value["metadata"]
    wanted = {"uid": metadata.get("uid", ""), "name": metadata["name"], "kind": value["kind"]}
    fields = ",".join(f"involvedObject.{key}={each}" for key, each in wanted.items())
    return await client.list(EVENTS, Selection(metadata.get("namespace") or "default", fields=fields))


def _print_events(events: list[JSON]) -> None:
    from modelwright.cli.output import paint, table

    if not events:
        print(f"{paint('Events:', 'bold')}         none")
        return
    print(paint("Events:", "bold"))
    now = datetime.now(UTC)
    rows = [
        [each.get("type") or "", each.get("reason") or "", _when(each, now), each.get("message") or ""]
        for each in sorted(events, key=_last)
    ]
    table(["TYPE", "REASON", "AGE", "MESSAGE"], rows, indent="  ")


def _last(event: JSON) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def _when(event: JSON, now: datetime) -> str:
    try:
        seconds = int((now - datetime.fromisoformat(_last(event))).total_seconds())
    except (ValueError, TypeError):
        return "unknown"
    count = event.get("count") or 1
    return f"{age(seconds)} (x{count})" if count > 1 else age(seconds)


def age(seconds: int) -> str:
    """A length of time in its two biggest units, such as `5m10s` or `3d`."""
    parts = []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        amount, seconds = divmod(max(0, seconds), length)
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts[:2]) or "0s"
