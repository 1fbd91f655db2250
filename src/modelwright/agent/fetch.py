"""Fetch a model: download it, verify it, unpack it, and let it appear in its place whole or not at all."""

from __future__ import annotations

import base64
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from modelwright.agent import local_files, urls
from modelwright.agent.addresses import Resolver, system_resolver
from modelwright.agent.download import Download, Report, file_name
from modelwright.agent.policy import Policy
from modelwright.oci.archives import unpack_archive
from modelwright.oci.digests import hexadecimal
from modelwright.oci.disk import disk_errors
from modelwright.oci.names import WHITEOUT, entry_parts
from modelwright.oci.recorder import Recorder
from modelwright.oci.unpack import Limits, unpacked_into
from modelwright.ports.errors import AlreadyExists, Invalid, Mismatch, Rejected
from modelwright.ports.images import Digest

_SHA256 = re.compile(r"[0-9a-fA-F]{64}\Z")
_HEADER = re.compile(r"[!-~](?:[ -~]*[!-~])?\Z")
_MAX_SECRET = 1 << 16


class Fetched(msgspec.Struct, frozen=True):
    """The digest and length of what was downloaded, before it was unpacked."""

    digest: Digest
    size: int


def fetch(
    url: str,
    destination: Path,
    *,
    sha256sum: str = "",
    secret: Path | None = None,
    policy: Policy = Policy(),  # noqa: B008 - frozen
    limits: Limits = Limits(),  # noqa: B008 - frozen
    report: Report | None = None,
    resolver: Resolver = system_resolver,
    durable: bool = True,
    recorder: Recorder | None = None,
) -> Fetched:
    """Bring what `url` (http, https or file) names into the folder `destination`, which must not exist.

    An archive is unpacked; any other file lies in the folder under its own name. `secret` is a folder with the files
    `token`, or `username` and `password`, or `authorization`; and `ca.crt` for a private CA.
    `recorder` notes the files that are unpacked or moved.
    Bytes of a broken download wait in `.NAME.part` beside the destination: a later call goes on with them.
    Raises Mismatch (ChecksumMismatch) before anything is unpacked, Rejected, Forbidden, NotFound, Invalid, Unavailable.
    """
    if sha256sum and not _SHA256.match(sha256sum):
        raise Invalid(
            "sha256sum is not 64 hexadecimal digits, as the program sha256sum prints", reason="ChecksumInvalid"
        )
    if destination.exists():
        raise AlreadyExists(f"{destination} exists already", reason="DestinationExists")
    destination.parent.mkdir(parents=True, exist_ok=True)
    fetching = _Fetching(destination, sha256sum.lower(), limits, report, recorder, durable=durable)
    if url[:5].lower() == "file:":
        return fetching.copy(local_files.path_of(url, policy))
    if secret is not None:
        policy = _with_ca(policy, secret)
    download = Download(
        url,
        policy,
        sha256sum=sha256sum,
        authorization=_authorization(secret) if secret is not None else None,
        resolver=resolver,
        report=report,
    )
    return fetching.download(download, urls.parse(url))


class _Fetching:
    """What both ways have in common."""

    def __init__(
        self,
        destination: Path,
        expected: str,
        limits: Limits,
        report: Report | None,
        recorder: Recorder | None,
        *,
        durable: bool,
    ) -> None:
        self._destination, self._expected, self._limits = destination, expected, limits
        self._report, self._recorder, self._durable = report, recorder, durable
        self._part = destination.with_name(f".{destination.name}.part")
        self._done = 0

    def download(self, download: Download, url: urls.Url) -> Fetched:
        got = download.run(self._part)
        fetched = Fetched(got.digest, got.size)
        self._unpack(file_name(url, got.name), fetched)
        return fetched

    def copy(self, source: Path) -> Fetched:
        if source.is_dir():
            with self._recording() as recorder, unpacked_into(self._destination, durable=self._durable) as staging:
                digest, unpacked = local_files.copy_folder(source, staging, self._limits, self._moved, recorder)
                self._verify(digest, source)
            return Fetched(digest, unpacked.size)
        self._part.unlink(missing_ok=True)
        try:
            with disk_errors():
                digest, size = local_files.copy_file(source, self._part, self._moved)
            self._verify(digest, source)
            fetched = Fetched(digest, size)
            self._unpack(source.name, fetched)
        finally:
            self._part.unlink(missing_ok=True)
        return fetched

    def _unpack(self, name: str, fetched: Fetched) -> None:
        """What cannot be unpacked now never can be: the bytes are removed either way."""
        try:
            with unpacked_into(self._destination, durable=self._durable) as staging:
                unpack_archive(
                    self._part, staging, self._limits, name=_sound(name), consume=True, recorder=self._recorder
                )
                if self._recorder is not None and not self._part.exists():  # it is no archive, and was moved
                    self._recorder.note(_sound(name), fetched.size, hexadecimal(fetched.digest))
        except Rejected:
            self._remove_part()
            raise
        self._remove_part()

    def _recording(self) -> AbstractContextManager[Recorder]:
        """The caller's recorder, or one for now."""
        return Recorder() if self._recorder is None else nullcontext(self._recorder)

    def _remove_part(self) -> None:
        self._part.unlink(missing_ok=True)
        self._part.with_name(f"{self._part.name}.json").unlink(missing_ok=True)

    def _verify(self, digest: Digest, source: Path) -> None:
        if self._expected and digest != f"sha256:{self._expected}":
            raise Mismatch(
                f"{source} has the SHA-256 {digest.removeprefix('sha256:')}, but {self._expected} was promised: "
                "correct the sha256sum, or find out who changed the file",
                reason="ChecksumMismatch",
            )

    def _moved(self, count: int) -> None:
        self._done += count
        if self._report is not None:
            self._report(self._done, 0)


def _sound(name: str) -> str:
    try:
        parts = entry_parts(name)
    except Rejected:
        return "model"
    return parts[0] if len(parts) == 1 and "/" not in name and not name.startswith(WHITEOUT) else "model"


def _with_ca(policy: Policy, secret: Path) -> Policy:
    return msgspec.structs.replace(policy, ca_file=secret / "ca.crt") if (secret / "ca.crt").is_file() else policy


def _authorization(secret: Path) -> str | None:
    """The Authorization header that a secret stands for; None if it holds only a CA."""
    if found := _key(secret, "authorization"):
        return found
    if token := _key(secret, "token"):
        return f"Bearer {token}"
    if user := _key(secret, "username"):
        pair = f"{user}:{_key(secret, 'password')}"
        return "Basic " + base64.b64encode(pair.encode()).decode()
    return None


def _key(secret: Path, name: str) -> str:
    try:
        with (secret / name).open("rb") as file:
            text = file.read(_MAX_SECRET).decode().strip()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        text = "\0"
    if text and not _HEADER.match(text):
        raise Invalid(
            f"the key {name} of the downloadSecret has characters that no header can hold", reason="SecretInvalid"
        )
    return text
