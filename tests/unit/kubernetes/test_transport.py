"""The transport keeps connections, tells lost ones from answers, and never trusts blindly."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from tests.contract.pki import Authority
from tests.unit.kubernetes.servers import Asked, answer, asked, chunked, listening

from modelwright.adapters.kubernetes.access import Access, Login
from modelwright.adapters.kubernetes.transport import Request, Transport
from modelwright.ports.errors import Forbidden, Invalid, Unavailable

pytestmark = pytest.mark.anyio
GET = Request("GET", "/x", {})


def plain(port: int) -> Transport:
    return Transport(Access(server=f"http://127.0.0.1:{port}", source="a test"))


def server_context(authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("server"))
    return context


async def test_one_connection_serves_many_requests() -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while request := await asked(reader):
            writer.write(answer(request.target))

    async with listening(talk) as port:
        transport = plain(port)
        bodies = [(await transport.request(Request("GET", f"/{n}", {}))).body for n in range(5)]
        await transport.aclose()
    assert bodies == [b'"/0"', b'"/1"', b'"/2"', b'"/3"', b'"/4"']
    assert connections == 1


async def test_an_answer_in_chunks_is_put_together() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await asked(reader):
            writer.write(chunked(b"ab", b"cd"))

    async with listening(talk) as port:
        transport = plain(port)
        assert (await transport.request(GET)).body == b"abcd"
        await transport.aclose()


async def test_a_server_that_closes_after_each_answer_is_dialled_again() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(answer("x", connection="close"))
        await writer.drain()

    async with listening(talk) as port:
        transport = plain(port)
        for _ in range(3):
            assert (await transport.request(GET)).status == 200
        await transport.aclose()


async def closes_on_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers once, and closes the connection when it is used again."""
    await asked(reader)
    writer.write(answer("x"))
    await asked(reader)


async def test_a_read_on_a_connection_that_was_just_closed_is_asked_again() -> None:
    async with listening(closes_on_second) as port:
        transport = plain(port)
        for _ in range(3):
            assert (await transport.request(GET)).status == 200
        await transport.aclose()


