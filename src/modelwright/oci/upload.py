"""Sending one blob: mount it, or upload it, go on where a broken upload stopped, and check what was stored.

OCI distribution-spec 1.1, "Pushing blobs".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

from modelwright.oci import digests
from modelwright.oci.answers import Answer
from modelwright.oci.session import Call, Session
from modelwright.ports.errors import Conflict, Invalid, Mismatch, ModelwrightError, NotFound, Unavailable
from modelwright.ports.images import Content, Progress

SINGLE = 1024 * 1024
"""Blobs up to this size are sent in the closing request; larger ones before it, so that they can be resumed."""

_RANGE = re.compile(r"(?:bytes=)?0-([0-9]{1,18})\Z")
_BINARY = "application/octet-stream"


class Upload:
    """One blob on its way into one repository."""

    def __init__(self, session: Session, repository: str, content: Content, progress: Progress | None) -> None:
        self._session, self._repository, self._content = session, repository, content
        self._progress = progress
        self._scope = f"repository:{repository}:pull,push"
        self._location = ""
        self._offset = 0
        self._reported = 0

    def run(self, sources: tuple[str, ...] = ()) -> None:
        """Mount or upload the blob. Raises Conflict (StorageChanged), Mismatch, Unavailable, Forbidden."""
        if self._mounted(sources):
            return
        number = 1
        while not self._attempt(number):
            number += 1
            if self.stored():
                return
            self._find_where_to_go_on()

    def stored(self) -> bool:
        """Whether the repository has the blob, in its full length. Raises Mismatch if it has another one."""
        return self._session.retry.run(self._stored)

    def _stored(self) -> bool:
        answer = self._session.ask_once(self._call("HEAD", self._blob), 200, 404, 301, 302, 303, 307, 308)
        if answer.status == 200:
            self._check(answer)
            length = answer.header("content-length")
            if length and length != str(self._content.size):
                raise self._wrong(f"{length} bytes long instead of {self._content.size}")
        return answer.status != 404

    @property
    def _blob(self) -> str:
        return f"{self._repository}/blobs/{self._content.digest}"

    def _attempt(self, number: int) -> bool:
        """Send what is missing; False if it failed in a way that another attempt may mend, after a pause."""
        try:
            self._send()
            return True
        except Unavailable as error:
            if not self._session.retry.rest(number, error):
                raise
        except (Mismatch, NotFound, Invalid) as error:
            self._refuse_changed_content(error)
            self._forget()
            if isinstance(error, Invalid) and not self._offset:
                raise
            if not self._session.retry.rest(number, Unavailable(error.message)):
                raise
        except BaseException:
            self._forget()
            raise
        return False

    def _send(self) -> None:
        if not self._location:
            answer = self._session.ask_once(self._call("POST", f"{self._repository}/blobs/uploads/"), 202)
            self._location, self._offset = self._session.locate(answer.header("location")), 0
        if self._content.size > SINGLE:
            self._patch()
        self._commit()

    def _patch(self) -> None:
        size, offset = self._content.size, self._offset
        if offset == size:
            return
        headers = {"Content-Type": _BINARY, "Content-Length": str(size - offset)}
        if offset:
            headers["Content-Range"] = f"{offset}-{size - 1}"
        call = self._call("PATCH", self._location, headers, offset)
        answer = self._send_directly(call, offset) or self._session.ask_once(call, 201, 202, 204)
        self._location = self._session.locate(answer.header("location") or self._location)
        self._offset = size

    def _send_directly(self, call: Call, offset: int) -> Answer | None:
        """The short way, where the connection allows it."""
        position = offset

        def progress(count: int) -> None:
            nonlocal position
            position += count
            self._report(position)

        with self._content.open() as stream:
            if offset:
                stream.seek(offset)
            answer = self._session.send(call, stream, progress)
        if answer is not None and answer.status not in {201, 202, 204}:
            raise self._session.refused(answer, call)
        return answer

    def _commit(self) -> None:
        separator = "&" if "?" in self._location else "?"
        url = f"{self._location}{separator}digest={quote(self._content.digest)}"
        small = self._content.size <= SINGLE
        headers = {"Content-Type": _BINARY, "Content-Length": str(self._content.size if small else 0)}
        answer = self._session.ask_once(self._call("PUT", url, headers, 0 if small else None), 201, 204)
        self._check(answer)
        self._location = ""
        if not self._stored():
            raise Unavailable(
                f"{self._session.host} took {self._content.digest} but does not have it", reason="BlobLost"
            )

    def _find_where_to_go_on(self) -> None:
        """Ask how much of a broken upload has arrived; start anew if that cannot be told."""
        location, self._location, self._offset = self._location, "", 0
        if not location or self._content.size <= SINGLE:
            return
        with suppress(ModelwrightError):
            answer = self._session.ask_once(self._call("GET", location), 204)
            found = _RANGE.match(answer.header("range"))
            arrived = int(found[1]) + 1 if found else 0
            if 1 < arrived <= self._content.size:
                self._location = self._session.locate(answer.header("location") or location)
                self._offset = arrived

    def _mounted(self, sources: tuple[str, ...]) -> bool:
        """Whether one of the sources had the blob; if not, the upload that was opened on the way is used."""
        for source in sources:
            self._forget()
            query = f"mount={quote(self._content.digest)}&from={quote(source, safe='')}"
            scope = f"{self._scope} repository:{source}:pull"
            call = Call("POST", f"{self._repository}/blobs/uploads/?{query}", scope, f"mount from {source}")
            with suppress(ModelwrightError):
                answer = self._session.ask_once(call, 201, 202)
                if answer.status == 201:
                    self._check(answer)
                    return self.stored()
                self._location = self._session.locate(answer.header("location"))
        return False

    def _forget(self) -> None:
        """Tell the registry that an upload is given up; it would otherwise keep it for days."""
        location, self._location = self._location, ""
        if location:
            with suppress(ModelwrightError):
                self._session.ask_once(self._call("DELETE", location), 200, 202, 204, 404, 405)

    def _refuse_changed_content(self, error: ModelwrightError) -> None:
        """If the registry found another digest, was it the content that changed since it was hashed?"""
        if not isinstance(error, Mismatch):
            return
        with self._content.open() as stream:
            found, _ = digests.of_stream(stream)
        if found != self._content.digest:
            raise self._changed() from error

    def _changed(self) -> Conflict:
        return Conflict(
            f"the content of {self._content.digest} changed while it was being pushed: "
            "build again when nothing writes to the model folder",
            reason="StorageChanged",
        )

    def _check(self, answer: Answer) -> None:
        told = answer.header("docker-content-digest")
        if told and told != self._content.digest:
            raise self._wrong(f"stored as {told[:100]!r}")

    def _wrong(self, how: str) -> Mismatch:
        where = f"{self._session.host}/{self._repository}"
        return Mismatch(f"{where}: the blob {self._content.digest} is {how}; do not use it", reason="DigestMismatch")

    def _call(self, method: str, url: str, headers: dict[str, str] | None = None, body_from: int | None = None) -> Call:
        what = f"push to {self._repository}"
        if body_from is None:
            empty = {"Content-Length": "0"} if method in {"POST", "PUT"} else {}
            return Call(method, url, self._scope, what, empty | (headers or {}), patient=method == "PUT")
        return Call(method, url, self._scope, what, headers or {}, lambda: self._chunks(body_from), patient=True)

    def _chunks(self, offset: int) -> Iterator[bytes]:
        with self._content.open() as stream:
            if offset:
                stream.seek(offset)
            while chunk := stream.read(digests.CHUNK):
                yield chunk
                offset += len(chunk)
                self._report(offset)
        if offset != self._content.size:
            raise self._changed()

    def _report(self, position: int) -> None:
        """Bytes that are sent again are not counted again."""
        if self._progress is not None and position > self._reported:
            self._progress(position - self._reported)
        self._reported = max(position, self._reported)
