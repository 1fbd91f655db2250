"""Downloads over connections that break in every way."""

from __future__ import annotations

import hashlib
import io
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelwright.agent.fetch import Fetched, fetch
from modelwright.agent.policy import Policy
from modelwright.ports.errors import Conflict, Forbidden, Invalid, Mismatch, NotFound, Rejected, Unavailable

BODY = random.Random(7).randbytes(300_000)
SUM = hashlib.sha256(BODY).hexdigest()
FAST = Policy(first_pause=0.001, longest_pause=0.002, stall_timeout=0.3, attempts=4)
Answer = Callable[[Any], None]


def whole(exchange: Any) -> None:
    exchange.answer(200, BODY, {"ETag": '"1"'})


def rest(exchange: Any) -> None:
    """What a good server does with a range."""
    start = exchange.start
    if not start or exchange.headers.get("if-range", '"1"') != '"1"':
        whole(exchange)
    else:
        span = f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"
        exchange.answer(206, BODY[start:], {"ETag": '"1"', "Content-Range": span})


def cut_at(count: int, *, etag: str = '"1"', reset: bool = False) -> Answer:
    """The head promises everything from where the client asked, then `count` bytes come."""

    def answer(exchange: Any) -> None:
        start = exchange.start
        left = BODY[start:]
        headers = {"ETag": etag, "Content-Length": str(len(left))}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"
        exchange.answer(206 if start else 200, left[:count], headers)
        if reset:
            exchange.reset()

    return answer


def stall_at(count: int) -> Answer:
    def answer(exchange: Any) -> None:
        exchange.answer(200, BODY[:count], {"ETag": '"1"', "Content-Length": str(len(BODY))})
        exchange.hold()

    return answer


def status(code: int, **headers: str) -> Answer:
    return lambda exchange: exchange.answer(code, b"<html>secret error page</html>", headers)


def run(server: Any, tmp_path: Path, *answers: Answer, sha256sum: str = SUM, policy: Policy = FAST) -> Fetched:
    server.answers = list(answers)
    return fetch(server.url(), tmp_path / "model", sha256sum=sha256sum, policy=policy, durable=False)


def leftovers(tmp_path: Path) -> set[str]:
    return {path.name for path in tmp_path.iterdir()} - {"pki"}


def assert_fetched(tmp_path: Path, got: Fetched) -> None:
    assert got == Fetched(f"sha256:{SUM}", len(BODY))  # type: ignore[arg-type]
    assert (tmp_path / "model/model.onnx").read_bytes() == BODY
    assert leftovers(tmp_path) == {"model"}


def test_a_file_arrives_and_is_reported(server: Any, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    server.answers = [whole]
    got = fetch(server.url(), tmp_path / "model", sha256sum=SUM.upper(), policy=FAST, report=lambda *n: seen.append(n))
    assert_fetched(tmp_path, got)
    assert seen[-1] == (len(BODY), len(BODY))
    assert server.requests[0].headers["accept-encoding"] == "identity"
    assert server.requests[0].headers["host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([cut_at(0), rest], id="cut before the first byte"),
        pytest.param([cut_at(1), rest], id="cut after one byte"),
        pytest.param([cut_at(100_000), rest], id="cut in the middle"),
        pytest.param([cut_at(len(BODY) - 1), rest], id="cut before the last byte"),
        pytest.param([cut_at(100_000, reset=True), rest], id="reset"),
        pytest.param([cut_at(50_000), cut_at(50_000), cut_at(50_000), rest], id="cut three times"),
        pytest.param([stall_at(0), rest], id="stall at once"),
        pytest.param([stall_at(100_000), rest], id="stall in the middle"),
        pytest.param([lambda exchange: exchange.hold(), rest], id="stall before the answer"),
        pytest.param([lambda exchange: exchange.reset(), rest], id="reset before the answer"),
        pytest.param([lambda exchange: exchange.connection.sendall(b"garbage\r\n\r\n"), rest], id="no HTTP"),
        pytest.param([lambda exchange: exchange.connection.sendall(b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200_000), rest],
                     id="a huge header"),
        *(pytest.param([status(code), rest], id=f"status {code}") for code in (408, 425, 429, 500, 502, 503, 504)),
        pytest.param([status(503, **{"Retry-After": "7"}), rest], id="retry after"),
        pytest.param([status(503, **{"Retry-After": "-1e9"}), rest], id="nonsense in retry after"),
        pytest.param([cut_at(100_000), whole], id="range ignored"),
        pytest.param([cut_at(100_000), status(206, **{"Content-Range": "bytes 0-9/10"}), rest], id="another range"),
        pytest.param([cut_at(100_000), status(206), rest], id="a part without a range"),
        pytest.param([status(206, **{"Content-Range": "bytes 0-9/10"}), rest], id="a part that nobody asked for"),
        pytest.param([cut_at(100_000), status(416), rest], id="range refused"),
        pytest.param([cut_at(100_000, etag=""), rest], id="no validator, but a checksum"),
        pytest.param([cut_at(100_000, etag='W/"1"'), rest], id="a weak validator, but a checksum"),
        pytest.param([cut_at(100_000, etag='"old"'), rest], id="changed in the middle"),
    ],
)  # fmt: skip
def test_a_broken_download_ends_well(server: Any, tmp_path: Path, answers: list[Answer]) -> None:
    assert_fetched(tmp_path, run(server, tmp_path, *answers))


