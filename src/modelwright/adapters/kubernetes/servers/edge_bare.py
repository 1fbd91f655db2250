"""Servers that are one bare Pod each, on one node: what the models at the edge and the gateways have in common."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator

import msgspec

from modelwright.adapters.kubernetes.servers import edge_faults, edge_plan, edge_status
from modelwright.adapters.kubernetes.servers.edge_notes import Key, Note
from modelwright.adapters.kubernetes.servers.edge_plan import Do
from modelwright.adapters.kubernetes.servers.edge_pod import Rendered
from modelwright.adapters.kubernetes.servers.edge_status import Sight
from modelwright.adapters.kubernetes.servers.edge_turns import Turns, answers
from modelwright.adapters.kubernetes.servers.keeper_reader import LogReader, StateOf
from modelwright.adapters.kubernetes.servers.labels import SERVE
from modelwright.adapters.kubernetes.servers.node_choice import choose
from modelwright.adapters.kubernetes.servers.part import Place
from modelwright.adapters.kubernetes.servers.quota_room import EXCEEDED, has_room_without
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.servers.sweep_loop import Sweeps
from modelwright.adapters.kubernetes.workloads import labels
from modelwright.adapters.kubernetes.workloads.kinds import PODS, Pod, going
from modelwright.ports.errors import Conflict, Forbidden, ModelwrightError, NotFound, Retryable
from modelwright.ports.workloads import ModelServer, Owner, Server, ServerStatus

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
STEPS = 4
AT_ONCE = 32
"""Servers that are looked at in one go."""
Render = Callable[[Server, str, ServerSettings], Rendered]


class Sort(msgspec.Struct, frozen=True):
    """What is particular to one sort of such servers: `component` is their label, `container` prints their state, which
    `read` finds in its log; `kept_path` is where on the node something is kept that is to be shown."""

    component: str
    container: str
    render: Render
    read: StateOf
    kept_path: Callable[[Server, ServerSettings], str]


class BarePods:
    """Most of a `Part`. All that there is stands in the Pods and is decided on anew from them; the notes only save
    asking again. What changes by itself is looked at twice a second."""

    def __init__(self, place: Place, sort: Sort) -> None:
        self._place = place
        self._sort = sort
        self._notes: dict[Key, Note] = {}
        self._nodes_seen = 0
        self._mirror = place.mirrors.pods
        self._sweeps = Sweeps(place)
        self._turns = Turns()
        self._reader = LogReader(place.client, sort.container, sort.read, place.changed)

    # The part -------------------------------------------------------------------------------------------------------

    async def apply(self, server: Server) -> None:
        """Take the next steps towards it. What stands against it is said in its status; raises Retryable."""
        note = self._notes.setdefault((server.owner.uid, server.name), Note())
        if note.server != server or note.ending:
            note.server, note.ending = server, False
            note.start_again()
        await self._step(note)

    def names(self, owner_uid: str) -> Iterable[str]:
        """Those that have a Pod, are wanted, or have left something on a node."""
        found = {pod.metadata.labels.server for pod in self._pods(owner_uid) if not going(pod) or self._is_owed(pod)}
        wanted = {name for (uid, name), note in self._notes.items() if uid == owner_uid and note.server is not None}
        return found | wanted | self._kept(owner_uid)

    def status(self, owner: Owner, name: str) -> ServerStatus | None:
        """From the Pod of that name in the owner's namespace."""
        note, pod = self._notes.get((owner.uid, name)), self._pod(owner, name)
        if pod is None and (note is None or note.server is None):
            return ServerStatus(name=name) if name in self._kept(owner.uid) else None
        note = note or Note()
        node = self._place.mirrors.nodes.get(pod.metadata.annotations.node) if pod is not None else None
        reading = note.reading
        known = pod is not None and reading.pod == pod.metadata.uid
        server = note.server
        return edge_status.server_status(
            Sight(
                name=name,
                pod=pod,
                node=node,
                now=self._place.clock.now(),
                server=server,
                rendered=note.rendered,
                state=reading.state if known else None,
                failure=note.failure,
                unread=reading.unread if known else None,
                notice=note.choice.notice,
                kept_path=self._sort.kept_path(server, self._place.settings) if server is not None else "",
                deferred=note.deferred,
            )
        )

    async def remove(self, owner_uid: str, name: str) -> None:
        """Delete its Pod, in whatever namespace it is, and see to it that what it has kept is removed from its node.

        Until all that is done it is among the names: after an error it can be asked for again.
        """
        note = self._notes.get((owner_uid, name))
        if note is not None:
            note.ending = True
            async with note.busy:  # a step that is under way is the last
                pass
        pods = [each for each in self._pods(owner_uid) if each.metadata.labels.server == name]
        for pod in pods:
            await self._end(pod, kept=False)
        if note is not None and note.server is not None and not pods:
            await self._leave(note, note.server)
        await self._sweeps.unwanted(owner_uid, name)
        self._notes.pop((owner_uid, name), None)

    def pods(self, owner: Owner, name: str) -> list[Pod]:
        """The one that it is."""
        pod = self._pod(owner, name)
        return [pod] if pod is not None else []

    def node_changed(self, node: str) -> None:
        """The next look decides anew; who is there has another status."""
        self._nodes_seen += 1
        for uid in {pod.metadata.labels.owner_uid for pod in self._all() if pod.metadata.annotations.node == node}:
            self._place.changed(uid)

    async def run(self) -> None:
        """Until cancelled. A node that is slow to show a log holds nothing else up."""
        await self._place.mirrors.filled()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._for_ever(self._tick))
            group.create_task(self._for_ever(self._read))

    async def _for_ever(self, look: Callable[[float], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                await look(asyncio.get_running_loop().time())
            except ModelwrightError as error:
                log.warning("looking after servers at the edge: %s", error.message)
            except Exception:  # what cannot be done now keeps nothing from going on
                log.exception("looking after servers at the edge: unexpected error")

    async def _read(self, now: float) -> None:
        known = [(note.reading, self._pod_of(key, note)) for key, note in self._notes.items()]
        await self._reader.tick(now, [(each, pod) for each, pod in known if pod is not None and self._answers(pod)])

    # Steps ----------------------------------------------------------------------------------------------------------

    async def _tick(self, now: float) -> None:
        pods = {(pod.metadata.labels.owner_uid, pod.metadata.labels.server) for pod in self._all()}
        for key in pods:
            self._notes.setdefault(key, Note())
        for uid in {pod.metadata.labels.owner_uid for pod in self._all() if not pod.spec.node_name}:
            self._place.changed(uid)  # that a Pod has no node counts only after a while
        for key, note in list(self._notes.items()):
            if note.server is None and key not in pods:
                del self._notes[key]
        self._count_turns()
        restless = [note for note in self._notes.values() if self._is_restless(note, now)]
        restless.sort(key=lambda note: note.not_before)
        await asyncio.gather(*(self._step_alone(note) for note in restless[:AT_ONCE]))
        if self._sort.component == SERVE:
            await self._sweeps.tick()

    def _is_restless(self, note: Note, now: float) -> bool:
        if note.server is None or note.ending or note.not_before > now:
            return False
        signature = self._signature(note.server)
        if note.failure is not None or signature is None or note.seen != signature:
            return True
        return note.deferred and note.rendered is not None and self._has_turn(note.rendered)

    def _count_turns(self) -> None:
        notes = ((note, self._pod_of(key, note)) for key, note in self._notes.items())
        self._turns.count(self._all(), notes, self._place.mirrors.nodes.get)

    def _has_turn(self, rendered: Rendered) -> bool:
        """Whether a Pod may be made anew for the operator's sake: what a node that is away loses, it loses for long."""
        if not self._turns.counted:
            self._count_turns()
        return answers(self._place.mirrors.nodes.get(rendered.node)) and self._turns.free(rendered.images) > 0

    def _signature(self, server: Server) -> object:
        """What a decision hangs on beside the server itself; None while its Pod is still to come, or to come again."""
        pod = self._pod(server.owner, server.name)
        if server.replicas and (pod is None or pod.status.phase in edge_plan.OVER):
            return None
        return (pod.metadata.resource_version if pod is not None else "", self._nodes_seen)

    async def _step_alone(self, note: Note) -> None:
        server = note.server
        try:
            await self._step(note)
        except ModelwrightError as error:
            log.info("the server %s at the edge: %s", server.name if server is not None else "", error.message)
            note.hold_off(asyncio.get_running_loop().time())
        if server is not None:  # its owner did not ask for this step
            self._place.changed(server.owner.uid)

    async def _step(self, note: Note) -> None:
        async with note.busy:
            for _ in range(STEPS):
                server = note.server
                if server is None or note.ending:
                    return
                seen = self._signature(server)
                try:
                    doing = await self._decide(note, server)
                    await self._do(note, server, doing)
                except Conflict:
                    continue
                except Retryable:
                    raise
                except ModelwrightError as error:
                    note.stands_against(edge_faults.refused(error, server), refused=True)
                    note.hold_off(asyncio.get_running_loop().time())
                    doing = Do.NOTHING
                finally:
                    note.turn = False
                if doing is Do.NOTHING:
                    note.seen = seen
                    if note.failure is not None:
                        note.wait(asyncio.get_running_loop().time())
                    return

    async def _decide(self, note: Note, server: Server) -> Do:
        pod = self._pod(server.owner, server.name)
        current = pod.metadata.annotations.node if pod is not None else self._former(note, server)
        current = current or self._sweeps.node_of(server.owner.uid, server.name)
        if pod is not None and not going(pod):
            note.held = pod.metadata.annotations.node, server.port
        note.choice = choose(server.placement, self._place.mirrors.nodes.all(), current)
        node, note.rendered, swept, rival = note.choice.node, None, True, None
        if node is not None and server.replicas:
            note.rendered = self._sort.render(server, node.name, self._place.settings)
            swept = not note.rendered.keeps or await self._sweeps.keep_off(server.owner.uid, node.name)
            rival = self._rival(note, server, node.name)
        if not server.replicas and going(pod):
            await self._stop(note, server)
        turn = note.rendered is not None and self._has_turn(note.rendered)
        decision = edge_plan.decide(server, note.choice, note.rendered, pod, rival, swept=swept, turn=turn)
        note.deferred = decision.deferred and not note.refused  # what was refused is told until its turn comes again
        early = note.not_before > asyncio.get_running_loop().time()
        if early and edge_plan.has_time(decision, note.failure):
            return Do.NOTHING
        if not (decision.deferred and note.refused):
            note.stands_against(decision.failure)
        if decision.do is Do.REPLACE and note.rendered is not None:
            note.turn = True
            self._turns.take(note.rendered.images)
        return decision.do

    def _former(self, note: Note, server: Server) -> str:
        """The node that it had, without a Pod by now. In the cloud one that is drained by now is left."""
        node = self._place.mirrors.nodes.get(note.held[0]) if note.held is not None else None
        return node.name if node is not None and not (node.repels and server.placement.layer == "cloud") else ""

    async def _do(self, note: Note, server: Server, doing: Do) -> None:
        pod, rendered = self._pod(server.owner, server.name), note.rendered
        if doing is Do.MAKE and rendered is not None:
            await self._place.children.create(self._mirror, rendered.body)
            note.held = rendered.node, server.port
            note.stands_against(None)
        elif doing is Do.TELL and pod is not None and rendered is not None:
            await self._tell(pod, rendered)
        elif doing is Do.REPLACE and pod is not None and rendered is not None:
            await self._try_out(rendered, pod)
            stays = rendered.keeps and rendered.node == pod.metadata.annotations.node
            await self._end(pod, kept=None if stays else False)
        elif doing is Do.RENEW and pod is not None:
            note.hold_off(asyncio.get_running_loop().time())
            await self._end(pod, kept=None)
        elif doing is Do.END and pod is not None:
            await self._end(pod, kept=True)
            note.held = None

    async def _tell(self, pod: Pod, rendered: Rendered) -> None:
        metadata = pod.metadata
        try:
            patch = edge_plan.tell(pod, rendered)
            answer = await self._place.client.merge_patch(PODS, metadata.namespace, metadata.name, patch)
        except Conflict:
            await self._place.children.look(self._mirror, metadata)
            raise
        self._mirror.wrote(self._mirror.convert(answer))

    async def _try_out(self, rendered: Rendered, former: Pod) -> None:
        """Before what serves is taken away: would the new Pod be let in? Raises what refuses it."""
        metadata = {**rendered.body["metadata"], "name": f"{rendered.body['metadata']['name']}-try"}
        try:
            await self._place.client.create(
                PODS, metadata["namespace"], {**rendered.body, "metadata": metadata}, dry_run=True
            )
        except Forbidden as error:
            if EXCEEDED not in error.message or not await self._makes_room(former, error.message):
                raise

    async def _makes_room(self, former: Pod, refusal: str) -> bool:
        """Whether a quota has room for the new Pod once the former one is gone."""
        try:
            there = await self._place.client.get(PODS, former.metadata.namespace, former.metadata.name)
        except NotFound:
            return True
        return has_room_without(there, refusal)

    async def _end(self, pod: Pod, *, kept: bool | None) -> None:
        """Delete a Pod. What it keeps on its node is noted first: as `kept`, or as not wanted any more; with None it is
        for the Pod that follows."""
        node = pod.metadata.annotations.node
        there = self._place.mirrors.nodes.get(node) is not None
        if kept is not None and pod.metadata.annotations.serve and there:
            await self._sweeps.record(labels.owner_of(pod), pod.metadata.labels.server, node, kept=kept)
        # On a node that is gone for good nobody ends it.
        grace = None if there or not pod.spec.node_name else 0
        await self._place.children.remove(self._mirror, pod, grace_seconds=grace)

    async def _stop(self, note: Note, server: Server) -> None:
        """It has stopped, or is about to, otherwise than by END: what its Pod has kept is noted all the same."""
        if note.held is not None and isinstance(server.program, ModelServer):
            node = note.held[0]
            if self._place.mirrors.nodes.get(node) is not None and not self._sweeps.is_told(server.owner.uid, node):
                await self._sweeps.record(server.owner, server.name, node, kept=True)
        note.held = None

    async def _leave(self, note: Note, server: Server) -> None:
        """What it had kept while it had a Pod is not known from one: its next Pod could not be made yet."""
        if note.held is not None and isinstance(server.program, ModelServer):
            await self._sweeps.record(server.owner, server.name, note.held[0], kept=False)

    # What there is --------------------------------------------------------------------------------------------------

    def _all(self) -> Iterator[Pod]:
        return (pod for pod in self._mirror.all() if self._is_mine(pod))

    def _pods(self, owner_uid: str) -> list[Pod]:
        return [pod for pod in self._mirror.of(owner_uid) if self._is_mine(pod)]

    def _is_owed(self, pod: Pod) -> bool:
        """Whether a Pod that is going has kept something that nothing else tells of."""
        owner_uid, node = pod.metadata.labels.owner_uid, pod.metadata.annotations.node
        keeps = bool(pod.metadata.annotations.serve) and self._place.mirrors.nodes.get(node) is not None
        return keeps and not self._sweeps.is_told(owner_uid, node)

    def _pod_of(self, key: Key, note: Note) -> Pod | None:
        """Its Pod; before the server has been applied, one that says so."""
        if note.server is not None:
            return self._pod(note.server.owner, note.server.name)
        return next((pod for pod in self._pods(key[0]) if pod.metadata.labels.server == key[1]), None)

    def _is_mine(self, pod: Pod) -> bool:
        """A Pod of a Deployment has no node of its own in its annotations."""
        return pod.metadata.labels.component == self._sort.component and bool(pod.metadata.annotations.node)

    def _pod(self, owner: Owner, name: str) -> Pod | None:
        pod = self._mirror.get(owner.namespace, name)
        return pod if pod is not None and pod.metadata.labels.owner_uid == owner.uid and self._is_mine(pod) else None

    def _kept(self, owner_uid: str) -> set[str]:
        return self._sweeps.kept(owner_uid) if self._sort.component == SERVE else set()

    def _answers(self, pod: Pod) -> bool:
        return answers(self._place.mirrors.nodes.get(pod.metadata.annotations.node))

    def _rival(self, note: Note, server: Server, node: str) -> Owner | None:
        """Who has the port on that node already, if it is somebody else."""
        place = (node, server.port)
        mine = self._pod(server.owner, server.name)
        if mine is not None and (mine.metadata.annotations.node, mine.metadata.annotations.port) == (
            node,
            str(place[1]),
        ):
            return None
        for other in self._notes.values():
            wanted = other.server if other is not note and not other.ending else None
            if other.held == place and wanted is not None and wanted.replicas:
                return wanted.owner
        for pod in self._mirror.all():
            said = pod.metadata.annotations
            same = said.node == node and said.port == str(server.port) and pod.status.phase not in edge_plan.OVER
            if same and pod is not mine:
                return labels.owner_of(pod)
        return None
