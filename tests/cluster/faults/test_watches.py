"""Whatever happens to a watch, the cache that hangs on it comes to hold what the server holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cluster.faults.faults import Drop, ExpireWatch, Fault, LoseLine, Mute, Refuse, SmallPages
from tests.cluster.faults.plane import Plane
from tests.cluster.faults.proxy import FaultProxy
from tests.contract.subjects import fresh_name, install_crds

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import NAMESPACES
from modelwright.adapters.kubernetes.store import KubernetesStore
from modelwright.api.meta import Metadata
from modelwright.api.model import Model
from modelwright.engine.cache import Cache

pytestmark = pytest.mark.anyio
DEADLINE_SECONDS = 60.0


class Scene:
    """A cache that follows Models through the proxy; and the same server without the proxy."""

    def __init__(self, proxy: FaultProxy, store: KubernetesStore, cache: Cache[Model], namespace: str) -> None:
        self.proxy, self.store, self.cache, self.namespace = proxy, store, cache, namespace

    async def make(self, name: str) -> Model:
        return await self.store.create(Model(metadata=Metadata(name=name, namespace=self.namespace)))

    def names(self) -> set[str]:
        return {model.metadata.name for model in self.cache.all() if model.metadata.namespace == self.namespace}

    async def sees(self, *names: str) -> None:
        await until(lambda: self.names() == set(names))

    async def watches(self) -> None:
        await until(lambda: "models" in self.proxy.watched())

    def lists(self) -> int:
        return sum(call.listing for call in self.proxy.calls)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def followed(plane: Plane, folder: Path, *, watch_seconds: int = 60) -> AsyncIterator[Scene]:
    async with (
        FaultProxy(plane.url, plane.ca_file, folder) as proxy,
        KubernetesClient(load_kubeconfig([plane.kubeconfig])) as direct,
        KubernetesClient(load_kubeconfig([proxy.kubeconfig(plane.token)])) as through,
    ):
        await install_crds(direct)
        namespace = fresh_name("watches")
        await direct.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        cache = Cache(KubernetesStore(through, watch_seconds=watch_seconds), Model)
        task = asyncio.create_task(cache.run())
        try:
            await cache.synced.wait()
            yield Scene(proxy, KubernetesStore(direct), cache, namespace)
        finally:
            task.cancel()
            await asyncio.wait([task])


def watching(call: object) -> bool:
    return getattr(call, "watch", False)


async def test_what_happened_while_a_watch_was_down_is_seen_when_it_is_up_again(plane: Plane, tmp_path: Path) -> None:
    async with followed(plane, tmp_path) as scene:
        gone = await scene.make("gone")
        await scene.sees("gone")
        refuse = Refuse(watching, 503)
        scene.proxy.faults = [refuse]
        assert scene.proxy.cut_watches() == 1
        await until(lambda: refuse.done > 0)
        await scene.store.delete(gone)
        await scene.make("made")
        lists = scene.lists()
        scene.proxy.faults = []
        await scene.sees("made")
        assert scene.lists() == lists


def gone_in_the_answer() -> Fault:
    return Refuse(watching, 410, 1)


def gone_in_the_stream() -> Fault:
    return ExpireWatch(watching, 1)


@pytest.mark.parametrize("too_old", [gone_in_the_answer, gone_in_the_stream])
async def test_a_watch_that_is_too_old_is_one_new_list(
    plane: Plane, tmp_path: Path, too_old: Callable[[], Fault]
) -> None:
    async with followed(plane, tmp_path) as scene:
        gone = await scene.make("gone")
        await scene.sees("gone")
        lists = scene.lists()
        down = Refuse(watching, 503)
        scene.proxy.faults = [down]
        scene.proxy.cut_watches()
        await until(lambda: down.done > 0)
        await scene.store.delete(gone)
        await scene.make("made")
        scene.proxy.faults = [too_old()]
        await scene.sees("made")
        await scene.watches()
        assert scene.lists() == lists + 1


async def test_a_list_that_expires_between_two_pages_is_begun_again(plane: Plane, tmp_path: Path) -> None:
    async with followed(plane, tmp_path) as scene:
        for number in range(5):
            await scene.make(f"m-{number}")
        await scene.sees(*(f"m-{number}" for number in range(5)))
        expired = Refuse(lambda call: "continue" in call.query, 410, 2)
        scene.proxy.faults = [SmallPages(2), Refuse(watching, 410, 1), expired]
        scene.proxy.cut_watches()
        await scene.make("made")
        await scene.sees("made", *(f"m-{number}" for number in range(5)))
        assert expired.done == 2


async def test_etcd_compacted_and_the_server_restarted_while_nobody_watched(plane: Plane, tmp_path: Path) -> None:
    """The real 410: the new server knows nothing of the past, and etcd neither."""
    async with followed(plane, tmp_path) as scene:
        gone = await scene.make("gone")
        await scene.sees("gone")
        scene.proxy.faults = [Drop(watching)]
        scene.proxy.cut_watches()
        await scene.store.delete(gone)
        await scene.make("made")
        plane.compact()
        plane.apiserver.kill()
        plane.start_apiserver()
        before = len(scene.proxy.calls)
        scene.proxy.faults = []
        await scene.sees("made")
        await scene.watches()
        since = scene.proxy.calls[before:]
        assert sum(call.listing for call in since) <= 2
        assert len(since) < 20, "a busy loop"


async def test_a_peer_that_is_gone_without_a_word_is_found_out_by_the_clock(plane: Plane, tmp_path: Path) -> None:
    """The connection stays open, and neither a change nor the end of the watch ever comes."""
    async with followed(plane, tmp_path, watch_seconds=1) as scene:
        mute = Mute(watching)
        scene.proxy.faults = [mute]
        await scene.watches()
        await scene.make("made")
        await until(lambda: mute.heard > 0)
        assert scene.names() == set()
        scene.proxy.faults = []
        await scene.sees("made")


async def test_a_change_that_is_kept_back_for_good_is_seen_with_the_next_list(plane: Plane, tmp_path: Path) -> None:
    async with followed(plane, tmp_path) as scene:
        await scene.watches()
        scene.proxy.faults = [LoseLine(watching, b'"lost"', 1)]
        await scene.make("lost")
        await scene.make("seen")
        await scene.sees("seen")
        scene.proxy.faults = [Refuse(watching, 410, 1)]
        scene.proxy.cut_watches()
        await scene.sees("lost", "seen")
