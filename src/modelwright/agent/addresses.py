"""Which network addresses a download may reach: never those where a cloud hands out credentials.

A name is resolved once, every address it has is checked, and the connection goes to an address that was checked:
so a name whose answer changes between check and use leads nowhere.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterator, Sequence

from modelwright.agent.urls import Url
from modelwright.ports.errors import Forbidden, Unavailable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str], Sequence[str]]
"""All IP addresses of a host name, in the order in which to try them. Raises OSError."""

_METADATA_NAMES = frozenset(
    {
        "instance-data",
        "instance-data.ec2.internal",
        "metadata",
        "metadata.azure.internal",
        "metadata.goog",
        "metadata.google.internal",
        "metadata.platformequinix.com",
        "metadata.tencentyun.com",
    }
)
_FORBIDDEN = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "169.254.0.0/16",  # link-local: metadata of nearly all clouds
        "100.100.100.200/32",  # metadata, Alibaba
        "168.63.129.16/32",  # host agent, Azure
        "192.0.0.0/24",  # protocol assignments: metadata, Oracle
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
        "::/128",
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local
        "ff00::/8",  # multicast
        "fd00:ec2::/32",  # metadata, Amazon
        "fd20:ce::/32",  # metadata, Google
        "fd00:42::/32",  # metadata, Scaleway
        "2001::/32",  # Teredo: a tunnel to an address of the sender's choice
        "100::/64",  # discard
    )
)
_CARRYING_IPV4 = tuple(
    (ipaddress.IPv6Network(network), shift)
    for network, shift in (
        ("::/96", 0),  # compatible
        ("::ffff:0:0/96", 0),  # mapped
        ("::ffff:0:0:0/96", 0),  # translated
        ("64:ff9b::/96", 0),  # NAT64
        ("64:ff9b:1::/48", 0),  # NAT64 of a local prefix
        ("2002::/16", 80),  # 6to4
    )
)
_ISATAP = (0x00005EFE, 0x02005EFE)


def system_resolver(host: str) -> list[str]:
    """The operating system's answer."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def allowed_addresses(url: Url, resolver: Resolver, *, allow_private: bool) -> list[str]:
    """The addresses to connect to, in order.

    Raises Forbidden (DownloadAddressForbidden) if any address of the host may not be reached, since who answers
    with such an address among others means harm; Unavailable (DownloadHostUnknown) if it has none.
    """
    host = url.host.rstrip(".")
    if host in _METADATA_NAMES:
        raise _forbidden(url)
    found = [ipaddress.ip_address(text) for text in _resolved(host, url, resolver)]
    for address in found:
        if not _allowed(address, allow_private=allow_private):
            raise _forbidden(url)
    return [str(address) for address in found]


def _resolved(host: str, url: Url, resolver: Resolver) -> list[str]:
    try:
        ipaddress.ip_address(host)
        return [host]
    except ValueError:
        pass
    try:
        found = list(resolver(host))
    except (OSError, UnicodeError) as error:
        raise Unavailable(
            f"the host of {url} has no address: check the name and the network", reason="DownloadHostUnknown"
        ) from error
    if not found:
        raise Unavailable(f"the host of {url} has no address: check the name", reason="DownloadHostUnknown")
    if any("%" in text for text in found):  # a zone belongs to a link-local address
        raise _forbidden(url)
    return found


def _allowed(address: Address, *, allow_private: bool) -> bool:
    return all(_allowed_itself(one, allow_private=allow_private) for one in (address, *_carried(address)))


def _allowed_itself(address: Address, *, allow_private: bool) -> bool:
    if any(address.version == network.version and address in network for network in _FORBIDDEN):
        return False
    carries = any(True for _ in _carried(address))
    return allow_private or carries or (address.is_global and not address.is_private)


def _carried(address: Address) -> Iterator[ipaddress.IPv4Address]:
    """The IPv4 addresses that a gateway or the kernel may make of an IPv6 address."""
    if isinstance(address, ipaddress.IPv4Address) or address in (ipaddress.IPv6Address(0), ipaddress.IPv6Address(1)):
        return
    value = int(address)
    for network, shift in _CARRYING_IPV4:
        if address in network:
            yield ipaddress.IPv4Address(value >> shift & 0xFFFFFFFF)
    if value >> 32 & 0xFFFFFFFF in _ISATAP:
        yield ipaddress.IPv4Address(value & 0xFFFFFFFF)


def _forbidden(url: Url) -> Forbidden:
    return Forbidden(
        f"{url} leads to an address that downloads may not reach (link-local, cloud metadata, multicast, or private "
        "where that is switched off): use the address of a file server",
        reason="DownloadAddressForbidden",
    )
