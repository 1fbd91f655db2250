"""Sees to it that what was kept on nodes is removed from them when it is not wanted any more."""

from __future__ import annotations

import asyncio
import logging

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers import sweep_pods
from modelwright.adapters.kubernetes.servers.edge_model import models_folder
from modelwright.adapters.kubernetes.servers.part import Place
from modelwright.adapters.kubernetes.servers.sweep_debts import Debt, Debts, Pause
from modelwright.adapters.kubernetes.workloads.kinds import PODS, Pod, going
from modelwright.ports.errors import Forbidden, ModelwrightError, NotFound, Unavailable
from modelwright.ports.workloads import Owner

log = logging.getLogger(__name__)


class Sweeps:
    """The Pods that remove what is kept. Their own labels and gates say how far each is: nothing is remembered here but
    what no such Pod could be made for yet."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._mirror = place.mirrors.pods
        self._debts = Debts()
        self._pauses: dict[str, Pause] = {}

    def kept(self, owner_uid: str) -> set[str]:
        """The servers of this owner that have no Pod and have left something that may be wanted again."""
        owed = {debt.server for debt in self._debts.of(owner_uid) if debt.kept}
        return (owed | {pod.metadata.labels.kept_of for pod in self._of(owner_uid)}) - {""}

    def node_of(self, owner_uid: str, server: str) -> str:
        """Where a server has left something; empty if nowhere."""
        found = [pod.metadata.annotations.node for pod in self._of(owner_uid) if pod.metadata.labels.kept_of == server]
        owed = [debt.node for debt in self._debts.of(owner_uid) if debt.kept and debt.server == server]
        return min((*found, *owed), default="")

    def is_told(self, owner_uid: str, node: str) -> bool:
        """Whether it is known that something of this owner's lies on that node."""
        return bool(self._on(owner_uid, node)) or self._debts.get(owner_uid, node) is not None

    async def record(self, owner: Owner, server: str, node: str, *, kept: bool) -> None:
        """Note that the models of this owner lie on that node. Where the namespace lets no such Pod in, since its quota
        has no room beside the Pod that serves, say, this is tried again until it does."""
        debt = Debt(owner, server, node, kept)
        if await self._is_noted(debt):
            self._debts.drop(owner.uid, node)
        else:
            self._debts.add(debt)

    async def _is_noted(self, debt: Debt) -> bool:
        owner, node = debt.owner, debt.node
        there = [pod for pod in self._on(owner.uid, node) if pod.metadata.namespace == owner.namespace]
        if not all(going(pod) for pod in there):
            return True
        try:
            await self._make(sweep_pods.render(owner, debt.server, node, self._place.settings, kept=debt.kept))
        except Forbidden as error:
            if self._debts.get(owner.uid, node) is None:
                folder = models_folder(self._place.settings, owner.namespace, owner.uid)
                text = "%s on the node %s stays there until a Pod can be made that removes it: %s"
                log.warning(text, folder, node, error.message)
            debt.pause.begin(asyncio.get_running_loop().time())
            return False
        return True

    async def _pay(self, debt: Debt) -> None:
        """Note it now. What was decided on it while that was under way is made good."""
        uid, node, kept = debt.owner.uid, debt.node, debt.kept
        if self._place.mirrors.nodes.get(node) is not None and not await self._is_noted(debt):
            return
        current = self._debts.get(uid, node)
        if current is None:
            await self.keep_off(uid, node)
            return
        self._debts.drop(uid, node)
        if kept and not current.kept:
            await self.unwanted(uid, debt.server)

    async def _make(self, body: JSON) -> None:
        """Raises Forbidden, and what else `Children.create` raises, but of a namespace that is going."""
        try:
            await self._place.children.create(self._mirror, body)
        except Unavailable as error:
            if error.reason != "NamespaceTerminating":
                raise
            log.warning("what %s is to remove stays there: %s", body["metadata"]["name"], error.message)

    async def keep_off(self, owner_uid: str, node: str) -> bool:
        """What lies on that node is wanted again: remove it no more. Whether nothing is being removed by now."""
        self._debts.drop(owner_uid, node)
        existing = self._on(owner_uid, node)
        for pod in existing:
            await self._place.children.remove(self._mirror, pod)
        return not self._on(owner_uid, node)

    async def unwanted(self, owner_uid: str, server: str) -> None:
        """What this server has left anywhere is not wanted any more."""
        for debt in self._debts.of(owner_uid):
            debt.kept = debt.kept and debt.server != server
        for pod in self._of(owner_uid):
            if pod.metadata.labels.kept_of == server and not going(pod):
                await self._patch(pod, sweep_pods.unwanted())

    async def tick(self) -> None:
        """Let those begin whose time has come, clear away those that are done, make those that could not be made."""
        now = asyncio.get_running_loop().time()
        for debt in self._debts.due(now):
            try:
                await self._pay(debt)
            except ModelwrightError as error:
                debt.pause.begin(now)
                log.info("what %s has left on %s: %s", debt.server, debt.node, error.message)
        sweeps = [each for each in self._mirror.all() if sweep_pods.is_sweep(each)]
        self._pauses = {uid: self._pauses[uid] for each in sweeps if (uid := each.metadata.uid) in self._pauses}
        for pod in sweeps:
            try:
                await self._look(pod)
            except ModelwrightError as error:
                log.info("the sweep %s: %s", pod.metadata.name, error.message)

    async def _look(self, pod: Pod) -> None:
        if going(pod):
            return
        node = pod.metadata.annotations.node
        if self._place.mirrors.nodes.get(node) is None or pod.status.phase == "Succeeded":
            await self._place.children.remove(self._mirror, pod)
        elif pod.metadata.labels.kept_of or self._is_kept_by_another(pod, node):
            return
        elif pod.status.phase == "Failed":
            await self._begin_again(pod)
        elif sweep_pods.is_gated(pod):
            await self._patch(pod, sweep_pods.ungated())

    async def _begin_again(self, pod: Pod) -> None:
        """The node has ended it. The next one is there before it goes: one of them is always the word of what is kept;
        and not at once, since a node whose disk is full lets none in."""
        now, pause = asyncio.get_running_loop().time(), self._pauses.setdefault(pod.metadata.uid, Pause())
        if sweep_pods.is_over_for_long(pod, self._place.clock.now()) and pause.until <= now:
            pause.begin(now)
            await self._make(sweep_pods.successor(pod, self._place.settings))
            await self._place.children.remove(self._mirror, pod, grace_seconds=0)

    def _is_kept_by_another(self, sweep: Pod, node: str) -> bool:
        """Whether the Pod that keeps the models is still there."""
        return any(
            pod.metadata.annotations.node == node and bool(pod.metadata.annotations.serve)
            for pod in self._mirror.of(sweep.metadata.labels.owner_uid)
            if pod.metadata.namespace == sweep.metadata.namespace
        )

    async def _patch(self, pod: Pod, patch: dict[str, object]) -> None:
        metadata = pod.metadata
        try:
            answer = await self._place.client.merge_patch(PODS, metadata.namespace, metadata.name, patch)
        except NotFound:
            await self._place.children.look(self._mirror, metadata)
            return
        self._mirror.wrote(self._mirror.convert(answer))

    def _of(self, owner_uid: str) -> list[Pod]:
        return [pod for pod in self._mirror.of(owner_uid) if sweep_pods.is_sweep(pod)]

    def _on(self, owner_uid: str, node: str) -> list[Pod]:
        return [pod for pod in self._of(owner_uid) if pod.metadata.annotations.node == node]
