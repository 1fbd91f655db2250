"""The stores that one suite of sentences is about, each with the hands of a user beside it."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from tests.contract.kube_apiserver import KubeApiserver

from modelwright.adapters.embedded import core as definitions
from modelwright.adapters.embedded.apiserver.app import create_api_app
from modelwright.adapters.embedded.apiserver.listener import Listener, Tls, listen
from modelwright.adapters.embedded.certificates import credentials, write_kubeconfig
from modelwright.adapters.embedded.store import EmbeddedStore
from modelwright.adapters.kubernetes.client import KubernetesClient, Selection
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import CRDS, EVENTS, NAMESPACES, of_kind
from modelwright.adapters.kubernetes.store import KubernetesStore
from modelwright.api.crd import crd
from modelwright.api.kinds import KINDS, MODEL
from modelwright.api.meta import Metadata
from modelwright.api.model import Model
from modelwright.ports.errors import AlreadyExists
from modelwright.ports.store import Store

JSON = dict[str, Any]
DEADLINE_SECONDS = 60.0
WATCH_SECONDS = 3
"""Short, so that a watch that lives through a test has been ended by the server, and gone on, at least once."""

KEEP_CHANGES = 100
"""More than happens in one test, unless it sets out to outlive it."""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Subject:
    """A store; and what users do to it behind its back: edit specs, read Events, make namespaces.

    `expired` is a version that is certain to be too old to watch from.
    """

    store: Store
    make_namespace: Callable[[], Awaitable[str]]
    edit: Callable[[str, str, JSON], Awaitable[JSON]]
    events: Callable[[str], Awaitable[list[JSON]]]
    expired: Callable[[], Awaitable[str]]


def fresh_name(prefix: str = "store") -> str:
    """A name that no other test uses, on a server that they share."""
    return f"{prefix}-{next(_numbers)}-{uuid.uuid4().hex[:8]}"


@asynccontextmanager
async def kubernetes_subject(server: KubeApiserver) -> AsyncIterator[Subject]:
    """KubernetesStore on a real kube-apiserver with our CRDs."""
    async with KubernetesClient(load_kubeconfig([server.kubeconfig])) as client:
        await install_crds(client)
        yield through(client, "1")  # the CRDs were installed later than that


@asynccontextmanager
async def embedded_subject(folder: Path) -> AsyncIterator[Subject]:
    """EmbeddedStore on a folder, its user beside it in the same process."""
    store = await EmbeddedStore.open(folder, keep_changes=KEEP_CHANGES, bookmark_seconds=WATCH_SECONDS / 4)
    try:
        yield _beside(store)
    finally:
        await store.close()


@asynccontextmanager
async def embedded_api_subject(folder: Path) -> AsyncIterator[Subject]:
    """KubernetesStore on the embedded API server, over TLS, with the kubeconfig that it wrote."""
    store = await EmbeddedStore.open(folder, keep_changes=KEEP_CHANGES)
    found, kubeconfig = credentials(folder), folder / "kubeconfig"
    tls = Tls(found.certificate, found.key)
    listener = Listener(create_api_app(store.resources, found.token), listen("127.0.0.1", 0), tls=tls)
    await listener.start()
    write_kubeconfig(kubeconfig, listener.port, found)
    try:
        async with KubernetesClient(load_kubeconfig([kubeconfig])) as client:
            subject = through(client, "")
            yield replace(subject, expired=lambda: _outlive(subject))
    finally:
        await store.close()
        await listener.stop()


async def _outlive(subject: Subject) -> str:
    """A version after which more has happened than is kept."""
    namespace = await subject.make_namespace()
    old = (await subject.store.list(Model)).version
    for number in range(2 * KEEP_CHANGES):
        await subject.store.create(Model(metadata=Metadata(name=f"m-{number}", namespace=namespace)))
    return old


def _beside(store: EmbeddedStore) -> Subject:
    resources = store.resources

    async def make_namespace() -> str:
        name = fresh_name()
        await resources.create(definitions.NAMESPACES, "", {"metadata": {"name": name}})
        return name

    async def edit(namespace: str, name: str, patch: JSON) -> JSON:
        definition = resources.definitions.by_plural(MODEL.group, MODEL.version, MODEL.plural)
        assert definition is not None
        written = await resources.modify(definition, namespace, name, lambda old: _merged(old, patch))
        value: JSON = msgspec.json.decode(written.entry.value)
        return value

    async def events(namespace: str) -> list[JSON]:
        entries = resources.objects.snapshot(definitions.EVENTS.resource)
        values: list[JSON] = [msgspec.json.decode(entry.value) for entry in entries]
        return [value for value in values if value["metadata"]["namespace"] == namespace]

    async def expired() -> str:
        return await _outlive(subject)

    subject = Subject(store, make_namespace, edit, events, expired)
    return subject


def _merged(old: JSON, patch: JSON) -> JSON:
    merged = {
        key: _merged(old.get(key, {}), value) if isinstance(value, dict) else value for key, value in patch.items()
    }
    return {**old, **merged}


def through(client: KubernetesClient, expired: str) -> Subject:
    """A subject whose store and whose user both go through an API server."""

    async def make_namespace() -> str:
        name = fresh_name()
        await client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    async def edit(namespace: str, name: str, patch: JSON) -> JSON:
        return await client.merge_patch(of_kind(MODEL), namespace, name, patch)

    async def events(namespace: str) -> list[JSON]:
        return await client.list(EVENTS, Selection(namespace=namespace))

    async def old() -> str:
        return expired

    return Subject(KubernetesStore(client, watch_seconds=WATCH_SECONDS), make_namespace, edit, events, old)


async def install_crds(client: KubernetesClient) -> None:
    """Install the CRDs of all kinds, once, and wait until they are served."""
    for kind in KINDS:
        try:
            await client.create(CRDS, "", crd(kind))
        except AlreadyExists:
            continue
    async with asyncio.timeout(DEADLINE_SECONDS):
        for kind in KINDS:
            while not _established(await client.get(CRDS, "", kind.crd_name)):
                await asyncio.sleep(0.05)


def _established(definition: JSON) -> bool:
    conditions = definition.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