async def test_a_write_is_never_sent_twice() -> None:
    async with listening(closes_on_second) as port:
        transport = plain(port)
        await transport.request(GET)
        with pytest.raises(Unavailable) as lost:
            await transport.request(Request("POST", "/x", {}, b"{}"))
        assert lost.value.reason == "ConnectionLost"
        await transport.aclose()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        chunked(b"ab", end=False),
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    ],
)
async def test_an_answer_that_is_cut_short_or_garbled_is_no_answer(data: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(data)
        await writer.drain()

    async with listening(talk) as port:
        transport = plain(port)
        with pytest.raises(Unavailable):
            await transport.request(GET)
        await transport.aclose()


async def test_a_silent_server_is_not_waited_for_without_end() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        await reader.read()

    async with listening(talk) as port:
        transport = plain(port)
        with pytest.raises(Unavailable) as silent:
            await transport.request(GET, seconds=0.2)
        assert silent.value.reason == "TimedOut"
        await transport.aclose()


async def test_a_request_given_up_halfway_leaves_no_answer_for_the_next() -> None:
    hold = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await asked(reader):
            if request.target == "/slow":
                hold.set()
                await reader.read()
            writer.write(answer(request.target))

    async with listening(talk) as port:
        transport = plain(port)
        task = asyncio.create_task(transport.request(Request("GET", "/slow", {})))
        await hold.wait()
        task.cancel()
        await asyncio.wait([task])
        assert (await transport.request(Request("GET", "/next", {}))).body == b'"/next"'
        await transport.aclose()


async def test_nobody_there_is_said_plainly() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...

    async with listening(talk) as port:
        pass
    with pytest.raises(Unavailable, match="cannot be reached: Connection refused") as gone:
        await plain(port).request(GET)
    assert gone.value.reason == "ConnectionFailed"


async def test_a_header_cannot_smuggle_another(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="control character"):
        await plain(1).request(Request("GET", "/x", {"Accept": "a\r\nHost: evil"}))


async def test_a_token_goes_over_tls_only(tmp_path: Path) -> None:
    seen: list[Asked] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await asked(reader):
            seen.append(request)
            writer.write(answer("x"))

    authority, login = (
        Authority(tmp_path),
        Login(token="secret", impersonate_user="jane", impersonate_groups=("a", "b")),
    )
    async with listening(talk) as port:
        transport = Transport(Access(server=f"http://127.0.0.1:{port}", source="a test", login=login))
        await transport.request(GET)
        await transport.aclose()
    async with listening(talk, server_context(authority)) as port:
        url = f"https://127.0.0.1:{port}"
        transport = Transport(Access(server=url, source="a test", ca=authority.ca_file.read_bytes(), login=login))
        await transport.request(GET)
        await transport.aclose()
    assert "authorization" not in seen[0].headers
    assert seen[1].headers["authorization"] == "Bearer secret"
    assert seen[1].headers["impersonate-user"] == "jane"


async def test_a_server_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other").ca_file.read_bytes()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise AssertionError("nothing may be asked of it")

    async with listening(talk, server_context(Authority(tmp_path))) as port:
        for ca in (other, b""):
            transport = Transport(Access(server=f"https://127.0.0.1:{port}", source="a test", ca=ca))
            with pytest.raises(Forbidden) as refused:
                await transport.request(GET)
            assert refused.value.reason == "CertificateNotTrusted"


async def test_a_server_must_have_the_expected_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await asked(reader):
            writer.write(answer("x"))

    async with listening(talk, server_context(authority)) as port:
        access = Access(server=f"https://127.0.0.1:{port}", source="a test", ca=authority.ca_file.read_bytes())
        with pytest.raises(Forbidden, match="not trusted"):
            await Transport(_named(access, "other.example")).request(GET)
        transport = Transport(_named(access, "localhost"))
        assert (await transport.request(GET)).status == 200
        await transport.aclose()


def _named(access: Access, name: str) -> Access:
    return Access(server=access.server, source=access.source, ca=access.ca, tls_server_name=name)


async def test_a_client_certificate_is_shown(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = server_context(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.ca_file)
    certificate, key = authority.issue("jane", client=True)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await asked(reader):
            shown = writer.get_extra_info("peercert")
            writer.write(answer(dict(pair[0] for pair in shown["subject"])["commonName"]))

    async with listening(talk, context) as port:
        login = Login(certificate=certificate.read_bytes(), key=key.read_bytes())
        url, ca = f"https://127.0.0.1:{port}", authority.ca_file.read_bytes()
        transport = Transport(Access(server=url, source="a test", ca=ca, login=login))
        assert (await transport.request(GET)).body == b'"jane"'
        await transport.aclose()


async def test_a_key_that_is_none_is_refused(tmp_path: Path) -> None:
    access = Access(server="https://127.0.0.1:1", source="a test", login=Login(certificate=b"x", key=b"y"))
    with pytest.raises(Invalid, match="not valid PEM"):
        await Transport(access).request(GET)


async def test_a_proxy_carries_tls_end_to_end(tmp_path: Path) -> None:
    authority, tunnels = Authority(tmp_path), []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await asked(reader):
            writer.write(answer("through"))

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        tunnels.append(head.split()[1].decode())
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(tunnels[-1].rpartition(":")[2]))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:
            far_writer.transport.abort()

    async with listening(talk, server_context(authority)) as port, listening(proxy) as proxy_port:
        ca = authority.ca_file.read_bytes()
        access = Access(
            server=f"https://127.0.0.1:{port}", source="a test", ca=ca, proxy_url=f"http://127.0.0.1:{proxy_port}"
        )
        transport = Transport(access)
        assert (await transport.request(GET)).body == b'"through"'
        await transport.aclose()
    assert tunnels == [f"127.0.0.1:{port}"]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.transport.abort()


async def test_a_proxy_that_refuses_is_said_plainly() -> None:
    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        await writer.drain()

    async with listening(proxy) as port:
        access = Access(server="https://127.0.0.1:1", source="a test", proxy_url=f"http://127.0.0.1:{port}")
        with pytest.raises(Unavailable, match="the proxy answered 403"):
            await Transport(access).request(GET)


@pytest.mark.parametrize(
    "server",
    ["http://cluster.example", "ftp://127.0.0.1", "127.0.0.1:6443", "https://", "https://a:b@c", "https://a:x"],
)
def test_a_server_is_https_or_on_loopback(server: str) -> None:
    with pytest.raises(Invalid):
        Transport(Access(server=server, source="a test"))


async def test_a_path_in_the_server_is_kept_before_every_other() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await asked(reader):
            writer.write(answer(request.target))

    async with listening(talk) as port:
        transport = Transport(Access(server=f"http://127.0.0.1:{port}/k8s/c-1/", source="a test"))
        assert (await transport.request(GET)).body == b'"/k8s/c-1/x"'
        await transport.aclose()
