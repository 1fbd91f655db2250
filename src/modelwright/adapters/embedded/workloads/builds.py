"""Building an image in a worker process."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime

import msgspec

from modelwright.adapters.embedded.workloads.secrets import secret_folder
from modelwright.adapters.embedded.workloads.task import TaskSupervisor
from modelwright.ports.errors import Terminal
from modelwright.ports.worker import Build, Built
from modelwright.ports.workloads import BuildImage, TaskStatus

_decoder = msgspec.json.Decoder(Built)


class BuildSupervisor(TaskSupervisor):
    """A build. It does not outlive the program: content decides what it makes, so it is simply done again."""

    def model_keys(self) -> set[str]:
        return set()

    async def stop(self) -> None:
        await self._cancel()

    def release(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _after(self) -> None:
        """Nothing: a build holds nothing that others share."""

    async def _run(self) -> TaskStatus:
        task = self.record.task
        request = self._request(task.action)
        deadline = task.deadline_seconds or None
        try:
            async with asyncio.timeout(deadline):
                result = await self._site.pool.run(request, self._progress, begun=self._begun)
        except TimeoutError:
            raise Terminal(
                f"the build took longer than its deadline of {deadline} s and was ended", reason="DeadlineExceeded"
            ) from None
        built = _decoder.decode(result)
        if built.note:
            with contextlib.suppress(OSError):  # a full disk takes nothing away from the image
                (self.folder / "log").write_text(f"{built.note}\n", "utf-8")
        return msgspec.structs.replace(
            self.status, phase="Succeeded", result=built.result, progress=None, finished_at=datetime.now(UTC)
        )

    def _begun(self) -> None:
        self._tell(msgspec.structs.replace(self.status, phase="Running", started_at=datetime.now(UTC)))

    def _request(self, action: object) -> Build:
        if not isinstance(action, BuildImage):
            raise TypeError("not a build")
        secret = secret_folder(self._site.data_dir, self.record.task.owner.namespace, action.push_secret)
        return Build(
            action=action,
            registry_host=self._site.registry_host,
            registry_storage=str(self._site.registry_storage),
            forbidden=(str(self._site.data_dir),),
            push_secret=str(secret or ""),
        )
