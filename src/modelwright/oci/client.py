"""A repository in a registry: `Images` over HTTP (OCI distribution-spec 1.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urljoin

import msgspec

from modelwright.oci import digests, manifests, media
from modelwright.oci.answers import Answer
from modelwright.oci.digests import CHUNK
from modelwright.oci.reference import Reference, split_name
from modelwright.oci.session import Call, Options, Session
from modelwright.oci.upload import Upload
from modelwright.ports.errors import AlreadyExists, Invalid, Mismatch, NotFound, Unavailable
from modelwright.ports.images import Content, Descriptor, Digest, Manifest, Progress

_NEXT = re.compile(r'<([^>]*)>\s*;\s*rel="?next"?')
_MAX_PAGES = 1000
_REFERRER_ATTEMPTS = 5


class _Tags(msgspec.Struct, frozen=True):
    tags: list[str] | None = None


_TAGS = msgspec.json.Decoder(_Tags)  # here, for the reason in `manifests`


class RegistryRepository:
    """One repository of a registry; the session may be shared between repositories of one host."""

    def __init__(self, session: Session, repository: str) -> None:
        self._session = session
        self._repository = repository

    @property
    def name(self) -> str:
        """`host/repository`."""
        return f"{self._session.host}/{self._repository}"

    def resolve(self, reference: str) -> Descriptor | None:
        """What a tag or digest names, or None. Raises Mismatch, Forbidden, Unavailable."""
        answer = self._session.ask(self._manifest_call("HEAD", reference), 200, 404)
        if answer.status == 404:
            return None
        told, length = answer.header("docker-content-digest"), answer.header("content-length")
        if not (digests.is_digest(told) and length.isdigit()):
            manifest = self.read_manifest(reference)
            return Descriptor(manifest.media_type, manifest.digest, len(manifest.data))
        if digests.is_digest(reference) and told != reference:
            raise self._wrong(reference, told)
        return Descriptor(_media_type(answer), Digest(told), int(length))

    def read_manifest(self, reference: str) -> Manifest:
        """The manifest of a tag or digest, checked. Raises NotFound, Mismatch, Rejected."""
        answer = self._session.ask(self._manifest_call("GET", reference), 200)
        found = digests.of(answer.body)
        told = answer.header("docker-content-digest")
        for promised in (reference if digests.is_digest(reference) else "", told):
            if promised and promised != found:
                raise self._wrong(promised, found)
        manifest = Manifest(_media_type(answer), found, answer.body)
        manifests.decode(manifest)
        return manifest

    def write_manifest(self, manifest: Manifest, tag: str | None = None) -> None:
        """Store a manifest and tag it, but never move a tag. Raises AlreadyExists (ImageTagTaken), Mismatch."""
        if len(manifest.data) > media.MAX_MANIFEST_BYTES:
            raise Invalid(
                f"a manifest over {media.MAX_MANIFEST_BYTES} bytes cannot be stored", reason="ManifestTooLarge"
            )
        if tag is not None and self._tagged(manifest, tag):
            return
        answer = self._put_manifest(manifest, tag or manifest.digest, guarded=tag is not None)
        told = answer.header("docker-content-digest")
        if answer.status == 201 and told and told != manifest.digest:
            raise self._wrong(manifest.digest, told)
        if tag is not None or not told:
            self._check_stored(manifest, tag)
        if answer.status == 201 and not answer.header("oci-subject"):
            self._add_to_fallback(manifest)

    def has_blob(self, digest: Digest) -> bool:
        """Whether the repository has this blob; a redirect to it counts, and is not followed."""
        call = self._pull("HEAD", f"blobs/{digest}", f"look for {digest} in {self._repository}")
        return self._session.ask(call, 200, 404, 301, 302, 303, 307, 308).status != 404

    @contextmanager
    def read_blob(self, digest: Digest, offset: int = 0) -> Iterator[Iterator[bytes]]:
        """The bytes from `offset` on, unchecked. Raises NotFound, Unavailable (also in the middle)."""
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        call = self._pull("GET", f"blobs/{digest}", f"pull {digest} from {self._repository}", headers)
        with self._session.followed(call) as response:
            if response.status_code not in {200, 206}:
                body = b"".join(response.iter_raw())[: media.MAX_MANIFEST_BYTES]
                answer = Answer(response.status_code, {k.lower(): v for k, v in response.headers.items()}, body)
                raise self._session.refused(answer, call)
            skip = (
                offset
                if response.status_code == 200
                else self._refuse_other_range(response.headers.get("content-range", ""), offset)
            )
            yield _without(_gathered(response.iter_raw()), skip)

    def write_blob(self, content: Content, *, sources: tuple[str, ...] = (), progress: Progress | None = None) -> None:
        """Store a blob unless it is there. Raises Conflict (StorageChanged), Mismatch, Forbidden, Unavailable."""
        upload = Upload(self._session, self._repository, content, progress)
        if not upload.stored():
            upload.run(tuple(self._mountable(sources)))

    def _mountable(self, sources: tuple[str, ...]) -> Iterator[str]:
        """The repositories of this registry among `[host/]repository` names, other than this one."""
        for source in sources:
            host, repository = split_name(source, default_host=self._session.host)
            if host == self._session.host and repository != self._repository:
                yield repository

    def tags(self) -> list[str]:
        """All tags, sorted; none if the repository does not exist yet."""
        found: set[str] = set()
        for answer in self._pages("tags/list?n=1000", f"list the tags of {self._repository}"):
            try:
                found.update(_TAGS.decode(answer.body).tags or [])
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise Unavailable(f"{self.name} answered no list of tags", reason="RegistryBroke") from error
        return sorted(found)

    def referrers(self, digest: Digest) -> list[Descriptor]:
        """What refers to this manifest, by the referrers API or the tag `sha256-HEX`, whichever there is."""
        found: dict[Digest, Descriptor] = {}
        for answer in self._pages(f"referrers/{digest}", f"list what refers to {digest}"):
            if _media_type(answer) == media.INDEX:
                found.update({one.digest: one for one in _listed(answer.body, digest)})
        found.update({one.digest: one for one in self._fallback(digest)})
        return [found[key] for key in sorted(found)]

    def delete_manifest(self, reference: str) -> bool:
        """Delete a manifest by digest, or a tag alone; False if there was none, or the registry deletes no tags."""
        scope = f"repository:{self._repository}:pull,push,delete"
        call = Call("DELETE", f"{self._repository}/manifests/{reference}", scope, f"delete {reference}")
        answer = self._session.ask(call, 200, 202, 204, 404, 400, 405)
        if answer.status == 405 or (answer.status == 400 and digests.is_digest(reference)):
            raise Invalid(
                f"{self._session.host} deletes nothing: allow it in the registry's configuration",
                reason="DeletionNotSupported",
            )
        return answer.status < 400

    def _pull(self, method: str, path: str, what: str, headers: dict[str, str] | None = None) -> Call:
        return Call(method, f"{self._repository}/{path}", f"repository:{self._repository}:pull", what, headers or {})

    def _manifest_call(self, method: str, reference: str) -> Call:
        what = f"read {self._repository}{'@' if digests.is_digest(reference) else ':'}{reference}"
        return self._pull(method, f"manifests/{reference}", what, {"Accept": ", ".join(media.ACCEPTED)})

    def _put_manifest(self, manifest: Manifest, reference: str, *, guarded: bool) -> Answer:
        headers = {"Content-Type": manifest.media_type, "Content-Length": str(len(manifest.data))}
        if guarded:
            headers["If-None-Match"] = "*"
        call = Call(
            "PUT",
            f"{self._repository}/manifests/{reference}",
            f"repository:{self._repository}:pull,push",
            f"push {self._repository}:{reference}",
            headers,
            lambda: iter((manifest.data,)),
            patient=True,
        )
        return self._session.ask(call, 201, 412)

    def _tagged(self, manifest: Manifest, tag: str) -> bool:
        found = self.resolve(tag)
        if found is not None:
            self._refuse_other(manifest, tag, found)
        return found is not None

    def _check_stored(self, manifest: Manifest, tag: str | None) -> None:
        """Also against others who wrote the tag at the same time to a registry that guards nothing."""
        stored = self.resolve(tag or manifest.digest)
        if stored is None:
            raise Unavailable(
                f"{self.name} took the manifest {manifest.digest} but does not have it", reason="BlobLost"
            )
        self._refuse_other(manifest, tag, stored)

    def _refuse_other(self, manifest: Manifest, tag: str | None, found: Descriptor) -> None:
        if found.digest != manifest.digest:
            raise AlreadyExists(
                f"{self.name}:{tag} holds other content ({found.digest}); tags are never overwritten: choose another",
                reason="ImageTagTaken",
            )

    def _pages(self, path: str, what: str) -> Iterator[Answer]:
        call = self._pull("GET", path, what)
        for _ in range(_MAX_PAGES):
            answer = self._session.ask(call, 200, 404)
            if answer.status == 404:
                return
            yield answer
            following = _NEXT.search(answer.header("link")[:8192])
            if following is None:
                return
            call = msgspec.structs.replace(call, url=self._next_page(call.url, following[1]))

    def _next_page(self, url: str, link: str) -> str:
        current = url if "://" in url else f"{self._session.base}/v2/{url}"
        return self._session.locate(urljoin(current, link))

    def _fallback(self, digest: Digest) -> list[Descriptor]:
        try:
            manifest = self.read_manifest(_fallback_tag(digest))
        except NotFound:
            return []
        content = manifests.decode(manifest)
        return content.manifests if isinstance(content, manifests.Index) else []

    def _add_to_fallback(self, manifest: Manifest) -> None:
        """Registries without the referrers API: list the manifest under its subject's tag (distribution-spec 1.1)."""
        content = manifests.decode(manifest)
        if content.subject is None:
            return
        subject, entry = content.subject.digest, _referrer(manifest, content)
        for _ in range(_REFERRER_ATTEMPTS):
            listed = self._fallback(subject)
            if any(one.digest == manifest.digest for one in listed):
                return
            index = {"schemaVersion": 2, "mediaType": media.INDEX, "manifests": [*listed, entry]}
            data = msgspec.json.encode(index)
            self._put_manifest(Manifest(media.INDEX, digests.of(data), data), _fallback_tag(subject), guarded=False)
        if all(one.digest != manifest.digest for one in self._fallback(subject)):
            raise Unavailable(
                f"others write to {_fallback_tag(subject)} all the time: try again", reason="ReferrersBusy"
            )

    def _refuse_other_range(self, told: str, offset: int) -> int:
        if not told.startswith(f"bytes {offset}-"):
            raise Mismatch(
                f"{self.name} answers another range than was asked for: {told[:60]!r}", reason="RangeMismatch"
            )
        return 0

    def _wrong(self, wanted: str, found: str) -> Mismatch:
        return Mismatch(
            f"{self.name} answers {found[:100]!r} where {wanted[:100]!r} was asked for; do not use it",
            reason="DigestMismatch",
        )


