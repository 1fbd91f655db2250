"""A download over http or https that survives cut connections: RFC 9110, ranges and If-Range."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import msgspec

from modelwright.agent import urls
from modelwright.agent.addresses import Resolver, system_resolver
from modelwright.agent.connection import Connector
from modelwright.agent.partial import Origin, Partial
from modelwright.agent.policy import Policy
from modelwright.agent.urls import Url
from modelwright.oci import digests
from modelwright.ports.errors import Mismatch, Rejected, Unavailable
from modelwright.ports.images import Digest

Report = Callable[[int, int], None]
"""Called with the bytes done, and the bytes in all (0: not known)."""

_PROGRESS = 1 << 20
_RANGE = re.compile(r"bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19}|\*)\Z")
_FILENAME = re.compile(r'(?:^|;)\s*filename="?([^";]*)"?\s*(?:;|\Z)', re.IGNORECASE)


class Downloaded(msgspec.Struct, frozen=True):
    """What came: its digest and length, and the name that the server gave it, if any."""

    digest: Digest
    size: int
    name: str = ""


class Download:
    """One download into a `.part` file, which is kept on an error so that a later run goes on with it."""

    def __init__(
        self,
        url: str,
        policy: Policy,
        *,
        sha256sum: str = "",
        authorization: str | None = None,
        resolver: Resolver = system_resolver,
        report: Report | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = urls.parse(url)
        self._identity = digests.of(url.encode())
        self._policy = policy
        self._expected = sha256sum.lower()
        self._connector = Connector(policy, resolver, authorization)
        self._report = report or _silent
        self._pause = pause
        self._name = ""
        self._continued = False

    def run(self, path: Path) -> Downloaded:
        """Download, and verify where a checksum is known.

        Raises Mismatch (ChecksumMismatch), Rejected (DownloadTooLarge), Forbidden, NotFound, Invalid, and Unavailable
        (DownloadStalled, DownloadCut and the like) when all attempts have failed.
        """
        with Partial(path) as part:
            part.load(self._identity)
            self._continued = part.size > 0
            self._attempts(part)
            if self._expected and self._continued and part.digest() != f"sha256:{self._expected}":
                part.restart(Origin(self._identity))  # perhaps the file was exchanged in between
                self._attempts(part)
            self._verify(part)
            return Downloaded(part.digest(), part.size, self._name)

    def _attempts(self, part: Partial) -> None:
        failures = 0
        while True:
            before = part.size
            try:
                self._attempt(part)
                return
            except Unavailable as error:
                failures = 1 if part.size - before >= _PROGRESS else failures + 1
                if error.reason == "DiskFull" or failures >= self._policy.attempts:
                    raise
                self._pause(self._how_long(failures, error.after))

    def _how_long(self, failures: int, asked: float | None) -> float:
        longest = self._policy.longest_pause
        wanted = self._policy.first_pause * float(1 << (failures - 1)) * random.uniform(0.5, 1.5)  # noqa: S311
        return min(longest, max(wanted, asked or 0.0))

    def _attempt(self, part: Partial) -> None:
        headers = self._resuming(part)
        with self._connector.get(self._url, headers) as response:
            if response.status_code == 416:
                self._finished_or_restart(part, response)
                return
            total = self._begin(part, response)
            for chunk in response.iter_raw():  # as they come: what a chunker holds back is lost on a cut
                if part.size + len(chunk) > self._policy.max_bytes:
                    raise self._too_large(part)
                part.append(chunk)
                self._report(part.size, total)
            if total and part.size != total:
                raise self._cut(part, total)

    def _resuming(self, part: Partial) -> dict[str, str]:
        """Continue only what surely is the same file, or will be found out by its checksum if it is not."""
        if not part.size or not (part.origin.validator or self._expected):
            return {}
        headers = {"Range": f"bytes={part.size}-"}
        if part.origin.validator:
            headers["If-Range"] = part.origin.validator
        return headers

    def _begin(self, part: Partial, response: httpx2.Response) -> int:
        """Make the file ready for the body; the bytes in all, 0 if unknown."""
        origin = Origin(self._identity, _validator(response))
        match = _RANGE.match(response.headers.get("content-range", ""))
        self._name = self._named(response) or self._name
        if response.status_code == 206:
            if match is None or int(match[1]) != part.size or (part.size == 0) or not _same(part.origin, origin):
                part.restart(Origin(self._identity))
                raise Unavailable(f"{self._url} sent another part than was asked for", reason="DownloadCut")
            self._continued = True
            total = 0 if match[3] == "*" else int(match[3])
        else:
            part.restart(origin)
            self._continued = False
            length = response.headers.get("content-length", "")
            total = int(length) if length.isascii() and length.isdigit() else 0
        if total > self._policy.max_bytes:
            raise self._too_large(part)
        part.expect(total)
        return total

    def _finished_or_restart(self, part: Partial, response: httpx2.Response) -> None:
        """The server has nothing behind our last byte: either all is here, or the file has changed."""
        if response.headers.get("content-range", "") != f"bytes */{part.size}" or not self._expected:
            part.restart(Origin(self._identity))
            raise Unavailable(f"{self._url} has changed while it was being downloaded", reason="DownloadCut")

    def _named(self, response: httpx2.Response) -> str:
        match = _FILENAME.search(response.headers.get("content-disposition", ""))
        return match[1] if match else ""

    def _verify(self, part: Partial) -> None:
        if not self._expected or part.digest() == f"sha256:{self._expected}":
            return
        found = part.digest()
        part.discard()
        raise Mismatch(
            f"{self._url} has the SHA-256 {found.removeprefix('sha256:')}, but {self._expected} was promised: "
            "correct the sha256sum, or find out who changed the file",
            reason="ChecksumMismatch",
        )

    def _too_large(self, part: Partial) -> Rejected:
        part.discard()
        return Rejected(
            f"{self._url} is longer than the {self._policy.max_bytes} bytes that a download may have",
            reason="DownloadTooLarge",
        )

    def _cut(self, part: Partial, total: int) -> Unavailable:
        return Unavailable(f"{self._url} ended after {part.size} of {total} bytes", reason="DownloadCut")


def file_name(url: Url, offered: str) -> str:
    """The name of a single file: that of the URL if it has an ending, else what the server said."""
    return next((name for name in (url.name if "." in url.name else "", offered, url.name) if name), "model")


def _validator(response: httpx2.Response) -> str:
    etag = response.headers.get("etag", "")
    if etag.startswith('"') and etag.isascii():
        return str(etag)
    return "" if etag else str(response.headers.get("last-modified", ""))


def _same(known: Origin, now: Origin) -> bool:
    return not known.validator or not now.validator or known.validator == now.validator


def _silent(_done: int, _total: int) -> None:
    pass
