"""Fetching: redirects, TLS, credentials, archives, files of this machine."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import ssl
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from modelwright.agent.fetch import fetch
from modelwright.agent.policy import Policy
from modelwright.ports.errors import (
    AlreadyExists,
    Forbidden,
    Invalid,
    Mismatch,
    ModelwrightError,
    NotFound,
    Rejected,
    Unavailable,
)

FAST = Policy(first_pause=0.001, longest_pause=0.002, stall_timeout=5, attempts=2)
BODY = b"weights" * 1000
Answer = Callable[[Any], None]


def whole(exchange: Any) -> None:
    exchange.answer(200, BODY)


def redirect(location: str, status: int = 302) -> Answer:
    return lambda exchange: exchange.answer(status, b"moved", {"Location": location})


def always(*addresses: str) -> Callable[[str], Sequence[str]]:
    return lambda _: addresses


def tar_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# What arrives


def test_an_archive_is_unpacked(server: Any, tmp_path: Path) -> None:
    data = gzip.compress(tar_of({"resnet/model.onnx": BODY, "resnet/labels.txt": b"cat"}))
    server.answers = [lambda exchange: exchange.answer(200, data)]
    got = fetch(server.url("/download?id=3"), tmp_path / "model", policy=FAST)
    assert got.digest == "sha256:" + hashlib.sha256(data).hexdigest()
    assert names(tmp_path) == ["model/resnet/labels.txt", "model/resnet/model.onnx"]


@pytest.mark.parametrize(
    ("path", "disposition", "name"),
    [
        ("/a/model.onnx", "", "model.onnx"),
        ("/a/model.onnx?download=true", 'attachment; filename="other.bin"', "model.onnx"),
        ("/my%20model.onnx", "", "my model.onnx"),
        ("/download?id=3", 'attachment; filename="model.onnx"', "model.onnx"),
        ("/download?id=3", "attachment; filename=model.onnx", "model.onnx"),
        ("/download?id=3", "", "download"),
        ("/download", 'attachment; filename="../../evil"', "model"),
        ("/download", 'attachment; filename=".wh.evil"', "model"),
        ("/", "", "model"),
        ("/%2e%2e%2fevil.onnx", "", "model"),
        ("/%00.onnx", "", "model"),
        ("/" + "x" * 300 + ".onnx", "", "model"),
    ],
)
def test_a_single_file_keeps_a_sound_name(server: Any, tmp_path: Path, path: str, disposition: str, name: str) -> None:
    server.answers = [lambda exchange: exchange.answer(200, BODY, {"Content-Disposition": disposition})]
    fetch(server.url(path), tmp_path / "model", policy=FAST)
    assert names(tmp_path) == [f"model/{name}"]


def test_an_existing_destination_is_left_alone(server: Any, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    server.answers = [whole]
    with pytest.raises(AlreadyExists):
        fetch(server.url(), tmp_path / "model", policy=FAST)
    assert server.requests == []


# Redirects and addresses


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(server: Any, tmp_path: Path, status: int) -> None:
    server.answers = [redirect("/other?signed", status), redirect("x", status), whole]
    fetch(server.url(), tmp_path / "model", policy=FAST)
    assert [exchange.target for exchange in server.requests] == ["/model.onnx", "/other?signed", "/x"]


def test_five_redirects_are_followed_and_not_six(server: Any, tmp_path: Path) -> None:
    server.answers = [redirect("/again")] * 5 + [whole]
    fetch(server.url(), tmp_path / "five", policy=FAST)
    server.requests.clear()
    server.answers = [redirect("/again")] * 6 + [whole]
    with pytest.raises(Forbidden) as caught:
        fetch(server.url(), tmp_path / "six", policy=FAST)
    assert caught.value.reason == "DownloadRedirectForbidden"


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "http://metadata.google.internal/",
        "//169.254.169.254/",
        "http://0.0.0.0/",
        "http://2852039166/",
        "http://0xa9.254.43518/",
        "http://user@169.254.169.254/",
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1/",
        "",
    ],
)
def test_a_redirect_to_a_forbidden_place_is_refused(server: Any, tmp_path: Path, location: str) -> None:
    server.answers = [redirect(location), redirect(location)]
    with pytest.raises((Forbidden, Invalid)):
        fetch(server.url(), tmp_path / "model", policy=FAST)
    assert not (tmp_path / "model").exists()


def test_a_name_that_leads_to_a_forbidden_address_is_refused(server: Any, tmp_path: Path) -> None:
    server.answers = [whole]
    for answer in (["169.254.169.254"], ["127.0.0.1", "169.254.169.254"], ["fe80::1%lo"], ["::ffff:169.254.1.1"]):
        with pytest.raises(Forbidden):
            fetch(server.url(host="models.test"), tmp_path / "model", policy=FAST, resolver=always(*answer))
    assert server.requests == []


def test_a_name_is_resolved_once_so_that_its_next_answer_does_not_count(server: Any, tmp_path: Path) -> None:
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    asked: list[str] = []

    def changing(host: str) -> list[str]:
        asked.append(host)
        return next(answers)

    server.answers = [whole]
    fetch(server.url(host="models.test"), tmp_path / "model", policy=FAST, resolver=changing)
    assert asked == ["models.test"]
    assert server.requests[0].headers["host"] == f"models.test:{server.port}"


def test_a_name_that_changes_between_redirects_or_attempts_is_checked_each_time(server: Any, tmp_path: Path) -> None:
    for first in (redirect("/next"), lambda exchange: exchange.reset()):
        answers = iter([["127.0.0.1"], ["169.254.169.254"]])
        server.answers = [first, whole]
        server.requests.clear()
        with pytest.raises(Forbidden):
            fetch(
                server.url(host="models.test"),
                tmp_path / "model",
                policy=FAST,
                resolver=lambda _, answers=answers: next(answers),  # type: ignore[misc]
            )
        assert len(server.requests) == 1


def test_the_next_address_is_tried_when_one_refuses(server: Any, tmp_path: Path) -> None:
    server.answers = [whole]
    fetch(server.url(host="models.test"), tmp_path / "model", policy=FAST, resolver=always("127.0.0.2", "127.0.0.1"))
    assert names(tmp_path) == ["model/model.onnx"]


def test_private_addresses_can_be_switched_off(server: Any, tmp_path: Path) -> None:
    with pytest.raises(Forbidden):
        fetch(server.url(), tmp_path / "model", policy=Policy(allow_private=False))
    assert server.requests == []


def test_a_host_that_is_not_there_is_unreachable(server: Any, tmp_path: Path) -> None:
    url = server.url().replace(str(server.port), "1")
    with pytest.raises(Unavailable) as caught:
        fetch(url, tmp_path / "model", policy=FAST)
    assert caught.value.reason == "DownloadUnreachable"


# TLS


def test_a_private_ca_is_trusted_by_its_file_and_the_name_is_checked(
    start_tls_server: Any, pki: Any, tmp_path: Path
) -> None:
    server = start_tls_server(pki.context("models.test"))
    server.answers = [whole]
    with_ca = Policy(ca_file=pki.ca_file, first_pause=0.001, attempts=2)
    fetch(server.url(host="models.test"), tmp_path / "model", policy=with_ca, resolver=always("127.0.0.1"))
    assert names(tmp_path / "model") == ["model.onnx"]
    for host, policy in (("other.test", with_ca), ("models.test", FAST), ("127.0.0.1", with_ca)):
        with pytest.raises(Forbidden) as caught:
            fetch(server.url(host=host), tmp_path / "no", policy=policy, resolver=always("127.0.0.1"))
        assert caught.value.reason == "DownloadCertificateInvalid"
    assert len(server.requests) == 1


def test_an_address_in_the_certificate_is_enough(start_tls_server: Any, pki: Any, tmp_path: Path) -> None:
    server = start_tls_server(pki.context("127.0.0.1"))
    server.answers = [whole]
    fetch(server.url(), tmp_path / "model", policy=Policy(ca_file=pki.ca_file))
    assert names(tmp_path / "model") == ["model.onnx"]


def test_an_expired_certificate_is_refused(start_tls_server: Any, pki: Any, tmp_path: Path) -> None:
    server = start_tls_server(pki.context("127.0.0.1", expired=True))
    with pytest.raises(Forbidden) as caught:
        fetch(server.url(), tmp_path / "model", policy=Policy(ca_file=pki.ca_file))
    assert caught.value.reason == "DownloadCertificateInvalid"


def test_an_old_tls_is_refused(start_tls_server: Any, pki: Any, tmp_path: Path) -> None:
    context = pki.context("127.0.0.1")
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ADH-AES128-SHA256:@SECLEVEL=0")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    server = start_tls_server(context)
    with pytest.raises(Forbidden):
        fetch(server.url(), tmp_path / "model", policy=Policy(ca_file=pki.ca_file))


def test_https_never_leads_back_to_http(start_tls_server: Any, server: Any, pki: Any, tmp_path: Path) -> None:
    secure = start_tls_server(pki.context("127.0.0.1"))
    secure.answers = [redirect(server.url())]
    with pytest.raises(Forbidden) as caught:
        fetch(secure.url(), tmp_path / "model", policy=Policy(ca_file=pki.ca_file))
    assert caught.value.reason == "DownloadRedirectForbidden"
    assert server.requests == []


def test_a_file_that_is_no_ca_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("hello")
    with pytest.raises(Invalid) as caught:
        fetch("https://127.0.0.1:1/m", tmp_path / "model", policy=Policy(ca_file=tmp_path / "ca"))
    assert caught.value.reason == "CAFileInvalid"


# Credentials


@pytest.mark.parametrize(
    ("keys", "header"),
    [
        ({"token": "abc\n"}, "Bearer abc"),
        ({"username": "me", "password": "p:w"}, "Basic " + base64.b64encode(b"me:p:w").decode()),
        ({"authorization": "Custom x y"}, "Custom x y"),
    ],
)
def test_a_secret_goes_to_its_host_and_to_no_other(
    server: Any, tmp_path: Path, keys: dict[str, str], header: str
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    for key, value in keys.items():
        (secret / key).write_text(value)
    server.answers = [
        redirect("/same"),
        redirect(server.url(host="other.test")),
        redirect(server.url(host="models.test")),
        whole,
    ]
    start = server.url(host="models.test")
    fetch(start, tmp_path / "model", policy=FAST, secret=secret, resolver=always("127.0.0.1"))
    sent = [exchange.headers.get("authorization") for exchange in server.requests]
    assert sent == [header, header, None, None]


def test_user_and_password_in_the_address_are_sent_but_never_shown(server: Any, tmp_path: Path) -> None:
    url = server.url().replace("://", "://us%40er:p4ss@")
    server.answers = [whole]
    fetch(url, tmp_path / "model", policy=FAST)
    expected = "Basic " + base64.b64encode(b"us@er:p4ss").decode()
    assert server.requests[0].headers["authorization"] == expected
    server.answers = [lambda exchange: exchange.answer(403, b"p4ss")]
    with pytest.raises(Forbidden) as caught:
        fetch(f"{url}?token=t0ken", tmp_path / "no", policy=FAST)
    assert "p4ss" not in repr(caught.value)
    assert "t0ken" not in repr(caught.value)


@pytest.mark.parametrize("value", ["a\nb", "a\r\nX: y", "\x7f", "ü", "a\0"])
def test_a_secret_that_would_break_a_header_is_refused(server: Any, tmp_path: Path, value: str) -> None:
    (tmp_path / "token").write_text(value)
    with pytest.raises(Invalid) as caught:
        fetch(server.url(), tmp_path / "model", policy=FAST, secret=tmp_path)
    assert caught.value.reason == "SecretInvalid"
    assert server.requests == []


def test_a_secret_may_hold_a_ca(start_tls_server: Any, pki: Any, tmp_path: Path) -> None:
    server = start_tls_server(pki.context("127.0.0.1"))
    server.answers = [whole]
    fetch(server.url(), tmp_path / "model", policy=FAST, secret=pki.ca_file.parent)
    assert "authorization" not in server.requests[0].headers


# Files of this machine


def test_a_file_is_copied_and_verified(tmp_path: Path) -> None:
    source = tmp_path / "my model.onnx"
    source.write_bytes(BODY)
    moved: list[tuple[int, int]] = []
    url = f"file://{tmp_path}/my%20model.onnx"
    got = fetch(url, tmp_path / "model", sha256sum=hashlib.sha256(BODY).hexdigest(), report=lambda *n: moved.append(n))
    assert got.digest == "sha256:" + hashlib.sha256(BODY).hexdigest()
    assert names(tmp_path / "model") == ["my model.onnx"]
    assert moved[-1] == (len(BODY), 0)
    source.write_bytes(b"changed")
    assert (tmp_path / "model/my model.onnx").read_bytes() == BODY
    with pytest.raises(Mismatch):
        fetch(url, tmp_path / "other", sha256sum=hashlib.sha256(BODY).hexdigest())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "my model.onnx"]


def test_an_archive_of_this_machine_is_unpacked_and_stays_where_it_is(tmp_path: Path) -> None:
    source = tmp_path / "model.tar"
    source.write_bytes(tar_of({"a/b": b"1"}))
    fetch(f"file://localhost{source}", tmp_path / "model")
    assert names(tmp_path / "model") == ["a/b"]
    assert source.exists()


def test_a_folder_is_copied_with_a_digest_of_its_content(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "vars").mkdir(parents=True)
    (source / "vars/a").write_bytes(b"1")
    (source / "b").write_bytes(b"2")
    lines = f"{hashlib.sha256(b'2').hexdigest()}  b\n{hashlib.sha256(b'1').hexdigest()}  vars/a\n"
    expected = hashlib.sha256(lines.encode()).hexdigest()
    assert fetch(f"file://{source}/", tmp_path / "model", sha256sum=expected).digest == f"sha256:{expected}"
    assert names(tmp_path / "model") == ["b", "vars/a"]
    with pytest.raises(Mismatch):
        fetch(f"file://{source}", tmp_path / "other", sha256sum="0" * 64)
    assert not (tmp_path / "other").exists()


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to("secret")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/link").symlink_to("../secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "folder", "pipe"):
        with pytest.raises(Rejected):
            fetch(f"file://{tmp_path}/{name}", tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "url",
    [
        "file://", "file:relative", "file://relative/x", "file://evil.example/etc/passwd", "file:///a/../b", "file:///a/%2e%2e/b",
        "file:///a%00b", "file:///a?b", "file:///a#b", "file:///a b", "file:///a\nb", "FILE://host/x", "file:\\\\x",
        "file:///", "file:/", "file:////etc", "file:///.", "file:///%2e/",
    ],
)  # fmt: skip
def test_a_malformed_file_address_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(Invalid):
        fetch(url, tmp_path / "model")


def test_files_can_be_forbidden(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/token").write_text("secret")
    (tmp_path / "way").symlink_to("data")
    policy = Policy(forbidden_folders=(tmp_path / "data",))
    for name in ("data/token", "data", "way/token"):
        with pytest.raises(ModelwrightError) as caught:
            fetch(f"file://{tmp_path}/{name}", tmp_path / "model", policy=policy)
        assert caught.value.reason == "DownloadPathForbidden"
    with pytest.raises(Forbidden):
        fetch(f"file://{tmp_path}/way", tmp_path / "model", policy=Policy(allow_files=False))
    with pytest.raises(NotFound):
        fetch(f"file://{tmp_path}/none", tmp_path / "model")