def test_a_cut_download_goes_on_where_it_was_cut(server: Any, tmp_path: Path) -> None:
    run(server, tmp_path, cut_at(123_456), rest)
    assert server.requests[1].headers["range"] == "bytes=123456-"
    assert server.requests[1].headers["if-range"] == '"1"'


def test_without_validator_and_checksum_a_cut_download_begins_anew(server: Any, tmp_path: Path) -> None:
    run(server, tmp_path, cut_at(123_456, etag=""), whole, sha256sum="")
    assert "range" not in server.requests[1].headers


def test_a_part_of_a_changed_file_is_never_glued_to_the_old_part(server: Any, tmp_path: Path) -> None:
    other = BODY[::-1]

    def changed(exchange: Any) -> None:
        """Ignores If-Range, which it must not."""
        start = exchange.start
        span = f"bytes {start}-{len(other) - 1}/{len(other)}"
        exchange.answer(206, other[start:], {"ETag": '"2"', "Content-Range": span})

    got = run(server, tmp_path, cut_at(100_000), changed, whole, sha256sum="")
    assert_fetched(tmp_path, got)


def test_a_file_exchanged_without_a_trace_is_found_by_its_checksum_and_fetched_anew(
    server: Any, tmp_path: Path
) -> None:
    def old(exchange: Any) -> None:
        exchange.answer(200, b"old" * 30_000, {"Content-Length": str(len(BODY))})

    assert_fetched(tmp_path, run(server, tmp_path, old, rest, whole))
    assert [exchange.start for exchange in server.requests] == [0, 90_000, 0]


