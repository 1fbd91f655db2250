"""What an object's workloads have printed: `GET …/namespaces/NS/PLURAL/NAME/log[?follow=true]`, as plain text.

Kubernetes has this for Pods alone; here the object itself stands for what runs on its behalf.
"""

from __future__ import annotations

import asyncio
import contextlib

from modelwright.adapters.embedded.apiserver.asgi import App, Receive, Request, Scope, Send
from modelwright.adapters.embedded.apiserver.status import refuse
from modelwright.adapters.embedded.resources import Resources
from modelwright.ports.errors import ModelwrightError, NotFound
from modelwright.ports.workloads import Workloads

TEXT = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff")]


class Logs:
    """ASGI middleware: answers requests for logs, passes everything else on."""

    def __init__(self, app: App, resources: Resources, workloads: Workloads) -> None:
        self._app = app
        self._resources = resources
        self._workloads = workloads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        segments = scope["path"].strip("/").split("/") if scope["type"] == "http" else []
        if len(segments) != 8 or segments[0] != "apis" or segments[3] != "namespaces" or segments[7] != "log":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            uid, names = await self._find(segments)
        except ModelwrightError as error:
            await refuse(error)(send)
            return
        await self._answer(request, send, uid, names)

    async def _find(self, segments: list[str]) -> tuple[str, list[str]]:
        """The object's UID and the names of what runs for it. Raises NotFound."""
        _, group, version, _, namespace, plural, name, _ = segments
        definition = self._resources.definitions.by_plural(group, version, plural)
        if definition is None:
            raise NotFound("the server could not find the requested resource")
        uid = self._resources.get(definition, namespace, name).uid
        names = [status.name for status in await self._workloads.observe(uid)]
        if not names:
            what = f"{definition.singular} {name}"
            raise NotFound(f"nothing runs for {what}: there is no log; see its conditions and Events")
        return uid, names

    async def _answer(self, request: Request, send: Send, uid: str, names: list[str]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": TEXT})
        writing = asyncio.create_task(self._write(send, uid, names, follow=request.flag("follow")))
        gone = asyncio.create_task(_disconnected(request))
        try:
            await asyncio.wait((gone, writing), return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                await writing
                await send({"type": "http.response.body", "body": b""})
        finally:
            for task in (gone, writing):
                task.cancel()
            await asyncio.gather(gone, writing, return_exceptions=True)

    async def _write(self, send: Send, uid: str, names: list[str], *, follow: bool) -> None:
        for name in names:
            with contextlib.suppress(NotFound):  # ended and let go meanwhile
                async for chunk in self._workloads.logs(uid, name, follow=follow):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
