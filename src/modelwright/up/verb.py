"""`modelwright up`: the embedded control plane, in the foreground."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import asyncio
    import signal

    from modelwright.up.control_plane import Address

DEFAULT_LISTEN = "127.0.0.1:7817"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("up")(up)


def up(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="D", help="Where everything is kept.", show_default=False)
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where pages and registry listen; loopback only; port 0: any.")
    ] = DEFAULT_LISTEN,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Run the control plane on this machine: Kubernetes API, registry, builds and model servers.

    Prints `ready http://HOST:PORT`. Ctrl-C drains and stops what runs; nothing is lost, and the next `up` goes on.
    """
    import asyncio

    from modelwright.adapters.kubernetes.locate import default_data_dir
    from modelwright.up.control_plane import Address

    host, port = loopback_address(listen)
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    if not verbose:  # container clients try TLS first, and each such try would be a warning
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    asyncio.run(run(data_dir or default_data_dir(), Address(host, port)))


def loopback_address(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT. Raises a usage error for anything but a loopback address."""
    import ipaddress

    host, colon, port = text.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise typer.BadParameter(f"{text!r} is not HOST:PORT", param_hint="--listen")
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        text = f"{host!r} is not a loopback address: the embedded control plane serves this machine only"
        raise typer.BadParameter(text, param_hint="--listen")
    return host, int(port)


async def run(data_dir: Path, address: Address) -> None:
    """Run until a signal asks to end, or the control plane cannot go on. Raises Unavailable then."""
    import asyncio

    from modelwright.up.control_plane import control_plane

    stop = stopping_signals()
    async with control_plane(data_dir, address) as running:
        print(f"ready {running.url}", flush=True)
        print(f"kubeconfig {running.kubeconfig} (Ctrl-C drains and stops)", file=sys.stderr, flush=True)
        await asyncio.wait((running.failed, stop), return_when=asyncio.FIRST_COMPLETED)
        if running.failed.done():
            raise ended_by_itself(running.failed)
        print("stopping: draining what is served (again to stop at once)", file=sys.stderr, flush=True)


def ended_by_itself(engine: asyncio.Future[None]) -> Exception:
    """What to say when the control loop has ended although nobody asked it to; the trace goes to the log."""
    from modelwright.ports.errors import Unavailable

    cause = engine.exception() if not engine.cancelled() else None
    logging.getLogger(__name__).critical("the control loop has ended by itself", exc_info=cause)
    why = f": {cause!r}" if cause is not None else ""
    return Unavailable(
        f"the control loop has ended by itself{why}; nothing is lost: start `modelwright up` again, and report this",
        reason="ControlLoopEnded",
    )


def stopping_signals() -> asyncio.Future[None]:
    """A future that is done at the first SIGINT or SIGTERM; the second one ends the process at once."""
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def asked(number: signal.Signals) -> None:
        if not stop.done():
            stop.set_result(None)
            return
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked, number)
    return stop
