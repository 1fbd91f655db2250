"""The MUSTs of distribution-spec 1.1, asked one by one over a real socket."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import socket
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def descriptor(data: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest_of(data), "size": len(data)}


def manifest(layer: bytes = b"layer", **extra: Any) -> bytes:
    content = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(b"{}", CONFIG),
        "layers": [descriptor(layer, LAYER)],
    }
    return json.dumps(content | extra).encode()


def push_blob(registry: Any, data: bytes, name: str = "a/b") -> None:
    answer = registry.http.post(f"{name}/blobs/uploads/", params={"digest": digest_of(data)}, content=data)
    assert answer.status_code == 201, answer.text


def push_manifest(registry: Any, data: bytes, reference: str, name: str = "a/b", kind: str = MANIFEST) -> Any:
    headers = {"Content-Type": kind}
    return registry.http.put(f"{name}/manifests/{reference}", content=data, headers=headers)


@pytest.fixture
def pushed(registry: Any) -> bytes:
    """A manifest under the tag v1 of a/b."""
    push_blob(registry, b"{}")
    push_blob(registry, b"layer")
    data = manifest()
    assert push_manifest(registry, data, "v1").status_code == 201
    return data


def code(answer: Any) -> str:
    assert answer.headers["content-type"] == "application/json"
    (error,) = answer.json()["errors"]
    assert error["message"]
    return str(error["code"])


# The root and logins (tokens: test_registry_tokens.py)


def test_the_root_answers_those_who_log_in_and_challenges_the_others(registry: Any) -> None:
    assert registry.http.get("").status_code == 200
    answer = registry.http.get("", auth=("me", "wrong"))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == f'Bearer realm="http://{registry.host}/v2/token",service="modelwright"'
    assert code(answer) == "UNAUTHORIZED"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "a/b/blobs/uploads/"),
        ("PATCH", "a/b/blobs/uploads/0"),
        ("PUT", "a/b/blobs/uploads/0"),
        ("GET", "a/b/blobs/uploads/0"),
        ("DELETE", "a/b/blobs/uploads/0"),
        ("PUT", "a/b/manifests/v1"),
        ("DELETE", "a/b/manifests/v1"),
        ("DELETE", f"a/b/blobs/{digest_of(b'')}"),
    ],
)
@pytest.mark.parametrize(
    "header", [None, "Basic bWU6d3Jvbmc=", "Basic !!", "Basic bWU=", "Bearer x", "Basic", "Basic  Og=="]
)
def test_every_writing_request_needs_a_login(registry: Any, method: str, path: str, header: str | None) -> None:
    with registry.stranger() as client:
        headers = {} if header is None else {"Authorization": header}
        answer = client.request(method, path, headers=headers)
    assert answer.status_code == 401
    scope = "repository:a/b:pull," + ("delete" if method == "DELETE" and "uploads" not in path else "push")
    assert f'service="modelwright",scope="{scope}"' in answer.headers["www-authenticate"]
    assert ('error="invalid_token"' in answer.headers["www-authenticate"]) == (header == "Bearer x")


def test_reading_needs_no_login(registry: Any, pushed: bytes) -> None:
    with registry.stranger() as client:
        for path in ("a/b/manifests/v1", f"a/b/blobs/{digest_of(b'layer')}", "a/b/tags/list", "_catalog"):
            assert client.get(path).status_code == 200
            assert client.get(path, headers={"Authorization": "Basic Og=="}).status_code == 200


# Blobs


def test_a_blob_goes_in_by_post_and_put(registry: Any) -> None:
    start = registry.http.post("a/b/blobs/uploads/")
    assert start.status_code == 202
    data = os.urandom(3 << 20)
    done = registry.http.put(start.headers["location"], params={"digest": digest_of(data)}, content=data)
    assert done.status_code == 201
    assert done.headers["docker-content-digest"] == digest_of(data)
    answer = registry.http.get(done.headers["location"])
    assert answer.content == data
    assert answer.headers["docker-content-digest"] == digest_of(data)


def test_a_blob_goes_in_by_a_single_post(registry: Any) -> None:
    push_blob(registry, b"whole")
    head = registry.http.head(f"a/b/blobs/{digest_of(b'whole')}")
    assert (head.status_code, head.headers["content-length"]) == (200, "5")


def test_a_blob_goes_in_by_chunks_and_may_be_asked_for_in_between(registry: Any) -> None:
    parts = [os.urandom(2 << 20), os.urandom(100), os.urandom(1 << 20)]
    url = registry.http.post("a/b/blobs/uploads/", content=b"").headers["location"]
    at = 0
    for part in parts[:2]:
        headers = {"Content-Range": f"{at}-{at + len(part) - 1}", "Content-Type": "application/octet-stream"}
        answer = registry.http.patch(url, content=part, headers=headers)
        at += len(part)
        assert (answer.status_code, answer.headers["range"]) == (202, f"0-{at - 1}")
        url = answer.headers["location"]
        state = registry.http.get(url)
        assert (state.status_code, state.headers["range"]) == (204, f"0-{at - 1}")
    digest = digest_of(b"".join(parts))
    headers = {"Content-Range": f"{at}-{at + len(parts[2]) - 1}"}
    assert registry.http.put(url, params={"digest": digest}, content=parts[2], headers=headers).status_code == 201
    assert registry.http.get(f"a/b/blobs/{digest}").content == b"".join(parts)
    assert registry.http.get(url).status_code == 404


def test_a_chunk_out_of_order_is_refused_with_the_place_to_go_on(registry: Any) -> None:
    url = registry.http.post("a/b/blobs/uploads/").headers["location"]
    registry.http.patch(url, content=b"12345", headers={"Content-Range": "0-4"})
    for wrong in ("0-4", "6-9", "4-8", "5-100", "nonsense"):
        answer = registry.http.patch(url, content=b"12345", headers={"Content-Range": wrong})
        assert (answer.status_code, answer.headers["range"]) == (416, "0-4")
    assert registry.http.put(url, params={"digest": digest_of(b"12345")}).status_code == 201


def test_an_upload_outlives_a_broken_connection_and_another_process(registry: Any) -> None:
    data = os.urandom(3 << 20)
    path = httpx2.URL(registry.http.post("a/b/blobs/uploads/").headers["location"]).path
    head = (
        f"PATCH {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic bWU6czNjcmV0LXRva2Vu\r\nContent-Length: {len(data)}"
    )
    with socket.create_connection(("127.0.0.1", registry.port)) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n" + data[: 2 << 20])
    for _ in range(200):
        state = registry.http.get(path)
        at = int(state.headers["range"].partition("-")[2]) + 1
        if at == 2 << 20:
            break
    answer = registry.http.put(path, params={"digest": digest_of(data)}, content=data[at:])
    assert answer.status_code == 201
    assert registry.http.get(f"a/b/blobs/{digest_of(data)}").content == data


def test_a_wrong_digest_is_refused_and_nothing_is_kept(registry: Any) -> None:
    url = registry.http.post("a/b/blobs/uploads/").headers["location"]
    answer = registry.http.put(url, params={"digest": digest_of(b"other")}, content=b"data")
    assert (answer.status_code, code(answer)) == (400, "DIGEST_INVALID")
    answer = registry.http.post("a/b/blobs/uploads/", params={"digest": digest_of(b"other")}, content=b"data")
    assert (answer.status_code, code(answer)) == (400, "DIGEST_INVALID")
    for digest in ("", "sha256:abc", "md5:d41d8cd98f00b204e9800998ecf8427e", "sha256:" + "Z" * 64, "../../x"):
        answer = registry.http.post("a/b/blobs/uploads/", params={"digest": digest}, content=b"data")
        assert (answer.status_code, code(answer)) == (400, "DIGEST_INVALID")
    assert list((registry.storage.root / "staging").iterdir()) == []
    assert list((registry.storage.root / "blobs").iterdir()) == []


def test_a_cancelled_upload_is_gone(registry: Any) -> None:
    url = registry.http.post("a/b/blobs/uploads/").headers["location"]
    registry.http.patch(url, content=b"x")
    assert registry.http.delete(url).status_code == 204
    for answer in (registry.http.get(url), registry.http.patch(url, content=b"x"), registry.http.delete(url)):
        assert (answer.status_code, code(answer)) == (404, "BLOB_UPLOAD_UNKNOWN")
    assert list((registry.storage.root / "staging").iterdir()) == []


@pytest.mark.parametrize("name", ["0", "../../../etc/passwd", "%2e%2e", "0" * 32, "A" * 32])
def test_an_upload_that_never_was_is_unknown(registry: Any, name: str) -> None:
    assert registry.http.patch(f"a/b/blobs/uploads/{name}", content=b"x").status_code in (400, 404)


def test_a_blob_is_mounted_from_another_repository_or_else_uploaded(registry: Any) -> None:
    push_blob(registry, b"shared", "one/repo")
    digest = digest_of(b"shared")
    answer = registry.http.post("two/repo/blobs/uploads/", params={"mount": digest, "from": "one/repo"})
    assert (answer.status_code, answer.headers["docker-content-digest"]) == (201, digest)
    assert registry.http.get(f"two/repo/blobs/{digest}").content == b"shared"
    for query in (
        {"mount": digest, "from": "three/repo"},
        {"mount": digest_of(b"none"), "from": "one/repo"},
        {"mount": "nonsense", "from": "one/repo"},
        {"mount": digest, "from": "../x"},
    ):
        answer = registry.http.post("four/repo/blobs/uploads/", params=query)
        assert answer.status_code == 202
        registry.http.delete(answer.headers["location"])
    assert registry.http.post("five/blobs/uploads/", params={"mount": digest}).status_code == 201
    assert registry.http.head(f"four/repo/blobs/{digest}").status_code == 404


@pytest.mark.parametrize(
    ("asked", "status", "first", "end"),
    [
        ("bytes=0-0", 206, 0, 1),
        ("bytes=3-5", 206, 3, 6),
        ("bytes=9-", 206, 9, 10),
        ("bytes=0-100", 206, 0, 10),
        ("bytes=-3", 206, 7, 10),
        ("bytes=-100", 206, 0, 10),
        ("bytes=5-4", 200, 0, 10),
        ("bytes=0-1,3-4", 200, 0, 10),
        ("bytes=-", 200, 0, 10),
        ("lines=1-2", 200, 0, 10),
        ("bytes=10-", 416, 0, 0),
        ("bytes=100-200", 416, 0, 0),
        ("bytes=-0", 416, 0, 0),
    ],
)
def test_ranges_of_blobs(registry: Any, asked: str, status: int, first: int, end: int) -> None:
    data = b"0123456789"
    push_blob(registry, data)
    answer = registry.http.get(f"a/b/blobs/{digest_of(data)}", headers={"Range": asked})
    assert answer.status_code == status
    if status == 416:
        assert answer.headers["content-range"] == "bytes */10"
        return
    assert answer.content == data[first:end]
    assert answer.headers["content-length"] == str(end - first)
    if status == 206:
        assert answer.headers["content-range"] == f"bytes {first}-{end - 1}/10"


def test_an_empty_blob_is_a_blob(registry: Any) -> None:
    push_blob(registry, b"")
    answer = registry.http.get(f"a/b/blobs/{digest_of(b'')}")
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_missing_blob_is_unknown(registry: Any, pushed: bytes) -> None:
    answer = registry.http.get(f"a/b/blobs/{digest_of(b'none')}")
    assert (answer.status_code, code(answer)) == (404, "BLOB_UNKNOWN")
    assert registry.http.head(f"a/b/blobs/{digest_of(b'none')}").status_code == 404
    assert registry.http.get(f"other/blobs/{digest_of(b'layer')}").status_code == 404
    assert registry.http.delete(f"a/b/blobs/{digest_of(b'none')}").status_code == 404


def test_a_blob_is_deleted_only_when_no_manifest_needs_it(registry: Any, pushed: bytes) -> None:
    digest = digest_of(b"layer")
    assert registry.http.delete(f"a/b/blobs/{digest}").status_code == 405
    assert registry.http.delete(f"a/b/manifests/{digest_of(pushed)}").status_code == 202
    assert registry.http.delete(f"a/b/blobs/{digest}").status_code == 202
    assert registry.http.get(f"a/b/blobs/{digest}").status_code == 404


def test_a_blob_over_the_limit_is_refused_and_removed(start_registry: Any, tmp_path: Path) -> None:
    with start_registry(tmp_path / "small", max_blob_bytes=1000) as registry:
        push_blob(registry, b"x" * 1000)
        url = registry.http.post("a/b/blobs/uploads/").headers["location"]
        registry.http.patch(url, content=b"x" * 600)
        answer = registry.http.patch(url, content=b"x" * 600)
        assert (answer.status_code, code(answer)) == (413, "SIZE_INVALID")
        assert list((registry.storage.root / "staging").iterdir()) == []


def test_a_full_disk_is_said_with_an_error_body_and_leaves_nothing(registry: Any) -> None:
    url = registry.http.post("a/b/blobs/uploads/").headers["location"]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, hard))
    try:
        answer = registry.http.patch(url, content=b"x" * 3_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (answer.status_code, code(answer)) == (507, "INSUFFICIENT_STORAGE")
    assert list((registry.storage.root / "staging").iterdir()) == []
    push_blob(registry, b"x" * 3_000_000)


def test_two_requests_for_one_upload_do_not_mix(registry: Any) -> None:
    url = registry.http.post("a/b/blobs/uploads/").headers["location"]
    halves = [b"a" * (2 << 20), b"b" * (2 << 20)]
    statuses: list[int] = []

    def send(data: bytes) -> None:
        with registry.stranger() as client:
            statuses.append(client.patch(url, content=data, auth=("me", registry.token)).status_code)

    threads = [threading.Thread(target=send, args=(half,)) for half in halves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [202, 202]
    answers = [
        registry.http.put(url, params={"digest": digest_of(b"".join(order))}) for order in (halves, halves[::-1])
    ]
    assert 201 in [answer.status_code for answer in answers] or registry.http.get(url).status_code == 404


# Manifests


def test_a_manifest_comes_back_byte_for_byte(registry: Any, pushed: bytes) -> None:
    for reference in ("v1", digest_of(pushed)):
        answer = registry.http.get(f"a/b/manifests/{reference}")
        assert answer.content == pushed
        assert answer.headers["content-type"] == MANIFEST
        assert answer.headers["docker-content-digest"] == digest_of(pushed)
        head = registry.http.head(f"a/b/manifests/{reference}")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(pushed))
        same = registry.http.get(f"a/b/manifests/{reference}", headers={"If-None-Match": answer.headers["etag"]})
        assert same.status_code == 304


def test_the_answer_to_a_push_says_where_and_what(registry: Any, pushed: bytes) -> None:
    answer = push_manifest(registry, pushed, digest_of(pushed))
    assert answer.status_code == 201
    assert answer.headers["docker-content-digest"] == digest_of(pushed)
    assert registry.http.get(answer.headers["location"]).content == pushed
    assert "oci-subject" not in answer.headers


@pytest.mark.parametrize("reference", ["none", digest_of(b"none"), "sha256:abc", ".hidden", "a" * 129, "%2e%2e"])
def test_a_missing_manifest_is_unknown(registry: Any, pushed: bytes, reference: str) -> None:
    answer = registry.http.get(f"a/b/manifests/{reference}")
    assert answer.status_code == 404
    assert registry.http.head(f"a/b/manifests/{reference}").status_code == 404


def bad_manifests() -> dict[str, tuple[bytes, str, str]]:
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": []}
    return {
        "no JSON": (b"hello", MANIFEST, "MANIFEST_INVALID"),
        "a list": (b"[]", MANIFEST, "MANIFEST_INVALID"),
        "empty": (b"", MANIFEST, "MANIFEST_INVALID"),
        "deep": (b"[" * 100_000, MANIFEST, "MANIFEST_INVALID"),
        "another type": (manifest(), INDEX, "MANIFEST_INVALID"),
        "no type": (manifest(), "", "MANIFEST_INVALID"),
        "unknown type": (manifest(), "text/html", "MANIFEST_INVALID"),
        "image and index": (manifest(manifests=[]), MANIFEST, "MANIFEST_INVALID"),
        "a key twice": (manifest()[:-1] + b', "layers": []}', MANIFEST, "MANIFEST_INVALID"),
        "missing blob": (manifest(b"missing"), MANIFEST, "MANIFEST_BLOB_UNKNOWN"),
        "wrong size": (manifest().replace(b'"size": 5', b'"size": 6'), MANIFEST, "SIZE_INVALID"),
        "bad digest": (manifest().replace(b"sha256:", b"sha25:"), MANIFEST, "DIGEST_INVALID"),
        "digest leads out": (manifest().replace(b"sha256:", b"../../"), MANIFEST, "DIGEST_INVALID"),
        "missing child": (
            json.dumps(index | {"manifests": [descriptor(b"missing", MANIFEST)]}).encode(),
            INDEX,
            "MANIFEST_UNKNOWN",
        ),
    }


@pytest.mark.parametrize("title", bad_manifests())
def test_a_bad_manifest_is_refused_with_the_right_code(registry: Any, pushed: bytes, title: str) -> None:
    data, kind, expected = bad_manifests()[title]
    answer = push_manifest(registry, data, "bad", kind=kind)
    assert answer.status_code in (400, 404)
    assert code(answer) == expected
    assert registry.http.get("a/b/tags/list").json()["tags"] == ["v1"]


def test_a_manifest_over_four_mebibytes_is_refused(registry: Any, pushed: bytes) -> None:
    assert push_manifest(registry, manifest(annotations={"x": "y" * (4 << 20)}), "big").status_code == 413
    assert push_manifest(registry, manifest(annotations={"x": "y" * (3 << 20)}), "big").status_code == 201


def test_a_manifest_under_another_digest_is_refused(registry: Any, pushed: bytes) -> None:
    answer = push_manifest(registry, pushed, digest_of(b"other"))
    assert (answer.status_code, code(answer)) == (400, "DIGEST_INVALID")


def test_an_index_needs_its_children_and_they_need_it(registry: Any, pushed: bytes) -> None:
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor(pushed, MANIFEST)]}
    data = json.dumps(index).encode()
    assert push_manifest(registry, data, "all", kind=INDEX).status_code == 201
    assert registry.http.get("a/b/manifests/all").headers["content-type"] == INDEX
    assert registry.http.delete(f"a/b/manifests/{digest_of(pushed)}").status_code == 405
    assert registry.http.delete(f"a/b/manifests/{digest_of(data)}").status_code == 202
    assert registry.http.delete(f"a/b/manifests/{digest_of(pushed)}").status_code == 202


def test_a_manifest_without_media_type_is_known_by_its_shape(registry: Any, pushed: bytes) -> None:
    content = json.loads(pushed)
    del content["mediaType"]
    data = json.dumps(content).encode()
    assert push_manifest(registry, data, "plain").status_code == 201
    assert registry.http.get("a/b/manifests/plain").headers["content-type"] == MANIFEST


def test_a_tag_moves_unless_the_client_forbids_it(registry: Any, pushed: bytes) -> None:
    other = manifest(annotations={"a": "b"})
    keep = {"Content-Type": MANIFEST, "If-None-Match": "*"}
    assert registry.http.put("a/b/manifests/v1", content=pushed, headers=keep).status_code == 201
    answer = registry.http.put("a/b/manifests/v1", content=other, headers=keep)
    assert answer.status_code == 412
    assert registry.http.get("a/b/manifests/v1").content == pushed
    assert push_manifest(registry, other, "v1").status_code == 201
    assert registry.http.get("a/b/manifests/v1").content == other
    assert list((registry.storage.root / "staging").iterdir()) == []


def test_tags_and_manifests_are_deleted(registry: Any, pushed: bytes) -> None:
    push_manifest(registry, pushed, "v2")
    assert registry.http.delete("a/b/manifests/v2").status_code == 202
    assert registry.http.delete("a/b/manifests/v2").status_code == 404
    assert registry.http.get("a/b/manifests/v1").status_code == 200
    assert registry.http.delete(f"a/b/manifests/{digest_of(pushed)}").status_code == 202
    for answer in (registry.http.get("a/b/manifests/v1"), registry.http.get(f"a/b/manifests/{digest_of(pushed)}")):
        assert (answer.status_code, code(answer)) == (404, "MANIFEST_UNKNOWN")
    assert registry.http.delete(f"a/b/manifests/{digest_of(pushed)}").status_code == 404


# Referrers, lists


def test_referrers_are_listed_and_filtered(registry: Any, pushed: bytes) -> None:
    empty = registry.http.get(f"a/b/referrers/{digest_of(pushed)}")
    assert (empty.status_code, empty.headers["content-type"], empty.json()["manifests"]) == (200, INDEX, [])
    subject = descriptor(pushed, MANIFEST)
    one = manifest(subject=subject, artifactType="application/x.one", annotations={"k": "v"})
    two = manifest(subject=subject)
    for data in (one, two):
        answer = push_manifest(registry, data, digest_of(data))
        assert (answer.status_code, answer.headers["oci-subject"]) == (201, subject["digest"])
    found = registry.http.get(f"a/b/referrers/{subject['digest']}").json()["manifests"]
    assert {entry["digest"] for entry in found} == {digest_of(one), digest_of(two)}
    filtered = registry.http.get(f"a/b/referrers/{subject['digest']}", params={"artifactType": "application/x.one"})
    assert filtered.headers["oci-filters-applied"] == "artifactType"
    (entry,) = filtered.json()["manifests"]
    assert entry == descriptor(one, MANIFEST) | {"artifactType": "application/x.one", "annotations": {"k": "v"}}
    (entry,) = registry.http.get(f"a/b/referrers/{subject['digest']}", params={"artifactType": CONFIG}).json()[
        "manifests"
    ]
    assert entry["digest"] == digest_of(two)
    registry.http.delete(f"a/b/manifests/{digest_of(one)}")
    assert len(registry.http.get(f"a/b/referrers/{subject['digest']}").json()["manifests"]) == 1
    assert registry.http.get("a/b/referrers/nonsense").status_code == 400


def test_a_subject_may_come_later(registry: Any, pushed: bytes) -> None:
    subject = descriptor(b"not there", MANIFEST)
    data = manifest(subject=subject)
    assert push_manifest(registry, data, digest_of(data)).headers["oci-subject"] == subject["digest"]
    assert len(registry.http.get(f"a/b/referrers/{subject['digest']}").json()["manifests"]) == 1


def test_tags_come_in_pages(registry: Any, pushed: bytes) -> None:
    for tag in ("v3", "V2", "v10", "a"):
        push_manifest(registry, pushed, tag)
    assert registry.http.get("a/b/tags/list").json() == {"name": "a/b", "tags": ["V2", "a", "v1", "v10", "v3"]}
    seen: list[str] = []
    url: Any = httpx2.URL("a/b/tags/list", params={"n": 2})
    for _ in range(3):
        answer = registry.http.get(url)
        seen += answer.json()["tags"]
        url = answer.headers.get("link", "").partition(">")[0].lstrip("<")
    assert url == ""
    assert seen == ["V2", "a", "v1", "v10", "v3"]
    assert registry.http.get("a/b/tags/list?n=0").json()["tags"] == []
    assert registry.http.get("a/b/tags/list?last=v1").json()["tags"] == ["v10", "v3"]
    assert registry.http.get("a/b/tags/list?n=x").status_code == 400
    answer = registry.http.get("none/tags/list")
    assert (answer.status_code, code(answer)) == (404, "NAME_UNKNOWN")


def test_repositories_come_in_pages(registry: Any, pushed: bytes) -> None:
    for name in ("a", "z/deep/er", "b-c"):
        push_blob(registry, b"{}", name)
        push_blob(registry, b"layer", name)
        push_manifest(registry, pushed, "v1", name)
    push_blob(registry, b"only a blob", "no/manifest")
    assert registry.http.get("_catalog").json() == {"repositories": ["a", "a/b", "b-c", "z/deep/er"]}
    answer = registry.http.get("_catalog?n=3")
    assert answer.json()["repositories"] == ["a", "a/b", "b-c"]
    url = answer.headers["link"].partition(">")[0].lstrip("<")
    assert registry.http.get(url).json() == {"repositories": ["z/deep/er"]}


# Names


@pytest.mark.parametrize(
    "name",
    [
        "A", "a//b", "a/../b", "../a", "a/..", ".", "..", "-a", "a-", "a__", "_a", "a/_blobs", "a/_manifests", "a b",
        "a%00", "a%2f..%2fb", "%2e%2e%2fa", "a\\b", "ä", "a" * 256, "a/" * 130 + "a", "a:b", "a@b",
        "a/blobs/uploads/%2e%2e",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["blobs/uploads/", "manifests/v1", "tags/list"])
def test_a_name_outside_of_the_grammar_is_refused_and_never_touches_the_disk(
    registry: Any, tmp_path: Path, name: str, path: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    method = "POST" if path.startswith("blobs") else "PUT" if path.startswith("manifests") else "GET"
    target = f"/v2/{name}/{path}".encode()
    answer = raw_request(registry, method, target)
    assert answer.split()[1] in {b"400", b"404"}
    assert sorted(tmp_path.rglob("*")) == before


def raw_request(registry: Any, method: str, target: bytes) -> bytes:
    login = b"Authorization: Basic bWU6czNjcmV0LXRva2Vu\r\n"
    head = method.encode() + b" " + target.replace(b" ", b"%20") + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    body = b"Content-Type: application/json\r\nContent-Length: 0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", registry.port)) as connection:
        connection.sendall(head + login + body)
        return connection.recv(4096)


@pytest.mark.parametrize("tag", [".hidden", "-x", "a" * 129, "a b", "ü", "a%2fb", "%2e%2e"])
def test_a_tag_outside_of_the_grammar_is_refused(registry: Any, pushed: bytes, tag: str) -> None:
    answer = push_manifest(registry, pushed, tag)
    assert answer.status_code in (400, 404)
    assert registry.http.get("a/b/tags/list").json()["tags"] == ["v1"]


def test_other_methods_and_addresses_are_refused(registry: Any) -> None:
    answer = registry.http.post("a/b/manifests/v1")
    assert (answer.status_code, code(answer)) == (405, "UNSUPPORTED")
    assert registry.http.get("nothing").status_code == 404
    assert registry.http.get("").headers["docker-distribution-api-version"] == "registry/2.0"
