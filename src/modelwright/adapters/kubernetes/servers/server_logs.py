"""What the Pods of a Server have printed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.workloads import logs
from modelwright.adapters.kubernetes.workloads.kinds import Pod

LOOK_SECONDS = 0.5


async def read(client: KubernetesClient, pods: Callable[[], list[Pod]], *, follow: bool) -> AsyncGenerator[bytes, None]:
    """The logs of all containers, Pod after Pod, oldest first; with `follow`, those of the newest one as it runs, and
    of the one that takes its place, until there is none any more."""
    done: set[tuple[str, str]] = set()
    while current := pods():
        for pod in current:
            for container in pod.status.containers:
                key = (pod.metadata.uid, container.name)
                if key in done or not logs.has_log(container):
                    continue
                done.add(key)
                last = pod is current[-1] and container is pod.status.containers[-1]
                async with aclosing(logs.one(client, pod, container.name, follow=follow and last)) as chunks:
                    async for chunk in chunks:
                        yield chunk
        if not follow:
            return
        await asyncio.sleep(LOOK_SECONDS)
