"""Names of NFS servers, compared as what they mean."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def canonical(server: str) -> str:
    """One spelling for each server: names in lower case without the dot of the root, addresses in their shortest form.

    An IPv6 address may stand in brackets; one that carries an IPv4 address is that address.
    What no library reads as an address, such as `0x0a000001`, is a name, and never equal to one.
    """
    text = server.strip().removeprefix("[").removesuffix("]")
    try:
        address = ip_address(text)
    except ValueError:
        return server.strip().lower().removesuffix(".")
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
