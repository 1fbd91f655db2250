"""What tests of serving are judged by tells the truth: the traffic notes every fault, the file server does what it is
told."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster.rig.waiting import until
from tests.cluster.serving import models
from tests.cluster.serving.downloads import Downloads
from tests.cluster.serving.traffic import Traffic


def told(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


ANSWER = told("200 OK", json.dumps({"predictions": [[7.0, 8.0]]}).encode(), "X-Model-Version: v7", "X-Served-By: edge")
Conversation = Callable[[socket.socket, int], None]


def answers(connection: socket.socket, number: int) -> None:
    while connection.recv(1 << 16):
        connection.sendall(ANSWER)


def closes_after_one(connection: socket.socket, number: int) -> None:
    connection.recv(1 << 16)
    connection.sendall(ANSWER)


def closes_unanswered(connection: socket.socket, number: int) -> None:
    connection.recv(1 << 16)
    if number % 3:
        connection.sendall(ANSWER)


def breaks_off(connection: socket.socket, number: int) -> None:
    connection.recv(1 << 16)
    connection.sendall(ANSWER[: -number % 3 or None])


def fails(connection: socket.socket, number: int) -> None:
    connection.recv(1 << 16)
    connection.sendall(told("503 Service Unavailable", b"no model") if number % 3 == 0 else ANSWER)


@contextmanager
def server(talk: Conversation) -> Iterator[str]:
    """Something that listens and talks so, a thread for each connection; its URL."""
    threads: list[threading.Thread] = []

    def accept(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=converse, args=(connection, len(threads))))
            threads[-1].start()

    def converse(connection: socket.socket, number: int) -> None:
        with connection:
            connection.settimeout(60)
            talk(connection, number)

    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        accepting = threading.Thread(target=accept, args=(listener,))
        accepting.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1/models/m:predict"
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()
    for thread in threads:
        thread.join()


def test_answers_are_counted_by_what_they_say() -> None:
    with server(answers) as url, Traffic(url, rate=100) as traffic:
        traffic.more(40)
    report = traffic.report
    assert not report.failures
    assert set(report.values) == {7.0}
    assert set(report.served_by) == {"edge"}
    assert {answer.version for answer in report.answers} == {"v7"}
    assert report.since(report.answers[-1].began).answers == report.answers[-1:]
    assert report.first(7.0) >= report.answers[0].began


def test_a_connection_that_stayed_open_and_was_closed_is_opened_again_and_an_answer_says_so() -> None:
    with server(closes_after_one) as url, Traffic(url, rate=50) as traffic:
        until(lambda: any(answer.again for answer in traffic.report.answers), "a connection to be opened again")
    assert not traffic.report.failures


@pytest.mark.parametrize("talk", [closes_unanswered, breaks_off, fails])
def test_whatever_is_no_whole_answer_is_a_failure(talk: Conversation) -> None:
    with server(talk) as url, Traffic(url, rate=50) as traffic:
        traffic.more(40)
    report = traffic.report
    assert report.failures
    assert all(answer.fault for answer in report.failures)
    assert report.values[7.0] == len(report.answers) - len(report.failures)


def test_nobody_there_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/models/m:predict"
    with Traffic(url, rate=50) as traffic:
        assert len(traffic.more(5).failures) >= 5


def body(url: str, **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
        read: bytes = answer.read()
        return read


def test_files_are_given_whole_in_part_and_to_who_may_have_them(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(bytes(range(256)) * 4096)
    whole = models.file(tmp_path / "weights")
    with Downloads("127.0.0.1") as downloads:
        url = downloads.give(whole)
        assert body(url) == whole.path.read_bytes()
        assert body(url, Range="bytes=1000-") == whole.path.read_bytes()[1000:]
        until(lambda: downloads.count("weights") == 2, "both to be noted")
        assert downloads.sent("weights") == 2 * whole.size - 1000
        private = downloads.give(whole, "private", token="good")
        with pytest.raises(urllib.error.HTTPError) as refused:
            body(private, Authorization="Bearer bad")
        refused.value.close()
        assert body(private, Authorization="Bearer good") == whole.path.read_bytes()


def test_a_file_stops_on_demand_and_goes_on_when_told(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(bytes(1 << 20))
    whole = models.file(tmp_path / "weights")
    with Downloads("127.0.0.1") as downloads:
        url = downloads.give(whole, stops_after=1000)
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert len(answer.read(1000)) == 1000
            downloads.behave("weights")
            assert len(answer.read()) == whole.size - 1000
        lying = downloads.give(whole, "lying", claims=10)
        with pytest.raises(Exception, match="10 more expected"):
            body(lying)
