"""Registries that fail, lie or are slow: what the client makes of it."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelwright.oci import digests, image, media
from modelwright.oci.image import Blob, manifest_of
from modelwright.oci.push import push_folder
from modelwright.oci.session import Options
from modelwright.ports.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    Mismatch,
    ModelwrightError,
    NotFound,
    Rejected,
    Unavailable,
)
from modelwright.ports.images import Digest

LARGE = os.urandom(3_000_000)


@pytest.fixture(params=["127.0.0.1", "127.1"])
def scripted(request: pytest.FixtureRequest, scripted: Any) -> Any:
    """Reached by the short way of this machine, and by the way to all others, which 127.1 passes for."""
    scripted.host = f"{request.param}:{scripted.port}"
    return scripted


@pytest.fixture
def connect(connect: Any) -> Any:
    """As everywhere, but http is asked for where it is not taken by itself."""

    def make(host: str, repository: str, options: Options | None = None) -> Any:
        if host.startswith("127.1:"):
            options = msgspec.structs.replace(options or Options(), plain_http=True)
        return connect(host, repository, options)

    return make


def blob(data: bytes) -> Blob:
    return Blob(data, digests.of(data))


def test_an_upload_that_breaks_goes_on_where_it_stopped(
    scripted: Any, connect: Any, faults: Any, pauses: list[float]
) -> None:
    scripted.on("PATCH", "uploads", faults.reset_after(1_234_567))
    connect(scripted.host, "a/b").write_blob(blob(LARGE))
    assert scripted.blobs["a/b", blob(LARGE).digest] == LARGE
    ranges = [one.headers.get("content-range") for one in scripted.seen if one.method == "PATCH"]
    assert ranges == [None, f"1234567-{len(LARGE) - 1}"]
    assert len(pauses) == 1


def test_an_upload_starts_anew_where_the_registry_forgot_it(scripted: Any, connect: Any, faults: Any) -> None:
    scripted.on("PATCH", "uploads", faults.reset_after(1_000_000))
    scripted.on("GET", "uploads", faults.status(404))
    connect(scripted.host, "a/b").write_blob(blob(LARGE))
    assert scripted.blobs["a/b", blob(LARGE).digest] == LARGE
    assert scripted.count("POST", "uploads") == 2


def test_an_upload_starts_anew_where_resuming_is_refused(scripted: Any, connect: Any, faults: Any) -> None:
    scripted.on("PATCH", "uploads", faults.reset_after(1_000_000))
    scripted.on("PATCH", "uploads", faults.status(416))
    connect(scripted.host, "a/b").write_blob(blob(LARGE))
    assert scripted.blobs["a/b", blob(LARGE).digest] == LARGE


def test_bytes_that_are_sent_again_are_not_counted_again(scripted: Any, connect: Any, faults: Any) -> None:
    scripted.on("PATCH", "uploads", faults.reset_after(2_000_000))
    scripted.on("GET", "uploads", faults.status(404))
    counts: list[int] = []
    connect(scripted.host, "a/b").write_blob(blob(LARGE), progress=counts.append)
    assert sum(counts) == len(LARGE)


def test_an_upload_that_always_breaks_is_given_up(
    scripted: Any, connect: Any, faults: Any, pauses: list[float]
) -> None:
    scripted.on("PATCH", "uploads", faults.reset_after(10), times=100)
    with pytest.raises(Unavailable) as caught:
        connect(scripted.host, "a/b").write_blob(blob(LARGE))
    assert caught.value.reason == "RegistryBroke"
    assert len(pauses) == 4
    assert all(first < second for first, second in itertools.pairwise(pauses))


def test_a_blob_that_was_stored_though_the_answer_was_lost_is_not_sent_again(
    scripted: Any, connect: Any, faults: Any
) -> None:
    scripted.on("PUT", "uploads", faults.done_but(500))
    connect(scripted.host, "a/b").write_blob(blob(b"small"))
    assert scripted.count("POST", "uploads") == 1


def test_bytes_that_arrive_damaged_are_sent_again(scripted: Any, connect: Any, faults: Any) -> None:
    scripted.on("PUT", "uploads", faults.status(400, b'{"errors":[{"code":"DIGEST_INVALID"}]}'))
    connect(scripted.host, "a/b").write_blob(blob(b"small"))
    assert scripted.count("POST", "uploads") == 2


def test_too_many_requests_are_repeated_when_the_registry_says(
    scripted: Any, connect: Any, faults: Any, pauses: list[float]
) -> None:
    scripted.on("POST", "uploads", faults.status(429, Retry_After="7"))
    connect(scripted.host, "a/b").write_blob(blob(b"small"))
    assert len(pauses) == 1
    assert pauses[0] >= 7


def test_a_registry_that_wants_to_be_left_alone_for_long_is_left_alone(
    scripted: Any, connect: Any, faults: Any, pauses: list[float]
) -> None:
    scripted.on("HEAD", "blobs", faults.status(429, Retry_After="3600"), times=9)
    with pytest.raises(Unavailable) as caught:
        connect(scripted.host, "a/b").write_blob(blob(b"small"))
    assert (caught.value.after, caught.value.reason, pauses) == (3600, "RegistryBusy", [])


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        (401, Forbidden, "RegistryUnauthorized"),
        (403, Forbidden, "RegistryDenied"),
        (404, NotFound, "ImageNotFound"),
        (413, Invalid, "RegistryLimit"),
        (500, Unavailable, "RegistryUnavailable"),
        (507, Unavailable, "RegistryFull"),
    ],
)
def test_every_refusal_is_said_clearly(
    scripted: Any, connect: Any, faults: Any, status: int, error: type[ModelwrightError], reason: str
) -> None:
    scripted.on("POST", "uploads", faults.status(status), times=9)
    with pytest.raises(error) as caught:
        connect(scripted.host, "a/b").write_blob(blob(b"small"))
    assert caught.value.reason == reason
    assert scripted.host in caught.value.message


def test_a_full_disk_of_the_registry_is_recognised_by_its_message(scripted: Any, connect: Any, faults: Any) -> None:
    body = b'{"errors":[{"code":"UNKNOWN","message":"write /data: no space left on device"}]}'
    scripted.on("PUT", "uploads", faults.status(500, body), times=9)
    with pytest.raises(Unavailable) as caught:
        connect(scripted.host, "a/b").write_blob(blob(b"small"))
    assert caught.value.reason == "RegistryFull"
    assert "make room" in caught.value.message


def test_a_registry_that_is_too_slow_is_said_to_be(scripted: Any, connect: Any) -> None:
    import threading

    release = threading.Event()

    def stall(_handler: object) -> bool:
        release.wait(30)
        return False

    scripted.on("HEAD", "blobs", stall, times=9)
    options = Options(transfer_timeout=0.2, attempts=2)
    try:
        with pytest.raises(Unavailable) as caught:
            connect(scripted.host, "a/b", options).has_blob(blob(b"x").digest)
    finally:
        release.set()
    assert caught.value.reason == "RegistrySlow"


def test_a_registry_that_stops_taking_bytes_is_said_to_be_slow(scripted: Any, connect: Any) -> None:
    import threading

    release = threading.Event()

    def stall(handler: Any) -> bool:
        handler.body(1000)
        release.wait(30)
        handler.reset()
        return True

    scripted.on("PATCH", "uploads", stall, times=9)
    options = Options(transfer_timeout=0.3, attempts=2)
    try:
        with pytest.raises(Unavailable) as caught:
            connect(scripted.host, "a/b", options).write_blob(blob(bytes(50_000_000)))
    finally:
        release.set()
    assert caught.value.reason == "RegistrySlow"


@pytest.mark.parametrize("length", [0, 2_999_999])
def test_content_that_became_shorter_is_a_change(scripted: Any, connect: Any, length: int) -> None:
    class Shrunk(Blob, frozen=True):
        @property
        def size(self) -> int:
            return len(LARGE)

    with pytest.raises(Conflict) as caught:
        connect(scripted.host, "a/b").write_blob(Shrunk(LARGE[:length], blob(LARGE).digest))
    assert caught.value.reason == "StorageChanged"


def test_an_early_answer_to_an_upload_is_read(scripted: Any, connect: Any) -> None:
    def refuse(handler: Any) -> bool:
        handler.answer(403)
        handler.body()
        return True

    scripted.on("PATCH", "uploads", refuse, times=9)
    with pytest.raises(Forbidden) as caught:
        connect(scripted.host, "a/b").write_blob(blob(LARGE))
    assert caught.value.reason == "RegistryDenied"


def test_a_registry_that_stores_another_digest_is_not_believed(scripted: Any, connect: Any, faults: Any) -> None:
    other = blob(b"other").digest
    scripted.on("PUT", "uploads", faults.status(201, Docker_Content_Digest=other), times=9)
    with pytest.raises(Mismatch) as caught:
        connect(scripted.host, "a/b").write_blob(blob(b"small"))
    assert caught.value.reason == "DigestMismatch"


def test_a_registry_that_loses_what_it_took_is_not_believed(scripted: Any, connect: Any, faults: Any) -> None:
    scripted.on("PUT", "uploads", faults.status(201), times=9)
    with pytest.raises(Unavailable) as caught:
        connect(scripted.host, "a/b").write_blob(blob(b"small"))
    assert caught.value.reason == "BlobLost"


def test_a_manifest_that_was_stored_though_the_answer_was_500_counts(
    scripted: Any, connect: Any, faults: Any, model: Path
) -> None:
    scripted.on("PUT", "manifests/v1", faults.done_but(500))
    pushed = push_folder(model, connect(scripted.host, "a/b"), ("v1",))
    assert scripted.tags["a/b", "v1"] == pushed.digest


def test_no_tag_is_written_before_everything_else(scripted: Any, connect: Any, model: Path) -> None:
    push_folder(model, connect(scripted.host, "a/b"), ("v1",))
    written = [one.path for one in scripted.seen if one.method in {"PUT", "PATCH", "POST"}]
    assert written[-1] == "/v2/a/b/manifests/v1"
    assert [path for path in written if "/v1" in path] == written[-1:]


def test_a_failed_push_leaves_no_tag(scripted: Any, connect: Any, faults: Any, model: Path) -> None:
    scripted.on("PATCH", "uploads", faults.status(403), times=9)
    with pytest.raises(Forbidden):
        push_folder(model, connect(scripted.host, "a/b"), ("v1",))
    assert not scripted.tags
    assert not scripted.manifests
    assert not scripted.uploads


def test_a_tag_that_another_client_takes_in_between_is_not_overwritten(
    scripted: Any, connect: Any, model: Path
) -> None:
    other = manifest_of(media.INDEX, {"schemaVersion": 2, "mediaType": media.INDEX, "manifests": []})

    def overtake(_handler: object) -> bool:
        scripted.add_manifest("a/b", other.data, media.INDEX, "v1")
        return False

    scripted.on("PUT", "manifests/v1", overtake)
    with pytest.raises(AlreadyExists) as caught:
        push_folder(model, connect(scripted.host, "a/b"), ("v1",))
    assert caught.value.reason == "ImageTagTaken"
    assert scripted.tags["a/b", "v1"] == other.digest


def test_a_blob_that_lies_elsewhere_is_fetched_there_without_credentials(
    scripted: Any, foreign: Any, connect: Any, faults: Any, log_in: Any, password: str
) -> None:
    log_in(scripted.host)
    digest = foreign.add("a/b", b"the bytes")
    scripted.on("GET", "blobs/", faults.status(401, WWW_Authenticate='Basic realm="x"'))
    target = f"http://{foreign.host}/v2/a/b/blobs/{digest}"
    scripted.on("GET", "blobs/", faults.status(307, Location=target))
    with connect(scripted.host, "a/b").read_blob(Digest(digest)) as chunks:
        assert b"".join(chunks) == b"the bytes"
    assert scripted.seen[-1].headers["authorization"].startswith("Basic ")
    assert [one.headers.get("authorization") for one in foreign.seen] == [None]
    assert password not in str([one.headers for one in foreign.seen])


def test_redirects_end(scripted: Any, connect: Any, faults: Any) -> None:
    digest = blob(b"x").digest
    here = f"http://{scripted.host}/v2/a/b/blobs/{digest}"
    scripted.on("GET", "blobs/", faults.status(307, Location=here), times=99)
    with pytest.raises(Unavailable), connect(scripted.host, "a/b").read_blob(digest):
        pass
    assert scripted.count("GET", "blobs/") < 8


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://example.com/x", "https:///x"])
def test_a_redirect_to_something_else_than_http_is_not_followed(
    scripted: Any, connect: Any, faults: Any, target: str
) -> None:
    scripted.on("GET", "blobs/", faults.status(302, Location=target))
    with pytest.raises(Forbidden) as caught, connect(scripted.host, "a/b").read_blob(blob(b"x").digest):
        pass
    assert caught.value.reason == "RedirectRefused"


def test_manifests_and_uploads_follow_no_redirect(scripted: Any, foreign: Any, connect: Any, faults: Any) -> None:
    target = f"http://{foreign.host}/v2/a/b/manifests/v1"
    scripted.on("GET", "manifests", faults.status(307, Location=target), times=9)
    scripted.on("POST", "uploads", faults.status(307, Location=target), times=9)
    with pytest.raises(Invalid):
        connect(scripted.host, "a/b").read_manifest("v1")
    with pytest.raises(Invalid):
        connect(scripted.host, "a/b").write_blob(blob(b"x"))
    assert not foreign.seen


def test_content_is_uploaded_to_no_other_host(scripted: Any, foreign: Any, connect: Any, faults: Any) -> None:
    scripted.on(
        "POST", "uploads", faults.status(202, Location=f"http://{foreign.host}/v2/a/b/blobs/uploads/1"), times=9
    )
    with pytest.raises(Mismatch) as caught:
        connect(scripted.host, "a/b").write_blob(blob(b"x"))
    assert caught.value.reason == "UploadLocationRefused"
    assert not foreign.seen


def test_the_error_text_holds_no_credential_even_if_the_registry_echoes_it(
    scripted: Any, connect: Any, faults: Any, log_in: Any, password: str
) -> None:
    log_in(scripted.host)
    scripted.on("HEAD", "blobs", faults.status(401, WWW_Authenticate='Basic realm="x"'))
    echo = json.dumps({"errors": [{"code": "DENIED", "message": f"wrong {password}"}]}).encode()
    scripted.on("POST", "uploads", faults.status(403, echo), times=9)
    with pytest.raises(Forbidden) as caught:
        connect(scripted.host, "a/b").write_blob(blob(b"x"))
    assert "wrong ***" in caught.value.message
    assert password not in str(caught.value)
    assert password not in repr(caught.value)


def lie(scripted: Any, data: bytes, kind: str = media.MANIFEST, tag: str = "v1") -> None:
    scripted.add_manifest("a/b", data, kind, tag)


@pytest.mark.parametrize(
    ("content", "kind", "reason"),
    [
        ({"schemaVersion": 2, "manifests": [], "layers": []}, media.INDEX, "ManifestConfusing"),
        ({"schemaVersion": 2, "manifests": [], "config": {}}, media.INDEX, "ManifestConfusing"),
        ({"schemaVersion": 2, "mediaType": media.INDEX, "manifests": []}, media.MANIFEST, "ManifestConfusing"),
        ({"schemaVersion": 1, "fsLayers": [], "layers": []}, media.MANIFEST, "ManifestConfusing"),
        ({"schemaVersion": 2, "manifests": []}, media.MANIFEST, "ManifestUnknown"),
        ({"schemaVersion": 2, "manifests": []}, "text/html", "ManifestUnknown"),
        ({"schemaVersion": 2, "manifests": "x"}, media.INDEX, "ManifestUnknown"),
        ([], media.INDEX, "ManifestUnknown"),
    ],
)
def test_a_manifest_that_can_be_read_in_two_ways_is_refused(
    scripted: Any, connect: Any, content: object, kind: str, reason: str
) -> None:
    lie(scripted, json.dumps(content).encode(), kind)
    with pytest.raises(Rejected) as caught:
        connect(scripted.host, "a/b").read_manifest("v1")
    assert caught.value.reason == reason


@pytest.mark.parametrize("digest", ["sha256:../../etc/passwd", "md5:d41d8cd98f00b204e9800998ecf8427e", ""])
def test_a_manifest_that_points_to_no_digest_is_refused(scripted: Any, connect: Any, digest: str) -> None:
    content = {"schemaVersion": 2, "manifests": [{"mediaType": media.MANIFEST, "digest": digest, "size": 1}]}
    lie(scripted, json.dumps(content).encode(), media.INDEX)
    with pytest.raises(Mismatch):
        connect(scripted.host, "a/b").read_manifest("v1")


def test_other_bytes_than_the_digest_asked_for_are_refused(scripted: Any, connect: Any) -> None:
    digest = blob(b"what was asked for").digest
    scripted.manifests["a/b", digest] = (media.INDEX, b'{"schemaVersion":2,"manifests":[]}')
    with pytest.raises(Mismatch) as caught:
        connect(scripted.host, "a/b").read_manifest(digest)
    assert caught.value.reason == "DigestMismatch"


def test_a_digest_in_the_header_that_is_not_that_of_the_bytes_is_refused(
    scripted: Any, connect: Any, faults: Any
) -> None:
    body = b'{"schemaVersion":2,"manifests":[]}'
    told = blob(b"x").digest
    scripted.on("GET", "manifests", faults.status(200, body, Content_Type=media.INDEX, Docker_Content_Digest=told))
    with pytest.raises(Mismatch):
        connect(scripted.host, "a/b").read_manifest("v1")


def test_a_manifest_over_4_mib_is_not_read(scripted: Any, connect: Any) -> None:
    lie(scripted, b"[" + b" " * (media.MAX_MANIFEST_BYTES + 1) + b"]", media.INDEX)
    with pytest.raises(Mismatch) as caught:
        connect(scripted.host, "a/b").read_manifest("v1")
    assert caught.value.reason == "ManifestTooLarge"


def test_a_range_that_was_not_asked_for_is_refused(scripted: Any, connect: Any, faults: Any) -> None:
    scripted.on("GET", "blobs", faults.status(206, b"x", Content_Range="bytes 0-0/9"))
    with pytest.raises(Mismatch), connect(scripted.host, "a/b").read_blob(blob(b"x").digest, 5):
        pass


def test_a_server_that_ignores_ranges_is_understood(scripted: Any, connect: Any, faults: Any) -> None:
    scripted.on("GET", "blobs", faults.status(200, b"0123456789"))
    with connect(scripted.host, "a/b").read_blob(blob(b"x").digest, 4) as chunks:
        assert b"".join(chunks) == b"456789"


def test_a_missing_blob_is_not_found(scripted: Any, connect: Any) -> None:
    images = connect(scripted.host, "a/b")
    assert not images.has_blob(blob(b"x").digest)
    with pytest.raises(NotFound), images.read_blob(blob(b"x").digest):
        pass


def test_tags_are_read_page_by_page(scripted: Any, connect: Any, faults: Any) -> None:
    pages = [({"tags": ["v2"]}, '</v2/a/b/tags/list?last=v2&n=1>; rel="next"'), ({"tags": ["v1"]}, "")]
    for content, link in pages:
        scripted.on("GET", "tags/list", faults.status(200, json.dumps(content).encode(), Link=link))
    assert connect(scripted.host, "a/b").tags() == ["v1", "v2"]
    assert "last=v2" in scripted.seen[-1].path


def test_an_answer_that_breaks_off_is_asked_for_again(scripted: Any, connect: Any, pauses: list[float]) -> None:
    def break_off(handler: Any) -> bool:
        handler.answer(200, b'{"tags":["v1', Content_Length="40")
        handler.close_connection = True
        return True

    scripted.tags["a/b", "v1"] = scripted.tags["a/b", "v2"] = "sha256:" + 64 * "0"
    scripted.on("GET", "tags", break_off)
    assert connect(scripted.host, "a/b").tags() == ["v1", "v2"]
    assert len(pauses) == 1


def test_a_connection_that_the_registry_closed_meanwhile_does_no_harm(scripted: Any, connect: Any) -> None:
    def close(handler: Any) -> bool:
        handler.answer(404)
        handler.close_connection = True
        return True

    digest = Digest(scripted.add("a/b", b"the bytes"))
    scripted.on("HEAD", "blobs/", close)
    images = connect(scripted.host, "a/b")
    assert [images.has_blob(digest), images.has_blob(digest)] == [False, True]


def test_a_login_may_be_asked_for_in_several_headers(scripted: Any, connect: Any, log_in: Any) -> None:
    def refuse(handler: Any) -> bool:
        handler.send_response(401)
        for header, value in [("WWW-Authenticate", "Other"), ("WWW-Authenticate", 'Basic realm="x"')]:
            handler.send_header(header, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True

    log_in(scripted.host)
    scripted.on("HEAD", "blobs/", refuse)
    assert connect(scripted.host, "a/b").has_blob(Digest(scripted.add("a/b", b"the bytes")))
    assert scripted.seen[-1].headers["authorization"].startswith("Basic ")


@pytest.mark.parametrize("host", ["127.0.0.1:1", "127.1:1"])
def test_a_registry_that_is_not_there_is_said_to_be_out_of_reach(connect: Any, host: str) -> None:
    with pytest.raises(Unavailable) as caught:
        connect(host, "a/b").tags()
    assert caught.value.reason == "RegistryUnreachable"


def test_a_page_on_another_host_is_not_asked_for(scripted: Any, foreign: Any, connect: Any, faults: Any) -> None:
    link = f'<http://{foreign.host}/v2/a/b/tags/list>; rel="next"'
    scripted.on("GET", "tags/list", faults.status(200, b'{"tags":["v1"]}', Link=link))
    with pytest.raises(Mismatch):
        connect(scripted.host, "a/b").tags()
    assert not foreign.seen


def referrer(subject: str, note: str) -> Any:
    return manifest_of(
        media.MANIFEST,
        {
            "schemaVersion": 2,
            "mediaType": media.MANIFEST,
            "artifactType": "application/vnd.modelwright.lineage.v1+json",
            "config": {"mediaType": media.EMPTY, "digest": digests.of(b"{}"), "size": 2},
            "layers": [],
            "subject": {"mediaType": media.INDEX, "digest": subject, "size": 3},
            "annotations": {"note": note},
        },
    )


def test_referrers_are_listed_by_a_tag_where_the_registry_cannot(docker_registry: Any, connect: Any) -> None:
    images = connect(docker_registry.host, "referrers/model")
    images.write_blob(blob(b"{}"))
    subject = digests.of(b"subject")
    for note in ("one", "two", "one"):
        images.write_manifest(referrer(subject, note))
    found = images.referrers(subject)
    assert sorted(one.annotations["note"] for one in found) == ["one", "two"]
    assert {one.artifact_type for one in found} == {"application/vnd.modelwright.lineage.v1+json"}
    assert images.tags() == [subject.replace(":", "-")]


def test_referrers_of_the_api_and_of_the_tag_are_both_read(scripted: Any, connect: Any, faults: Any) -> None:
    subject = digests.of(b"subject")
    images = connect(scripted.host, "a/b")
    images.write_manifest(referrer(subject, "tag"))
    scripted.has_referrers = True
    listed = {"schemaVersion": 2, "manifests": [{"mediaType": media.MANIFEST, "digest": digests.of(b"r"), "size": 1}]}
    answer = faults.status(200, json.dumps(listed).encode(), Content_Type=media.INDEX)
    scripted.on("GET", "referrers", answer)
    assert {one.digest for one in images.referrers(subject)} == {digests.of(b"r"), referrer(subject, "tag").digest}


def test_a_manifest_that_refers_needs_no_tag_where_the_registry_keeps_track(
    scripted: Any, connect: Any, faults: Any
) -> None:
    manifest = referrer(digests.of(b"subject"), "api")

    def keep(handler: Any) -> bool:
        handler.server.registry.add_manifest("a/b", handler.body(), media.MANIFEST)
        handler.answer(201, OCI_Subject=digests.of(b"subject"), Docker_Content_Digest=manifest.digest)
        return True

    scripted.on("PUT", "manifests", keep)
    connect(scripted.host, "a/b").write_manifest(manifest)
    assert not scripted.tags


def test_plain_http_is_for_this_machine_or_when_asked_for() -> None:
    from modelwright.oci.session import Session

    with Session("registry.example.com") as session:
        assert session.base == "https://registry.example.com"
    with Session("registry.example.com", Options(plain_http=True)) as session:
        assert session.base == "http://registry.example.com"


def test_a_ca_file_that_is_none_is_refused(connect: Any, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("not a certificate")
    with pytest.raises(Forbidden) as caught:
        connect("127.0.0.1:1", "a/b", Options(ca_file=tmp_path / "ca.crt"))
    assert caught.value.reason == "CAFileInvalid"


def test_a_model_survives_a_registry_that_fails_now_and_then(
    scripted: Any, connect: Any, faults: Any, model: Path
) -> None:
    for method in ("HEAD", "POST", "PATCH", "PUT", "GET"):
        scripted.on(method, "/v2/a/b/", faults.status(503))
        scripted.on(method, "/v2/a/b/", faults.done_but(502))
    pushed = push_folder(model, connect(scripted.host, "a/b"), ("v1",))
    assert pushed.digest == image.build(model).digest
    assert scripted.tags["a/b", "v1"] == pushed.digest