@contextmanager
def connect(reference: Reference, options: Options | None = None) -> Iterator[RegistryRepository]:
    """The repository that a reference names, with connections that are closed at the end."""
    with Session(reference.host, options) as session:
        yield RegistryRepository(session, reference.repository)


def _media_type(answer: Answer) -> str:
    return answer.header("content-type").partition(";")[0].strip()


def _listed(body: bytes, digest: Digest) -> list[Descriptor]:
    content = manifests.decode(Manifest(media.INDEX, digests.of(body), body))
    if not isinstance(content, manifests.Index):
        raise Mismatch(f"the list of what refers to {digest} is no index", reason="ManifestUnknown")
    return content.manifests


def _fallback_tag(digest: Digest) -> str:
    return digest.replace(":", "-")


def _referrer(manifest: Manifest, content: manifests.Index | manifests.ImageManifest) -> Descriptor:
    config_type = content.config.media_type if isinstance(content, manifests.ImageManifest) else None
    return Descriptor(
        manifest.media_type,
        manifest.digest,
        len(manifest.data),
        content.annotations or {},
        artifact_type=content.artifact_type or config_type,
    )


def _gathered(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in larger chunks, which cost less; what has arrived before a connection breaks is not lost."""
    import httpx2

    pending: list[bytes] = []
    size = 0
    try:
        for chunk in chunks:
            pending.append(chunk)
            size += len(chunk)
            if size >= CHUNK:
                yield b"".join(pending)
                pending, size = [], 0
    except httpx2.HTTPError:
        yield b"".join(pending)
        raise
    yield b"".join(pending)


def _without(chunks: Iterator[bytes], skip: int) -> Iterator[bytes]:
    """The chunks without the first bytes, for servers that ignore ranges."""
    for chunk in chunks:
        if skip >= len(chunk):
            skip -= len(chunk)
            continue
        yield chunk[skip:] if skip else chunk
        skip = 0
