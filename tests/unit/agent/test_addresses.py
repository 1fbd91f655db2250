"""The table of hostile addresses, and of those that must work."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwright.agent import urls
from modelwright.agent.addresses import allowed_addresses, system_resolver
from modelwright.ports.errors import Forbidden, Invalid, Unavailable

MALFORMED = [
    "", " ", "http://", "https:///path", "http:/host/", "http:host", "//host/path", "host/path", "/etc/passwd",
    "ftp://host/m", "gopher://host/m", "data:,x", "javascript:1", "s3://bucket/m", "hf://model", "file:///x",
    "http://host:0/", "http://host:65536/", "http://host:99999/", "http://host:/x y", "http://host:-1/", "http://host:8a/",
    "http://ho st/", "http://host/a b", "http://host/a\tb", "http://host/a\nb", "http://host/\r\nHost: x", "http://host/\0",
    "http://host\\@evil/", "http:\\\\host\\m", "http://host/a\\b", "http://hö.example/", "http://host/ü",
    "http://①⑥⑨.254.169.254/", "http://169。254。169。254/", "http://host%2eexample/", "http://%31%36%39.254.169.254/",
    "http://host/%zz", "http://host/%", "http://-host/", "http://host-/", "http://host..example/", "http://.host/",
    "http://" + "a" * 64 + ".example/", "http://" + "a." * 130 + "example/", "http://host/" + "a" * 8192,
    "http://host<script>/", "http://[::1", "http://::1/", "http://[::1]x/", "http://[::g]/", "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/", "http://[1.2.3.4]/", "http://[::ffff:1.2.3]/", "http://[v1.x]/", "http://[]/",
    # other spellings of IPv4
    "http://2852039166/", "http://0xa9fea9fe/", "http://0xA9.0xFE.0xA9.0xFE/", "http://0251.0376.0251.0376/",
    "http://0251.254.169.254/", "http://169.254.43518/", "http://169.16689662/", "http://127.1/", "http://127.0.1/", "http://0/",
    "http://0x7f.1/", "http://0x/", "http://169.254.169.254.1/", "http://1.2.3.256/", "http://1.2.3.04/", "http://1.2.3.4.5/",
    "http://host.123/", "http://host.0x1f/", "http://169.254.169.0xfe/", "http://000169.254.169.254/",
]  # fmt: skip

FORBIDDEN = [
    "http://169.254.169.254/latest/meta-data/", "http://169.254.169.254./", "http://169.254.170.2/", "http://169.254.0.1:8080/",
    "http://user@169.254.169.254/", "http://user:p@169.254.169.254:80/", "http://good.example@169.254.169.254/",
    "http://169.254.169.254#@good.example/", "http://169.254.169.254?@good.example/", "HTTP://169.254.169.254/",
    "https://169.254.169.254/", "http://100.100.100.200/", "http://168.63.129.16/", "http://192.0.0.192/", "http://0.0.0.0/",
    "http://0.1.2.3/", "http://224.0.0.1/", "http://239.255.255.250/", "http://255.255.255.255/", "http://240.0.0.1/",
    "http://[::]/", "http://[fe80::1]/", "http://[FE80::A9FE:A9FE]/", "http://[febf::1]/", "http://[fec0::1]/",
    "http://[ff02::1]/", "http://[fd00:ec2::254]/", "http://[fd00:0ec2:0:0:0:0:0:254]/", "http://[fd20:ce::254]/",
    "http://[fd00:42::42]/", "http://[::ffff:169.254.169.254]/", "http://[::ffff:a9fe:a9fe]/",
    "http://[0:0:0:0:0:ffff:169.254.169.254]/", "http://[::169.254.169.254]/", "http://[::a9fe:a9fe]/",
    "http://[64:ff9b::169.254.169.254]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b:1::a9fe:a9fe]/",
    "http://[2002:a9fe:a9fe::]/", "http://[2002:a9fe:a9fe::1]/", "http://[2001:0:a9fe:a9fe::1]/",
    "http://[2001::1]/", "http://[::ffff:0:169.254.169.254]/", "http://[fe80::5efe:169.254.169.254]/",
    "http://[2a00::5efe:a9fe:a9fe]/", "http://[2a00::200:5efe:a9fe:a9fe]/", "http://[::ffff:0.0.0.0]/",
    "http://[::ffff:224.0.0.1]/", "http://[64:ff9b::6464:64c8]/", "http://metadata.google.internal/computeMetadata/v1/",
    "http://METADATA.GOOGLE.INTERNAL/", "http://metadata.google.internal./", "http://metadata/", "http://metadata.goog/",
    "http://instance-data/", "http://instance-data.ec2.internal/", "http://metadata.azure.internal/",
    "http://metadata.tencentyun.com/", "http://user@metadata/", "http://metadata:8080/",
]  # fmt: skip

PRIVATE = [
    "http://127.0.0.1:8080/m", "http://127.255.255.254/", "http://[::1]:8080/m", "http://10.0.0.1/", "http://172.16.0.1/",
    "http://192.168.1.1/", "http://100.64.0.1/", "http://[fd12:3456::1]/", "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:10.0.0.1]/", "http://[64:ff9b::a00:1]/", "http://[2002:a00:1::]/", "http://198.18.0.1/",
    "http://[::127.0.0.1]/",
]  # fmt: skip

PUBLIC = [
    "https://8.8.8.8/m", "https://8.8.8.8:8443/m?x=1#y", "https://[2606:4700::1111]/m", "https://1.1.1.1./m",
    "https://[64:ff9b::808:808]/m", "https://[::ffff:8.8.8.8]/m",
]  # fmt: skip


def nobody(host: str) -> Sequence[str]:
    raise AssertionError(f"{host} must not be asked for")


def test_the_table_is_long_enough() -> None:
    table = [*MALFORMED, *FORBIDDEN, *PRIVATE, *PUBLIC]
    assert len(table) == len(set(table))
    assert len(table) >= 150


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        urls.parse(text)
    assert caught.value.reason == "DownloadURLInvalid"
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("text", FORBIDDEN)
@pytest.mark.parametrize("allow_private", [True, False])
def test_a_forbidden_address_is_refused_whatever_the_policy(text: str, *, allow_private: bool) -> None:
    with pytest.raises(Forbidden) as caught:
        allowed_addresses(urls.parse(text), nobody, allow_private=allow_private)
    assert caught.value.reason == "DownloadAddressForbidden"


@pytest.mark.parametrize("text", PRIVATE)
def test_a_private_address_is_a_matter_of_policy(text: str) -> None:
    assert len(allowed_addresses(urls.parse(text), nobody, allow_private=True)) == 1
    with pytest.raises(Forbidden):
        allowed_addresses(urls.parse(text), nobody, allow_private=False)


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_allowed(text: str) -> None:
    (address,) = allowed_addresses(urls.parse(text), nobody, allow_private=False)
    assert str(ipaddress.ip_address(address)) == address


@pytest.mark.parametrize("text", [*FORBIDDEN[10:49], *PRIVATE])
def test_a_name_is_judged_by_all_of_its_addresses(text: str) -> None:
    address = urls.parse(text).host
    url = urls.parse("https://models.example/m")
    for answer in ([address], ["8.8.8.8", address], [address, "8.8.8.8"], ["2606:4700::1111", address]):
        with pytest.raises(Forbidden):
            allowed_addresses(url, lambda _, answer=answer: answer, allow_private=False)  # type: ignore[misc]
    assert allowed_addresses(url, lambda _: ["8.8.8.8", "1.1.1.1"], allow_private=False) == ["8.8.8.8", "1.1.1.1"]


def test_an_answer_with_a_zone_is_link_local() -> None:
    with pytest.raises(Forbidden):
        allowed_addresses(urls.parse("http://models.example/"), lambda _: ["fe80::1%eth0"], allow_private=True)


def test_a_name_without_an_address_is_said_to_have_none() -> None:
    def fails(_: str) -> list[str]:
        raise OSError(-2, "Name or service not known")

    def knows_nothing(_: str) -> list[str]:
        return []

    for resolver in (fails, knows_nothing):
        with pytest.raises(Unavailable) as caught:
            allowed_addresses(urls.parse("http://models.example/"), resolver, allow_private=True)
        assert caught.value.reason == "DownloadHostUnknown"


def test_a_name_is_asked_for_once_in_lower_case_without_its_last_dot() -> None:
    asked = []

    def resolver(host: str) -> list[str]:
        asked.append(host)
        return ["8.8.8.8"]

    allowed_addresses(urls.parse("https://Models.Example.:443/m"), resolver, allow_private=False)
    assert asked == ["models.example"]


def test_the_systems_resolver_knows_this_machine() -> None:
    assert set(system_resolver("localhost")) & {"127.0.0.1", "::1"}


REDIRECTS_ALLOWED = [
    ("http://a.example/x/y", "z", "http://a.example/x/z"),
    ("http://a.example/x/y", "/z?q", "http://a.example/z?..."),
    ("http://a.example/x", "//b.example/z", "http://b.example/z"),
    ("http://a.example/x", "https://b.example/", "https://b.example/"),
    ("https://a.example/x", "https://b.example:8443/", "https://b.example:8443/"),
    ("https://a.example/x", "../../z", "https://a.example/z"),
    ("https://a.example/x", "", "https://a.example/x"),
    ("https://a.example/x", "HTTPS://b.example/", "https://b.example/"),
]
REDIRECTS_REFUSED = [
    ("https://a.example/", "http://a.example/"),
    ("https://a.example/", "HTTP://a.example/"),
    ("https://a.example/", "file:///etc/passwd"),
    ("http://a.example/", "file:///etc/passwd"),
    ("http://a.example/", "ftp://b.example/"),
    ("http://a.example/", "gopher://b.example/"),
    ("http://a.example/", "javascript:alert(1)"),
    ("http://a.example/", "data:text/plain,x"),
    ("http://a.example/", "http://2130706433/"),
    ("http://a.example/", "http://0x7f.1/"),
    ("http://a.example/", "//127.1/"),
    ("http://a.example/", "\\\\b.example/"),
    ("http://a.example/", "http://b.example/\nX: y"),
    ("http://a.example/", "http://b.example:99999/"),
    ("http://a.example/", "http://[::1"),
    ("http://a.example/", "http://b.exa\nmple/"),
    ("http://a.example/", "http://b.exa\tmple/"),
]


@pytest.mark.parametrize(("start", "location", "expected"), REDIRECTS_ALLOWED)
def test_where_a_redirect_may_lead(start: str, location: str, expected: str) -> None:
    assert str(urls.redirected(urls.parse(start), location)) == expected


@pytest.mark.parametrize(("start", "location"), REDIRECTS_REFUSED)
def test_where_a_redirect_may_not_lead(start: str, location: str) -> None:
    with pytest.raises((Invalid, Forbidden)):
        urls.redirected(urls.parse(start), location)


def test_messages_show_neither_user_nor_query() -> None:
    url = urls.parse("https://user:p4ssw0rd@models.example:8443/a/model.onnx?signature=s3cret#part")
    assert str(url) == "https://models.example:8443/a/model.onnx?..."
    assert (url.user, url.name, url.authority) == ("user:p4ssw0rd", "model.onnx", "models.example:8443")
    assert url.target == "/a/model.onnx?signature=s3cret"


@given(st.integers(0, 2**32 - 1))
def test_every_link_local_ipv4_in_every_ipv6_clothing_is_refused(value: int) -> None:
    v4 = ipaddress.IPv4Address(0xA9FE0000 | value & 0xFFFF)
    v6 = [f"::ffff:{v4}", f"64:ff9b::{v4}", f"::{v4}", str(ipaddress.IPv6Address(0x2002 << 112 | int(v4) << 80))]
    for address in (str(v4), *v6):
        with pytest.raises(Forbidden):
            allowed_addresses(urls.parse("http://x.example/"), lambda _, a=address: [a], allow_private=True)  # type: ignore[misc]


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for candidate in (text, f"http://{text}", f"http://host/{text}", f"http://{text}@host:80/"):
        try:
            url = urls.parse(candidate)
        except Invalid:
            continue
        assert urls.parse(f"{url.scheme}://{url.authority}{url.target}").target == url.target
