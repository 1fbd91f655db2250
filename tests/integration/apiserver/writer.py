"""A program that writes to a store as fast as it can, and says what was acknowledged; made to be killed.

    python writer.py DATA_DIR FIRST [FILE_SIZE_LIMIT]

Prints `ready`, then one line per acknowledged write: `put NAME VALUE` or `delete NAME`.
With a limit on file sizes the disk refuses a write sooner or later: it prints `refused`, lifts the limit, and goes on.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from functools import partial
from itertools import count
from pathlib import Path

from modelwright.adapters.embedded.editing import Deletion
from modelwright.adapters.embedded.patches import merge
from modelwright.adapters.embedded.store import EmbeddedStore
from modelwright.ports.errors import NotFound, Unavailable

WRITERS = 4
NAMES = 10


def say(text: str) -> None:
    # One write, unbuffered: what the reader sees is what was acknowledged before the kill.
    os.write(1, f"{text}\n".encode())


async def write(store: EmbeddedStore, writer: int, first: int) -> None:
    kind = store.resources.definitions.by_kind("model.kubedl.io/v1alpha1", "Model")
    assert kind is not None
    for number in count(first):
        name = f"m-{writer}-{number % NAMES}"
        if number % 7 == 3:
            await store.resources.delete(kind, "default", name, Deletion())
            say(f"delete {name}")
            continue
        spec = {"description": f"{number} " + "x" * 500}
        try:
            await store.resources.modify(kind, "default", name, partial(merge, patch={"spec": spec}))
        except NotFound:
            await store.resources.create(kind, "default", {"metadata": {"name": name}, "spec": spec})
        say(f"put {name} {number}")


async def go_on(store: EmbeddedStore, writer: int, first: int) -> None:
    while True:
        try:
            await write(store, writer, first)
        except Unavailable as error:
            assert error.reason in ("StorageFull", "StorageFailed"), error.reason
            say("refused")
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except NotFound:
            first += 1


async def main(data_dir: Path, first: int, limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = await EmbeddedStore.open(data_dir, keep_changes=100)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    say("ready")
    await asyncio.gather(*(go_on(store, writer, first) for writer in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0))