def test_a_later_run_goes_on_with_what_an_earlier_one_left(server: Any, tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        run(server, tmp_path, cut_at(100_000), cut_at(0))
    assert caught.value.reason == "DownloadCut"
    assert leftovers(tmp_path) == {".model.part", ".model.part.json"}
    server.requests.clear()
    assert_fetched(tmp_path, run(server, tmp_path, rest))
    assert server.requests[0].headers["range"] == "bytes=100000-"


def test_what_is_left_of_another_url_is_not_used(server: Any, tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        run(server, tmp_path, cut_at(100_000), cut_at(0))
    server.requests.clear()
    server.answers = [whole]
    fetch(server.url("/model.onnx?v=2"), tmp_path / "model", sha256sum=SUM, policy=FAST)
    assert "range" not in server.requests[0].headers


def test_a_finished_part_needs_no_byte_more(server: Any, tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        run(server, tmp_path, cut_at(100_000), cut_at(0))
    with (tmp_path / ".model.part").open("ab") as part:
        part.write(BODY[100_000:])
    got = run(server, tmp_path, lambda exchange: exchange.answer(416, b"", {"Content-Range": f"bytes */{len(BODY)}"}))
    assert_fetched(tmp_path, got)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (stall_at(1000), "DownloadStalled"),
        (cut_at(0), "DownloadCut"),
        (status(503), "DownloadUnavailable"),
        (lambda exchange: exchange.reset(), "DownloadCut"),
    ],
)
def test_after_all_attempts_the_reason_is_said(server: Any, tmp_path: Path, answer: Answer, reason: str) -> None:
    with pytest.raises(Unavailable) as caught:
        run(server, tmp_path, answer)
    assert caught.value.reason == reason
    assert caught.value.retryable
    assert len(server.requests) == 4
    assert not (tmp_path / "model").exists()


def test_progress_pays_for_further_attempts(server: Any, tmp_path: Path) -> None:
    body = random.Random(8).randbytes(8 << 20)

    def answer(exchange: Any) -> None:
        start = exchange.start
        headers = {"ETag": '"1"', "Content-Length": str(len(body) - start)}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        exchange.answer(206 if start else 200, body[start : start + (1 << 20)], headers)

    server.answers = [answer]
    fetch(server.url(), tmp_path / "model", policy=FAST, durable=False)
    assert (tmp_path / "model/model.onnx").read_bytes() == body
    assert len(server.requests) == 8


@pytest.mark.parametrize(
    ("code", "error", "reason"),
    [
        (401, Forbidden, "DownloadForbidden"),
        (403, Forbidden, "DownloadForbidden"),
        (404, NotFound, "DownloadNotFound"),
        (410, NotFound, "DownloadNotFound"),
        (400, Invalid, "DownloadRefused"),
        (204, Invalid, "DownloadRefused"),
        (304, Invalid, "DownloadRefused"),
        (451, Invalid, "DownloadRefused"),
    ],
)
def test_what_a_retry_does_not_mend_fails_at_once(
    server: Any, tmp_path: Path, code: int, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error) as caught:
        run(server, tmp_path, status(code) if code not in (204, 304) else lambda e: e.answer(code))
    assert caught.value.reason == reason  # type: ignore[attr-defined]
    assert "secret error page" not in str(caught.value)
    assert len(server.requests) == 1


def test_a_wrong_checksum_is_refused_with_both_and_nothing_is_unpacked(server: Any, tmp_path: Path) -> None:
    wrong = "0" * 64
    with pytest.raises(Mismatch) as caught:
        run(server, tmp_path, whole, sha256sum=wrong)
    assert caught.value.reason == "ChecksumMismatch"
    assert SUM in caught.value.message
    assert wrong in caught.value.message
    assert leftovers(tmp_path) == set()


@pytest.mark.parametrize("at", range(0, len(BODY), 50_001))
def test_a_flipped_bit_is_noticed(server: Any, tmp_path: Path, at: int) -> None:
    flipped = BODY[:at] + bytes([BODY[at] ^ 1]) + BODY[at + 1 :]
    with pytest.raises(Mismatch):
        run(server, tmp_path, lambda exchange: exchange.answer(200, flipped))
    assert leftovers(tmp_path) == set()


@pytest.mark.parametrize("text", ["abc", "0" * 63, "g" * 64, "sha256:" + "0" * 64, "0" * 64 + "\n"])
def test_a_malformed_checksum_is_refused_before_anything_is_asked(server: Any, tmp_path: Path, text: str) -> None:
    with pytest.raises(Invalid):
        run(server, tmp_path, whole, sha256sum=text)
    assert server.requests == []


def test_an_endless_download_ends(server: Any, tmp_path: Path) -> None:
    def endless(exchange: Any) -> None:
        exchange.connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            exchange.connection.sendall(bytes(1 << 16))

    for answer in (endless, lambda exchange: exchange.answer(200, b"x", {"Content-Length": "1000001"})):
        with pytest.raises(Rejected) as caught:
            run(server, tmp_path, answer, policy=Policy(max_bytes=1_000_000), sha256sum="")
        assert caught.value.reason == "DownloadTooLarge"
        assert leftovers(tmp_path) == set()
        server.requests.clear()


def test_a_hostile_archive_is_refused_after_its_checksum_was_right(server: Any, tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        link = tarfile.TarInfo("model")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(Rejected) as caught:
        run(
            server,
            tmp_path,
            lambda exchange: exchange.answer(200, out.getvalue()),
            sha256sum=hashlib.sha256(out.getvalue()).hexdigest(),
        )
    assert caught.value.reason == "ArchiveHasLinks"
    assert leftovers(tmp_path) == set()


def test_two_downloads_to_one_place_do_not_mix(server: Any, tmp_path: Path) -> None:
    server.answers = [whole]
    with (tmp_path / ".model.part").open("wb") as part:
        import fcntl

        fcntl.flock(part, fcntl.LOCK_EX)
        with pytest.raises(Conflict) as caught:
            fetch(server.url(), tmp_path / "model", policy=FAST)
    assert caught.value.reason == "DownloadBusy"


def test_a_part_that_is_a_link_is_not_written_through(server: Any, tmp_path: Path) -> None:
    (tmp_path / "canary").write_text("safe")
    (tmp_path / ".model.part").symlink_to("canary")
    server.answers = [whole]
    with pytest.raises(OSError, match="symbolic"):
        fetch(server.url(), tmp_path / "model", policy=FAST)
    assert (tmp_path / "canary").read_text() == "safe"


def test_nothing_in_the_environment_leads_elsewhere(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (tmp_path / "netrc").write_text("default login me password s3cret\n")
    monkeypatch.setenv("NETRC", os.fspath(tmp_path / "netrc"))
    run(server, tmp_path, whole)
    assert "authorization" not in server.requests[0].headers
