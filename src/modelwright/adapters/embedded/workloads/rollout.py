"""Generations of one server: the current one serves, the target runs what is applied and replaces it when right."""

from __future__ import annotations

from collections.abc import Callable

from modelwright.adapters.embedded.workloads.generation import Generation
from modelwright.adapters.embedded.workloads.program import Plan
from modelwright.adapters.embedded.workloads.records import GenerationRecord, ServerRecord
from modelwright.adapters.embedded.workloads.replica import Replica
from modelwright.adapters.embedded.workloads.site import Site
from modelwright.ports.workloads import Failure


class Rollout:
    """The generations, kept in step with the server's record."""

    def __init__(
        self, site: Site, record: ServerRecord, *, persist: Callable[[], None], wake: Callable[[], None]
    ) -> None:
        self._site = site
        self._record = record
        self._persist = persist
        self._wake = wake
        self._folder = site.run.folder(record.server.owner.uid, record.server.name)
        self.generations: list[Generation] = []
        self.target: Generation | None = None
        """What runs the applied value; None until that is known."""

    @property
    def current(self) -> Generation | None:
        """What serves."""
        return next((found for found in self.generations if found.record.number == self._record.current), None)

    @property
    def candidate(self) -> Generation | None:
        """What is to replace it."""
        return self.target if self.target is not self.current else None

    def adopt(self) -> None:
        """Find the processes that the record speaks of."""
        for record in self._record.generations:
            generation = self._generation(record)
            generation.adopt()
        self._persist()

    def refresh(self, now: float) -> None:
        """See what has become of the processes; forget generations that are over."""
        failed = sum(generation.refresh(now) for generation in self.generations)
        self._record.restarts += failed
        gone = [
            generation
            for generation in self.generations
            if not generation.replicas and generation not in (self.current, self.target)
        ]
        for generation in gone:
            self._forget(generation)
        if failed or gone:
            self._persist()

    def clear(self) -> bool:
        """Forget all generations if none has a process left; whether it is so."""
        if any(generation.replicas for generation in self.generations):
            return False
        if self.generations:
            for generation in list(self.generations):
                self._forget(generation)
            self.target = None
            self._persist()
        return True

    def on_port(self, port: int) -> list[Replica]:
        """All processes that listen on this port."""
        return [replica for found in self.generations if found.record.port == port for replica in found.replicas]

    def choose(self, plan: Plan, port: int, now: float) -> None:
        """Have a generation that runs the plan, and no other but the one that serves."""
        target = next((found for found in self.generations if found.record.key == plan.key), None)
        if target is None:
            self._settle_for_what_serves()
            self._record.last_number += 1
            record = GenerationRecord(number=self._record.last_number, key=plan.key, port=port, argv=())
            self._record.generations.append(record)
            target = self._generation(record)
        self.target = target
        target.configure(plan)
        for generation in self.generations:
            if generation not in (target, self.current):
                generation.drain(generation.live, now)

    def promote(self, wanted: int, now: float) -> None:
        """Once all replicas of the candidate serve what they should, the others are asked to end."""
        candidate = self.candidate
        if candidate is None:
            return
        self._reject_if_wrong(candidate, now)
        good = [replica for replica in candidate.ready if candidate.serves_default(replica)]
        if len(good) == len(candidate.live) == wanted:
            self._record.current = candidate.record.number
            self._persist()
            self.drain_others(candidate, now)

    def drain_others(self, kept: Generation | None, now: float) -> None:
        """Ask all replicas but those of `kept` to end."""
        for generation in self.generations:
            if generation is not kept:
                generation.drain(generation.live, now)

    def close(self) -> None:
        for generation in self.generations:
            generation.close()

    def _settle_for_what_serves(self) -> None:
        """If nothing ever became right but something answers, that is what the next generation replaces."""
        if self.current is None:
            ready = [generation for generation in self.generations if generation.ready]
            if ready:
                self._record.current = ready[-1].record.number

    def _reject_if_wrong(self, candidate: Generation, now: float) -> None:
        """A candidate that is up but could not load what it should serve must not replace what serves."""
        if self.current is None or not self.current.ready:
            return
        for replica in candidate.ready:
            found = replica.state.version(candidate.record.default)
            if found is not None and found.state == "failed":
                candidate.fail(Failure(reason=found.reason or "ModelNotLoaded", message=found.message), now)
                candidate.drain(candidate.live, now)
                return

    def _forget(self, generation: Generation) -> None:
        self.generations.remove(generation)
        self._record.generations.remove(generation.record)
        generation.forget()

    def _generation(self, record: GenerationRecord) -> Generation:
        generation = Generation(self._site, self._folder, record, persist=self._persist, wake=self._wake)
        self.generations.append(generation)
        return generation
