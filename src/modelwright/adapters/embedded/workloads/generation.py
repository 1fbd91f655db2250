"""Replicas that run the same thing on the same port: kept at their number, started again after a failure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from modelwright.adapters.embedded.workloads.listener import Listener
from modelwright.adapters.embedded.workloads.process import identify, new_nonce, sweep
from modelwright.adapters.embedded.workloads.program import CONFIG, Plan
from modelwright.adapters.embedded.workloads.records import GenerationRecord, ReplicaRecord, write_atomically
from modelwright.adapters.embedded.workloads.replica import Replica
from modelwright.adapters.embedded.workloads.site import Site
from modelwright.adapters.embedded.workloads.timing import Backoff
from modelwright.ports.workloads import Failure


class Generation:
    """`persist` writes the server's record: it is called before and after a process is started or asked to end."""

    def __init__(
        self,
        site: Site,
        folder: Path,
        record: GenerationRecord,
        *,
        persist: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self.record = record
        self._site = site
        self._folder = folder
        self._persist = persist
        self._wake = wake
        self.replicas: list[Replica] = []
        self.backoff = Backoff(site.timing.backoff_first, site.timing.backoff_cap)
        self.failure: Failure | None = None
        self.memory_limit = 0
        self._config_path = folder / f"config-{record.number}.json"
        try:
            self.config = self._config_path.read_bytes()
        except FileNotFoundError:
            self.config = b""

    @property
    def live(self) -> list[Replica]:
        """The replicas that are meant to go on."""
        return [replica for replica in self.replicas if not replica.draining]

    @property
    def ready(self) -> list[Replica]:
        return [replica for replica in self.live if replica.ready]

    def adopt(self) -> None:
        """Find the processes of the record, and forget those that are gone."""
        for record in list(self.record.replicas):
            replica = Replica(self._folder, record, self._wake)
            if replica.adopt(self._site.found, identify):
                self._keep(replica)
            else:
                self.record.replicas.remove(record)

    def refresh(self, now: float) -> int:
        """See what has happened; how many replicas have failed since the last time."""
        for replica in self.replicas:
            replica.look(now)
            if replica.draining:
                replica.drain(now, self._site.timing.drain)
        failed = [self._bury(replica, now) for replica in list(self.replicas) if replica.ended]
        stable = self._site.timing.stable_after
        if self.backoff.failures and any(now - replica.ready_since > stable for replica in self.ready):
            self.backoff.reset()
            self.failure = None
        return sum(failed)

    def shrink(self, wanted: int, now: float) -> None:
        """Drain what is too much, first what is not ready."""
        kept_first = sorted(self.live, key=lambda replica: not replica.ready)
        self.drain(kept_first[wanted:], now)

    def grow(self, wanted: int, listener: Listener, now: float) -> None:
        """Start what is missing, unless it has to wait after a failure; then one alone shows whether it works now."""
        missing = wanted - len(self.live)
        if missing > 0 and now >= self.backoff.not_before:
            self._start(1 if self.backoff.failures and not self.ready else missing, listener, now)

    def serves_default(self, replica: Replica) -> bool:
        """Whether it answers with the default that it was told."""
        return not self.record.default or replica.state.default_version == self.record.default

    def has_applied(self, replica: Replica) -> bool:
        """Whether it runs the configuration as it is now."""
        return not self.config or replica.state.config_digest == hashlib.sha256(self.config).hexdigest()

    def configure(self, plan: Plan) -> None:
        """Write the configuration if it is another; running servers that load in place take it up."""
        if self.record.argv and (not plan.config or self.config == plan.config):
            return
        path = self._config_path
        self.record.argv = tuple(str(path) if word == CONFIG else word for word in plan.argv)
        self.record.env = plan.env
        self.record.versions = plan.versions
        self.record.default = plan.default
        self._persist()
        if plan.config:
            write_atomically(path, plan.config)
            self.config = plan.config
            for replica in self.live:
                replica.reload()

    def forget(self) -> None:
        """Remove its files."""
        self._config_path.unlink(missing_ok=True)

    def drain(self, replicas: list[Replica], now: float) -> None:
        """Ask these to end once they have answered what they were asked."""
        fresh = [replica for replica in replicas if not replica.draining]
        for replica in fresh:
            replica.record.draining = True
        if fresh:
            self._persist()
        for replica in fresh:
            replica.drain(now, self._site.timing.drain)

    def fail(self, failure: Failure, now: float) -> None:
        """Count a failure that ended no process by itself."""
        self.failure = failure
        self.backoff.failed(now)

    def limit_memory(self, limit: int) -> None:
        """Watch the replicas' memory; 0 is no limit."""
        if limit == self.memory_limit:
            return
        self.memory_limit = limit
        for replica in self.replicas:
            self._watch_memory(replica)

    def close(self) -> None:
        for replica in self.replicas:
            self._unwatch_memory(replica)
            replica.close()

    def _start(self, count: int, listener: Listener, now: float) -> None:
        fresh = [ReplicaRecord(nonce=new_nonce(self._site.run.domain)) for _ in range(count)]
        self._intend(fresh)
        for record in fresh:
            replica = Replica(self._folder, record, self._wake)
            try:
                replica.start(self.record.argv, self.record.env, listener)
            except OSError as error:
                self.record.replicas.remove(record)
                program = self.record.argv[0]
                message = f"cannot start {program!r}: {error.strerror or error}"
                self.fail(Failure(reason="CommandNotStarted", message=message, retryable=True), now)
                continue
            self._keep(replica)
        self._persist()

    def _intend(self, fresh: list[ReplicaRecord]) -> None:
        """Write down what is about to be started; what cannot be written is not started. Raises OSError."""
        self.record.replicas.extend(fresh)
        try:
            self._persist()
        except OSError:
            del self.record.replicas[-len(fresh) :]
            raise

    def _keep(self, replica: Replica) -> None:
        self.replicas.append(replica)
        self._watch_memory(replica)

    def _watch_memory(self, replica: Replica) -> None:
        self._unwatch_memory(replica)
        if replica.process is not None and self.memory_limit:
            limit = self.memory_limit
            session = replica.process.identity.pid
            self._site.sampler.limit(session, limit, lambda used: replica.over_limit(limit, used))

    def _unwatch_memory(self, replica: Replica) -> None:
        if replica.process is not None:
            self._site.sampler.release(replica.process.identity.pid)

    def _bury(self, replica: Replica, now: float) -> bool:
        """Forget a process that has ended, with all that it left; True if it should not have ended."""
        was_ready = bool(replica.ready_since)
        replica.look(now)
        failed = not replica.draining
        if failed:
            self.failure = replica.why_it_ended()
            self.backoff.failed(now)
            if was_ready and self.backoff.failures == 1:
                self.backoff.not_before = now
        self._unwatch_memory(replica)
        sweep(replica.record.process, replica.record.nonce)
        replica.forget()
        self.replicas.remove(replica)
        self.record.replicas.remove(replica.record)
        return failed
