"""A small server that follows the interface of the model server, in the standard library: it starts in no time.

A model is a folder with `answer.txt`. `broken` in it cannot be loaded, `slow N` takes N seconds to load,
`crash` ends the process once it is ready, `eat N` takes N MiB of memory once it is ready.
`GET /` answers with the default version's text, its version and the pid; `GET /slow` after half a second.
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
import time
from pathlib import Path
from typing import Any

from modelwright.http.handover import serve_handover


class Program:
    def __init__(self, config: Path, state: Path) -> None:
        self.config, self.state = config, state
        self.phase = "loading"
        self.loaded: dict[str, str] = {}
        self.states: dict[str, dict[str, Any]] = {}
        self.default: str | None = None
        self.digest = ""
        self.reload = asyncio.Event()
        self.stopping = asyncio.Event()
        self.open = 0

    def write(self) -> None:
        fresh = self.state.with_suffix(".tmp")
        fresh.write_text(
            json.dumps(
                {
                    "pid": os.getpid(),
                    "phase": self.phase,
                    "defaultVersion": self.default,
                    "versions": list(self.states.values()),
                    "configDigest": self.digest,
                    "reason": "",
                    "message": "",
                }
            )
        )
        fresh.replace(self.state)

    async def apply(self) -> None:
        content = self.config.read_bytes()
        config = json.loads(content)
        wanted = {version["version"]: version for version in config["versions"]}
        for name, version in sorted(wanted.items(), key=lambda item: item[0] != config["defaultVersion"]):
            self.states[name] = {"version": name, "number": version["number"], "state": "loading"}
            self.write()
            try:
                self.loaded[name] = await load(Path(version["path"]))
                self.states[name]["state"] = "ready"
            except (OSError, ValueError) as error:
                self.states[name] |= {"state": "failed", "reason": "ModelInvalid", "message": str(error)}
        if config["defaultVersion"] in self.loaded:
            self.default = config["defaultVersion"]
            self.loaded = {name: text for name, text in self.loaded.items() if name in wanted}
        elif self.default is None:
            self.default = max(self.loaded, default=None)
        kept = {*wanted, *self.loaded}
        self.states = {name: state for name, state in self.states.items() if name in kept}
        self.digest = hashlib.sha256(content).hexdigest()

    async def watch(self) -> None:
        seen = self.config.read_bytes()
        while True:
            try:
                await asyncio.wait_for(self.reload.wait(), 0.25)
            except TimeoutError:
                pass
            self.reload.clear()
            content = self.config.read_bytes() if self.config.exists() else seen
            if content != seen:
                seen = content
                await self.apply()
                self.write()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while request := await reader.readline():
                while (await reader.readline()).strip():
                    pass
                if b"/slow" in request:
                    await asyncio.sleep(0.5)
                body = json.dumps(
                    {"text": self.loaded.get(self.default or "", ""), "version": self.default, "pid": os.getpid()}
                )
                connection = "close" if self.stopping.is_set() else "keep-alive"
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: {connection}\r\n\r\n"
                writer.write(head.encode() + body.encode())
                await writer.drain()
                if connection == "close":
                    break
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            writer.close()


async def load(path: Path) -> str:
    text = (path / "answer.txt").read_text().strip()
    word, _, number = text.partition(" ")
    if word == "broken":
        raise ValueError("answer.txt says that it is broken")
    if word == "slow":
        await asyncio.sleep(float(number))
    return text


async def run(config: Path, state: Path, fd: int) -> int:
    program = Program(config, state)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, program.reload.set)
    loop.add_signal_handler(signal.SIGTERM, program.stopping.set)
    listening = socket.socket(fileno=fd)
    handover = os.environ.get("MODELWRIGHT_HANDOVER")
    offering = asyncio.create_task(serve_handover(Path(handover), listening)) if handover else None
    program.write()
    await program.apply()
    if program.default is None:
        program.phase = "failed"
        program.write()
        return 1
    server = await asyncio.start_server(program.answer, sock=listening.dup())
    program.phase = "ready"
    program.write()
    print(f"serving {program.default} pid {os.getpid()}", flush=True)
    word, _, number = program.loaded[program.default].partition(" ")
    if word == "crash":
        print("about to crash", file=sys.stderr, flush=True)
        os._exit(3)
    eaten = bytearray(int(number) << 20) if word == "eat" else b""
    watching = asyncio.create_task(program.watch())
    await program.stopping.wait()
    program.phase = "draining"
    program.write()
    watching.cancel()
    await asyncio.sleep(0.3 + len(eaten) * 0)
    server.close()
    await asyncio.sleep(0.05)  # what has been accepted reaches `answer`
    end = time.monotonic() + 5
    while program.open and time.monotonic() < end:
        await asyncio.sleep(0.01)
    if offering is not None:
        offering.cancel()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--state", type=Path, required=True)
    options = parser.parse_args()
    sys.exit(asyncio.run(run(options.config, options.state, options.fd)))
