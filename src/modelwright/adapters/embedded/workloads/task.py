"""What builds and commands have in common: a record, a status, an end."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from datetime import UTC, datetime

import msgspec

from modelwright.adapters.embedded.workloads.records import TaskRecord
from modelwright.adapters.embedded.workloads.site import Site
from modelwright.ports.errors import ModelwrightError
from modelwright.ports.workloads import Failure, Progress, TaskStatus

_log = logging.getLogger("modelwright.workloads")


def failure_of(error: ModelwrightError) -> Failure:
    """The failure that an error stands for."""
    return Failure(reason=error.reason, message=error.message, retryable=error.retryable)


class TaskSupervisor(ABC):
    """Runs one task to its end, once. `status` is the last that is known; a change of it is notified."""

    def __init__(self, site: Site, record: TaskRecord) -> None:
        self.record = record
        self.folder = site.run.folder(record.task.owner.uid, record.task.name)
        self.status = record.status or TaskStatus(
            name=record.task.name, phase="Pending", downloads=record.downloads, node_name=site.node_name
        )
        self._site = site
        self._task: asyncio.Task[None] | None = None
        self._told = asyncio.Event()
        """That it has ended."""

    @property
    def ended(self) -> bool:
        return self.status.phase in {"Succeeded", "Failed"}

    def start(self) -> None:
        """Begin, or go on after a restart; what has ended stays so."""
        if not self.ended:
            self._task = asyncio.get_running_loop().create_task(self._guarded())

    async def remove(self) -> None:
        """End it and forget it."""
        self.record.removed = True
        if not self.ended:
            self._write()
        await self.stop()
        self._site.run.forget(self.folder)

    @abstractmethod
    async def stop(self) -> None:
        """End it."""

    @abstractmethod
    def release(self) -> None:
        """Leave running what can run without us, and watch it no longer."""

    @abstractmethod
    def model_keys(self) -> set[str]:
        """The models that it needs."""

    @abstractmethod
    async def _run(self) -> TaskStatus:
        """Do it. Raises ModelwrightError."""

    async def _guarded(self) -> None:
        try:
            status = await self._run()
        except ModelwrightError as error:
            status = self._failed(failure_of(error))
        except Exception as error:
            _log.exception("task %s", self.record.task.name)
            message = f"running {self.record.task.name} failed: {error}"
            status = self._failed(Failure(reason="SupervisionFailed", message=message, retryable=True))
        await self._finish(status)

    def _failed(self, failure: Failure, exit_code: int | None = None) -> TaskStatus:
        return msgspec.structs.replace(
            self.status,
            phase="Failed",
            failure=failure,
            exit_code=exit_code,
            finished_at=datetime.now(UTC),
        )

    async def _finish(self, status: TaskStatus) -> None:
        """Write the end down before anybody hears of it; what cannot be written now is written once there is room."""
        self.record.status = status
        written = self._write()
        self._tell(status)
        self._told.set()
        self._after()
        while not written:
            await asyncio.sleep(self._site.timing.port_retry)
            written = self._write()

    @abstractmethod
    def _after(self) -> None:
        """What is left to do once everybody knows that it has ended."""

    async def _cancel(self) -> None:
        """Break it off."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _until_told(self) -> None:
        """Wait until it has ended, and no longer for a disk that does not take that."""
        told = asyncio.create_task(self._told.wait())
        await asyncio.wait([told, *([self._task] if self._task is not None else [])], return_when="FIRST_COMPLETED")
        told.cancel()
        await self._cancel()

    def _write(self) -> bool:
        """Write the record; False if the disk refuses."""
        try:
            self._site.run.write(self.record)
        except OSError as error:
            _log.warning("task %s: its record cannot be written: %s", self.record.task.name, error)
            return False
        return True

    def _tell(self, status: TaskStatus) -> None:
        if status != self.status:
            self.status = status
            self._site.notify(self.record.task.owner)

    def _progress(self, progress: Progress) -> None:
        self._tell(msgspec.structs.replace(self.status, phase="Running", progress=progress))
