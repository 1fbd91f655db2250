"""Processes that may outlive the program that started them.

A process is known by its pid, its start time and the boot it belongs to, so that a number used again is never
mistaken for it. It runs in a session of its own and carries a nonce in its environment: what was started in the
instant before it could be written down is found by that.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

import msgspec
import psutil

NONCE = "MODELWRIGHT_NONCE"
_PROC = Path("/proc")
_POLL_SECONDS = 0.2


class Identity(msgspec.Struct, frozen=True):
    """One process, and no other that ever had its number."""

    pid: int
    started: str
    boot: str


class Stat(msgspec.Struct, frozen=True):
    """What the kernel says of a process; `rss` in bytes."""

    alive: bool
    parent: int
    group: int
    session: int
    started: str
    rss: int


def new_nonce(domain: str) -> str:
    """A nonce for one process; `domain` is the data directory's own id."""
    return f"{domain}.{secrets.token_hex(8)}"


def stat(pid: int) -> Stat | None:
    """What the kernel says of this process, None if there is none."""
    return _stat_linux(pid) if _PROC.joinpath("self/stat").exists() else _stat_portable(pid)


def _stat_linux(pid: int) -> Stat | None:
    try:
        line = (_PROC / str(pid) / "stat").read_text("ascii", "replace")
    except OSError:
        return None
    fields = line[line.rindex(")") + 2 :].split()
    return Stat(
        alive=fields[0] not in "ZX",
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=fields[19],
        rss=int(fields[21]) * _page_size(),
    )


@cache
def _page_size() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def _stat_portable(pid: int) -> Stat | None:
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            alive = process.status() != psutil.STATUS_ZOMBIE
            return Stat(
                alive=alive,
                parent=process.ppid(),
                group=os.getpgid(pid),
                session=os.getsid(pid),
                started=repr(process.create_time()),
                rss=process.memory_info().rss if alive else 0,
            )
    except (psutil.Error, OSError):
        return None


@cache
def boot_id() -> str:
    """What is another after each start of the machine."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return str(round(psutil.boot_time()))


def identify(pid: int) -> Identity | None:
    """Who has this number now, dead but not yet reaped or alive."""
    found = stat(pid)
    return Identity(pid, found.started, boot_id()) if found else None


def is_alive(identity: Identity) -> bool:
    """Whether this very process is still running."""
    found = stat(identity.pid)
    return bool(found and found.alive and found.started == identity.started and identity.boot == boot_id())


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: int | IO[Any] = subprocess.DEVNULL,
    output: int | IO[Any] | None = None,
    error: int | IO[Any] | None = subprocess.STDOUT,
    inherit: Sequence[int] = (),
) -> Identity:
    """Start a process in a session of its own, knowing only the files it is given. Raises OSError."""
    popen = subprocess.Popen(
        list(argv),
        env=dict(env),
        cwd=cwd,
        stdin=stdin,
        stdout=output,
        stderr=error,
        pass_fds=tuple(inherit),
        start_new_session=True,
    )
    popen.returncode = 0  # `Process` waits for it, so that adopted and started ones are the same
    identity = identify(popen.pid)
    if identity is None:
        raise ChildProcessError(f"process {popen.pid} was reaped by somebody else")
    return identity


class Process:
    """A running process whose end is awaited, whether we started it or found it."""

    def __init__(self, identity: Identity, nonce: str, on_exit: Callable[[], None]) -> None:
        self.identity = identity
        self.nonce = nonce
        self.exited = False
        self.exit_code: int | None = None
        """Negative: the signal that ended it; None while it runs, or if it is not our child."""
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._pidfd: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watch()

    def is_alive(self) -> bool:
        """Whether it runs at this moment, even if its end has not been noticed yet."""
        return not self.exited and is_alive(self.identity)

    def signal(self, number: signal.Signals) -> None:
        """Signal the process itself."""
        if self.exited:
            return
        try:
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, number)
            elif is_alive(self.identity):
                os.kill(self.identity.pid, number)
        except ProcessLookupError:
            pass

    def kill_all(self) -> None:
        """End it and everything that it has started, at once."""
        self.signal(signal.SIGKILL)
        sweep(self.identity, self.nonce)

    def close(self) -> None:
        """Watch it no longer; it goes on running."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _watch(self) -> None:
        if hasattr(os, "pidfd_open"):
            try:
                self._pidfd = os.pidfd_open(self.identity.pid)
            except OSError:
                self._timer = self._loop.call_later(0, self._poll)
                return
            if stat(self.identity.pid) and identify(self.identity.pid) != self.identity:
                os.close(self._pidfd)
                self._pidfd = None
                self._timer = self._loop.call_later(0, self._poll)
                return
            self._loop.add_reader(self._pidfd, self._ended)
            return
        self._timer = self._loop.call_later(_POLL_SECONDS, self._poll)

    def _poll(self) -> None:
        if is_alive(self.identity):
            self._timer = self._loop.call_later(_POLL_SECONDS, self._poll)
        else:
            self._ended()

    def _ended(self) -> None:
        self.close()
        self.exit_code = _reap(self.identity.pid)
        self.exited = True
        self._on_exit()


def _reap(pid: int) -> int | None:
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if done else None


def carrying(prefix: str) -> Iterator[tuple[int, str]]:
    """Our user's processes whose nonce starts with `prefix`: pid and nonce."""
    user = os.getuid()
    for process in psutil.process_iter():
        try:
            if process.uids().real == user and process.pid != os.getpid():
                nonce = process.environ().get(NONCE, "")
                if nonce.startswith(prefix):
                    yield process.pid, nonce
        except (psutil.Error, OSError):
            continue


def leaders(prefix: str) -> dict[str, int]:
    """By nonce, the process that was started with it; else one that this process has left behind."""
    found: dict[str, tuple[bool, float, int]] = {}
    for pid, nonce in carrying(prefix):
        known = stat(pid)
        if known is not None:
            likely = (known.session != pid, float(known.started), pid)  # it leads a session, and was there first
            found[nonce] = min(likely, found.get(nonce, likely))
    return {nonce: pid for nonce, (_, _, pid) in found.items()}


def sweep(leader: Identity | None, nonce: str) -> bool:
    """End whatever a process has left behind: the members of its session, and who carries its nonce.

    Returns whether there was anybody, who may need a moment to be gone.
    """
    found = {pid for pid, _ in carrying(nonce)} | set(_session(leader))
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    return bool(found)


def _session(leader: Identity | None) -> Iterator[int]:
    if leader is None or leader.boot != boot_id():
        return
    first = stat(leader.pid)
    if first and first.started != leader.started:
        return  # the number belongs to another by now
    for pid in psutil.pids():
        found = stat(pid)
        if found and found.alive and found.session == leader.pid:
            yield pid


def how_it_ended(code: int | None) -> str:
    """An exit code in words; negative is a signal, None is not known."""
    if code is None:
        return "it ended"
    if code >= 0:
        return f"it exited with code {code}"
    try:
        return f"it was ended by signal {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by signal {-code}"
