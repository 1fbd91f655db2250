"""What the containers of a Pod have printed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from modelwright.adapters.kubernetes.client import FIRST_FAULT, KubernetesClient
from modelwright.adapters.kubernetes.faults import refusal
from modelwright.adapters.kubernetes.workloads import status
from modelwright.adapters.kubernetes.workloads.kinds import PODS, Container, Pod
from modelwright.adapters.kubernetes.workloads.tasks import Parts
from modelwright.ports.errors import ModelwrightError

LOOK_SECONDS = 0.5
OVER = ("Succeeded", "Failed")
BAD_REQUEST, NOT_FOUND = 400, 404


async def read(
    client: KubernetesClient, current: Callable[[], Parts | None], *, follow: bool
) -> AsyncGenerator[bytes, None]:
    """The logs of all containers, one after the other as they run.

    `current` is the Task as it is now, None if it is gone. What has no log yet is waited for with `follow`.
    """
    number = 0
    while (parts := current()) is not None:
        pod = parts.pod
        containers = pod.status.containers if pod is not None else ()
        if pod is not None and number < len(containers) and has_log(containers[number]):
            async with aclosing(one(client, pod, containers[number].name, follow=follow)) as chunks:
                async for chunk in chunks:
                    yield chunk
            number += 1
        elif not follow or status.has_ended(parts.job) or (pod is not None and pod.status.phase in OVER):
            return
        else:
            await asyncio.sleep(LOOK_SECONDS)


def has_log(container: Container) -> bool:
    """Whether it has begun."""
    return container.state.running is not None or container.state.terminated is not None


async def one(client: KubernetesClient, pod: Pod, container: str, *, follow: bool) -> AsyncGenerator[bytes, None]:
    """The log of one container; nothing if it has none after all."""
    path = PODS.path(pod.metadata.namespace, pod.metadata.name, "log")
    async with client.stream(path, {"container": container, "follow": follow}, headers={"Accept": "*/*"}) as stream:
        if stream.status in (BAD_REQUEST, NOT_FOUND):
            return  # it has not begun after all, or is gone
        if stream.status >= FIRST_FAULT:
            body = b"".join([chunk async for chunk in stream.chunks])
            raise refusal(stream.status, stream.headers, body, f"logs of {pod.metadata.name}")
        async for chunk in stream.chunks:
            yield chunk


async def last_lines(client: KubernetesClient, pod: Pod, container: str, lines: int) -> bytes:
    """The end of one container's log, empty where it cannot be had now."""
    path = PODS.path(pod.metadata.namespace, pod.metadata.name, "log")
    try:
        response = await client.raw(
            "GET", path, {"container": container, "tailLines": lines}, headers={"Accept": "*/*"}
        )
    except ModelwrightError:
        return b""
    return response.body
