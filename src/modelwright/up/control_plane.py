"""The embedded control plane, put together: store, API server, registry, engine and workloads in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from socket import socket

import msgspec
from starlette.applications import Starlette
from starlette.routing import Mount

from modelwright.adapters.embedded.addresses import Addresses
from modelwright.adapters.embedded.apiserver.app import ApiServer
from modelwright.adapters.embedded.apiserver.auth import BearerToken
from modelwright.adapters.embedded.apiserver.hosts import LoopbackOnly
from modelwright.adapters.embedded.apiserver.listener import Listener, Tls, listen
from modelwright.adapters.embedded.apiserver.logs import Logs
from modelwright.adapters.embedded.certificates import Credentials, credentials, write_kubeconfig
from modelwright.adapters.embedded.store import EmbeddedStore
from modelwright.adapters.embedded.workloads.embedded import EmbeddedWorkloads
from modelwright.api.kinds import KINDS
from modelwright.engine.engine import Engine
from modelwright.oci.garbage import collect_garbage
from modelwright.oci.server.app import create_registry_app
from modelwright.oci.storage import ImageStorage
from modelwright.ports.clock import SystemClock
from modelwright.ports.errors import Unavailable
from modelwright.web import pages

log = logging.getLogger(__name__)

KEEP_GARBAGE_SECONDS = 24 * 3600


class Address(msgspec.Struct, frozen=True):
    """Where to listen; port 0 takes the one of the last run if that is free, else any."""

    host: str
    port: int


class Running(msgspec.Struct, frozen=True):
    """A control plane that runs."""

    url: str
    kubeconfig: Path
    failed: asyncio.Future[None]
    """Done with an error if the control plane cannot go on."""


@asynccontextmanager
async def control_plane(data_dir: Path, address: Address) -> AsyncIterator[Running]:
    """Run a control plane for the length of the block; at its end what runs is drained and stopped.

    Raises Unavailable (DataDirectoryInUse, PortTaken), Rejected and Invalid for a data directory that cannot be used.
    """
    async with AsyncExitStack() as stack:
        store = await EmbeddedStore.open(data_dir)
        stack.push_async_callback(store.close)
        root = data_dir.resolve()  # noqa: ASYNC240 - once, at the start
        addresses = Addresses(root)
        tokens = credentials(root)
        plain = stack.enter_context(open_socket(address, addresses.http))
        api = stack.enter_context(open_socket(Address(address.host, 0), addresses.api))
        registry, *former = addresses.remember(http=port_of(plain), api=port_of(api), registry=spelled(plain))
        images = ImageStorage(root / "registry")
        workloads = await stack.enter_async_context(
            EmbeddedWorkloads(root, registry=(registry, images.root), former_registries=frozenset(former))
        )
        engine = Engine(store, workloads, SystemClock())
        places = pages.Places(f"https://{spelled(api)}", str(root / "kubeconfig"), registry)
        site = Starlette(
            routes=[Mount("/v2", registry_app(images, tokens)), *pages.routes(places, engine.metrics.registry)]
        )
        await serve(stack, Listener(LoopbackOnly(site), plain))
        tls = Tls(tokens.certificate, tokens.key)
        api_app = Logs(ApiServer(store.resources, KINDS), store.resources, workloads)
        await serve(stack, Listener(LoopbackOnly(BearerToken(api_app, tokens.token)), api, tls=tls))
        stack.callback(store.end_watches)
        write_kubeconfig(root / "kubeconfig", port_of(api), tokens)
        collect_in_background(stack, images)
        yield Running(f"http://{registry}", root / "kubeconfig", await run_engine(stack, engine))


def registry_app(images: ImageStorage, tokens: Credentials) -> Starlette:
    """The registry: pushing takes any user with the token as password."""
    return create_registry_app(images, secret=tokens.token)


def collect_in_background(
    stack: AsyncExitStack, images: ImageStorage, keep_seconds: float = KEEP_GARBAGE_SECONDS
) -> None:
    """Remove, once, what the registry has kept for that long although nothing needs it.

    A failure is logged, and harms nothing else. The end of the stack waits for it: a thread cannot be broken off.
    """

    async def collect() -> None:
        try:
            found = await asyncio.to_thread(collect_garbage, images, keep_seconds)
        except Exception:
            log.exception("the registry's garbage could not be collected; the next start tries again")
        else:
            log.info("garbage of the registry: %d blobs, %d uploads, %d bytes", found.blobs, found.uploads, found.bytes)

    task = asyncio.create_task(collect(), name="registry-garbage")

    async def ended() -> None:
        await task

    stack.push_async_callback(ended)


def open_socket(address: Address, remembered: int) -> socket:
    """A listening socket at the address, at the port of the last run where any will do. Raises Unavailable."""
    if address.port == 0 and remembered:
        with contextlib.suppress(OSError):
            return listen(address.host, remembered)
    try:
        return listen(address.host, address.port)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {address.host}:{address.port}: {error.strerror}; choose another with --listen HOST:PORT",
            reason="PortTaken",
        ) from error


def port_of(listening: socket) -> int:
    port: int = listening.getsockname()[1]
    return port


def spelled(listening: socket) -> str:
    """HOST:PORT, as it stands in URLs and image references."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def serve(stack: AsyncExitStack, listener: Listener) -> None:
    await listener.start()
    stack.push_async_callback(listener.stop)


async def run_engine(stack: AsyncExitStack, engine: Engine) -> asyncio.Future[None]:
    """Run the engine in the background until the stack is closed."""
    task = asyncio.create_task(engine.run(), name="engine")

    async def stop() -> None:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:  # who waits on the task has been told
            log.debug("the engine had ended: %r", error)

    stack.push_async_callback(stop)
    return task
