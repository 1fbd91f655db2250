"""Supervises one server: looks again and again at what is, and does the next thing towards what should be."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from modelwright.adapters.embedded.workloads import amounts, kept, logs, program, status
from modelwright.adapters.embedded.workloads.generation import Generation
from modelwright.adapters.embedded.workloads.models import ServerModels
from modelwright.adapters.embedded.workloads.program import Plan
from modelwright.adapters.embedded.workloads.records import ServerRecord
from modelwright.adapters.embedded.workloads.rollout import Rollout
from modelwright.adapters.embedded.workloads.site import Site
from modelwright.adapters.embedded.workloads.sockets import Sockets
from modelwright.ports.errors import ModelwrightError, Unavailable
from modelwright.ports.workloads import Command, Container, Failure, Gateway, ModelServer, Server, ServerStatus

_LONG_CHANGE_SECONDS = 10.0
_SLOWER = 5
_SOCKET_RETRY_SECONDS = 0.5
_log = logging.getLogger("modelwright.workloads")


class ServerSupervisor:
    """One server and its processes. `status` is the last that was seen; a change of it is notified."""

    def __init__(self, site: Site, record: ServerRecord) -> None:
        self.record = record
        self.status = ServerStatus(name=record.server.name)
        self.folder = site.run.folder(record.server.owner.uid, record.server.name)
        self._site = site
        self._sockets = Sockets(site.host, site.timing.handover_patience)
        self._models = ServerModels(site.models, record)
        self._rollout = Rollout(site, record, persist=self._persist, wake=self.wake)
        self._kept_bytes = kept.KeptBytes()
        self._failure: Failure | None = None
        self._retry_at = 0.0
        self._busy_since = 0.0
        self._stopping = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # What others ask ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Adopt what runs, and begin."""
        with contextlib.suppress(OSError):  # what a full disk does not take is found again by the next program too
            self._rollout.adopt()
        for generation in self._rollout.generations:
            self._models.trust(generation.record.versions if generation.live else ())
        self._publish()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def apply(self, server: Server) -> None:
        """Make it so; the same value again does nothing."""
        if server != self.record.server:
            self.record.server = server
            self._rollout.target = None
            self._publish()  # who asks now must not hear that the former value is up to date
            self.wake()
            self._persist()

    async def remove(self) -> None:
        """Drain and end everything, then forget it."""
        self.record.removed = True
        with contextlib.suppress(OSError):  # that it is to go need not be known on a full disk: it frees room
            self._persist()
        await self.stop()
        self._site.run.forget(self.folder)

    async def stop(self) -> None:
        """Drain and end everything; the record stays."""
        self._stopping = True
        self.wake()
        if self._task is not None:
            await asyncio.shield(self._task)

    def release(self) -> None:
        """Leave everything running and watch it no longer."""
        if self._task is not None:
            self._task.cancel()
        self._rollout.close()
        self._sockets.close()

    def wake(self) -> None:
        """Have it look now."""
        self._wake.set()

    def model_keys(self) -> set[str]:
        """The models that it needs, now or if something fails."""
        return self._models.keys()

    # The loop -------------------------------------------------------------------------------------------------------

    @property
    def _wanted(self) -> int:
        return 0 if self._stopping else self.record.server.replicas

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            now = time.monotonic()
            try:
                if await self._step(now):
                    return
            except Exception as error:
                _log.exception("server %s", self.record.server.name)
                message = f"supervising {self.record.server.name} failed and is tried again: {error}"
                self._fail(Failure(reason="SupervisionFailed", message=message, retryable=True), now)
            await self._pause(now)

    async def _step(self, now: float) -> bool:
        """One look and what follows from it; whether everything has ended that was to end."""
        logs.rotate(self.folder / "log")
        self._rollout.refresh(now)
        if self._wanted:
            await self._advance(now)
        elif self._come_down(now):
            return True
        self._publish()
        return False

    def _come_down(self, now: float) -> bool:
        """Nothing is to run; whether that is so for good."""
        self._failure = None
        self._rollout.drain_others(None, now)
        over = not any(generation.replicas for generation in self._rollout.generations)
        if over and self._stopping:
            self._sockets.close()
            return True
        if over:
            self._rollout.clear()
            self._sockets.park(self.record.port)
        return False

    async def _pause(self, now: float) -> None:
        try:
            async with asyncio.timeout(max(0.01, self._next_look(now) - time.monotonic())):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _next_look(self, now: float) -> float:
        moments = [now + self._site.timing.rest_poll]
        if self._retry_at > now:
            moments.append(self._retry_at)
        waiting = [found for found in self._rollout.generations if len(found.live) < self._wanted]
        moments += [found.backoff.not_before for found in waiting if found.backoff.not_before > now]
        if self._changing():
            self._busy_since = self._busy_since or now
            slow = now - self._busy_since > _LONG_CHANGE_SECONDS
            moments.append(now + self._site.timing.busy_poll * (_SLOWER if slow else 1))
        else:
            self._busy_since = 0.0
        return min(moments)

    def _changing(self) -> bool:
        """Whether a process is expected to say something soon."""
        return any(
            not replica.ready or not generation.has_applied(replica)
            for generation in self._rollout.generations
            for replica in generation.replicas
        )

    # Towards what should be -----------------------------------------------------------------------------------------

    async def _advance(self, now: float) -> None:
        try:
            port, plan = await self._plan(now)
            self._failure = None
            if plan is not None:
                self._rollout.choose(plan, port, now)
        except ModelwrightError as error:
            self._fail(Failure(reason=error.reason, message=error.message, retryable=error.retryable), now)
        limit = amounts.memory_limit(self.record.server.resources)
        for generation in (self._rollout.current, self._rollout.candidate):
            if generation is not None:
                generation.limit_memory(limit)
                await self._keep_up(generation, now)
        self._rollout.promote(self._wanted, now)
        self._remember_what_serves()
        self._sockets.keep_only({found.record.port for found in self._rollout.generations} | {self.record.port})

    async def _plan(self, now: float) -> tuple[int, Plan | None]:
        """Where and what should run; no plan if that cannot be said yet.

        Raises Unavailable for a taken port or a full disk, Forbidden for a kept folder that is a link.
        """
        server = self.record.server
        if isinstance(server.program, Container):
            return 0, None  # refused when it was applied
        if isinstance(server.program, Command):
            port = await self._port(now)
            return port, program.plan_command(server.program, port)
        if isinstance(server.program, Gateway):
            return await self._plan_gateway(server.program, now)
        folders = self._models.folders(server.program)
        if folders is None:
            return 0, None
        port = await self._port(now)
        served, command = self.record.served, self._site.server_command
        return port, program.plan_models(
            server, server.program, port=port, folders=folders, served=served, command=command
        )

    async def _plan_gateway(self, wanted: Gateway, now: float) -> tuple[int, Plan]:
        keeps = wanted.kept if wanted.keep_max_bytes else None
        folder = kept.prepare(self._site.data_dir, keeps.name) if keeps is not None else None
        port = await self._port(now)
        return port, program.plan_gateway(wanted, port=port, folder=folder, command=self._site.gateway_command)

    async def _port(self, now: float) -> int:
        """The port to serve on, opened if nobody serves there yet. Raises Unavailable."""
        wanted, remembered = self.record.server.port, self.record.port
        port = wanted or remembered
        serving = self._rollout.on_port(port)
        if wanted == 0 and not serving and self._sockets.get(port) is None:
            port = self._sockets.open(0, remembered).port
        elif isinstance(await self._sockets.on(port, serving), str):
            self._retry_at = now + _SOCKET_RETRY_SECONDS
        if port != remembered:
            self.record.port = port
            self._persist()
        return port

    async def _keep_up(self, generation: Generation, now: float) -> None:
        """The wanted number of replicas, if its models and its socket are at hand."""
        generation.shrink(self._wanted, now)
        if len(generation.live) == self._wanted or not self._models.are_here(generation.record.versions):
            return
        port = generation.record.port
        try:
            answer = await self._sockets.on(port, self._rollout.on_port(port))
        except Unavailable as error:
            self._fail(Failure(reason=error.reason, message=error.message, retryable=True), now)
            return
        if not isinstance(answer, str):
            generation.grow(self._wanted, answer, now)
            return
        self._retry_at = now + _SOCKET_RETRY_SECONDS
        if answer == "stuck":  # who holds the socket and does not hand it over is replaced, with it
            for holder in self._rollout.generations:
                if holder.record.port == port:
                    holder.drain(holder.live, now)

    def _fail(self, failure: Failure, now: float) -> None:
        self._failure = failure
        self._retry_at = now + self._site.timing.port_retry

    # What is --------------------------------------------------------------------------------------------------------

    def _remember_what_serves(self) -> None:
        """A default that is served now is gone back to, in place, if the next cannot be."""
        wanted, current = self.record.server.program, self._rollout.current
        if current is None or not isinstance(wanted, ModelServer) or not current.ready:
            return
        default = next((found for found in wanted.versions if found.version == wanted.default), None)
        if default is None or default == self.record.served or default not in current.record.versions:
            return
        if current.record.default == wanted.default and all(
            current.serves_default(replica) and current.has_applied(replica) for replica in current.live
        ):
            self.record.served = default
            self._persist()
            self.wake()

    def _publish(self) -> None:
        fresh = self._status()
        if fresh == self.status:
            return
        settled = fresh.up_to_date and not self.status.up_to_date
        self.status = fresh
        self._site.notify(self.record.server.owner)
        if settled:
            self._site.collect()

    def _status(self) -> ServerStatus:
        server, current, target = self.record.server, self._rollout.current, self._rollout.target
        shown = current if current is not None and current.ready else target
        held = self._models.held(server.program) if isinstance(server.program, ModelServer) and self._wanted else {}
        generations = self._rollout.generations
        kept_path, kept_bytes = self._kept()
        return ServerStatus(
            name=server.name,
            host=self._site.host,
            port=shown.record.port if shown is not None else self.record.port,
            replicas=sum(len(generation.live) for generation in generations),
            ready_replicas=sum(len(generation.ready) for generation in generations),
            serving_version=status.serving_version(server, generations),
            up_to_date=self._failure is None and status.up_to_date(server, self._rollout),
            versions=status.versions(server, held, target, current),
            failure=self._failure or status.failure(target, self._wanted),
            restarts=self.record.restarts,
            node_name=self._site.node_name,
            kept_path=kept_path,
            kept_bytes=kept_bytes,
            asked=status.asked(generations),
        )

    def _kept(self) -> tuple[str, int]:
        """Where its kept folder is, and how much is in it."""
        wanted = self.record.server.program
        if not isinstance(wanted, Gateway) or wanted.kept is None:
            return "", 0
        path = kept.folder_of(self._site.data_dir, wanted.kept.name)
        ready = [replica for generation in self._rollout.generations for replica in generation.ready]
        return str(path), self._kept_bytes.look(path, (replica.state.kept_bytes for replica in ready))

    def _persist(self) -> None:
        self._site.run.write(self.record)
