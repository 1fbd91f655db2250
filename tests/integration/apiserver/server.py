"""The embedded API server as a process of its own, as kubectl meets it.

    python tests/integration/apiserver/server.py DATA_DIR

Prints its port once it serves, ends in good order when its standard input does.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from modelwright.adapters.embedded.apiserver.app import create_api_app
from modelwright.adapters.embedded.apiserver.listener import Listener, Tls, listen
from modelwright.adapters.embedded.certificates import credentials, remembered_port, write_kubeconfig
from modelwright.adapters.embedded.store import EmbeddedStore


async def serve(data_dir: Path) -> None:
    store = await EmbeddedStore.open(data_dir)
    found, kubeconfig = credentials(data_dir), data_dir / "kubeconfig"
    app = create_api_app(store.resources, found.token)
    tls = Tls(found.certificate, found.key)
    listener = Listener(app, listen("127.0.0.1", remembered_port(kubeconfig)), tls=tls)
    await listener.start()
    write_kubeconfig(kubeconfig, listener.port, found)
    print(listener.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await store.close()
    await listener.stop()


class Server:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], data_dir: Path, port: int) -> None:
        self.process = process
        self.data_dir = data_dir
        self.port = port
        self.kubeconfig = data_dir / "kubeconfig"

    def resident_bytes(self) -> int:
        size: int = psutil.Process(self.process.pid).memory_info().rss
        return size


@contextmanager
def running_server(data_dir: Path) -> Iterator[Server]:
    """The server on a data directory, until the block ends; it must end without an error."""
    command = [sys.executable, "-X", "dev", __file__, str(data_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Server(process, data_dir, int(process.stdout.readline()))
        except BaseException:
            process.kill()
            raise
        process.stdin.close()
        assert process.wait(timeout=60) == 0


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
