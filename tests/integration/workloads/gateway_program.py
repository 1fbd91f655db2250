"""A small gateway that follows the interface of `modelwright.gateway`: it answers with its configuration.

The policy `refused` cannot be applied; `kept N` says that N bytes are kept. `GET /` answers with its configuration
and its pid.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from modelwright.http.handover import serve_handover


class Gateway:
    def __init__(self, config: Path, state: Path) -> None:
        self.config, self.state = config, state
        self.phase = "loading"
        self.applied: dict[str, Any] = {}
        self.digest = ""
        self.message = ""
        self.reload = asyncio.Event()
        self.stopping = asyncio.Event()

    def apply(self) -> None:
        content = self.config.read_bytes()
        wanted = json.loads(content)
        if wanted["policy"] == "refused":
            self.message = "there is no policy 'refused'"
        else:
            self.applied, self.message = wanted, ""
            self.digest = hashlib.sha256(content).hexdigest()
        self.write()

    def write(self) -> None:
        said: dict[str, Any] = {"pid": os.getpid(), "phase": self.phase, "configDigest": self.digest}
        if self.message:
            said |= {"reason": "ConfigInvalid", "message": self.message}
        word, _, number = self.applied.get("policy", "").partition(" ")
        if word == "kept":
            said["keptBytes"] = int(number)
        fresh = self.state.with_suffix(".tmp")
        fresh.write_text(json.dumps(said))
        fresh.replace(self.state)

    def enter(self, phase: str) -> None:
        self.phase = phase
        self.write()

    async def watch(self) -> None:
        while True:
            await self.reload.wait()
            self.reload.clear()
            self.apply()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (await reader.readline()).strip():
            pass
        body = json.dumps({"config": self.applied, "pid": os.getpid()}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()


async def run(config: Path, state: Path, fd: int) -> int:
    gateway = Gateway(config, state)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, gateway.reload.set)
    loop.add_signal_handler(signal.SIGTERM, gateway.stopping.set)
    listening = socket.socket(fileno=fd)
    offering = asyncio.create_task(serve_handover(Path(os.environ["MODELWRIGHT_HANDOVER"]), listening))
    gateway.apply()
    if gateway.message:
        gateway.enter("failed")
        return 1
    server = await asyncio.start_server(gateway.answer, sock=listening.dup())
    gateway.enter("ready")
    watching = asyncio.create_task(gateway.watch())
    await gateway.stopping.wait()
    gateway.enter("draining")
    watching.cancel()
    await asyncio.sleep(0.2)
    server.close()
    await asyncio.sleep(0.1)
    offering.cancel()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--state", type=Path, required=True)
    options = parser.parse_args()
    sys.exit(asyncio.run(run(options.config, options.state, options.fd)))
