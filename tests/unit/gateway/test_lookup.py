"""Where hosts are."""

from __future__ import annotations

import asyncio

import pytest

from modelwright.gateway.lookup import Lookup

pytestmark = pytest.mark.anyio


async def test_many_who_look_for_a_host_ask_once() -> None:
    lookup = Lookup("localhost", 80)
    first = asyncio.ensure_future(lookup.addresses())
    await asyncio.sleep(0)
    assert lookup.pending
    found = await asyncio.gather(first, *(lookup.addresses() for _ in range(9)))
    assert "127.0.0.1" in found[0]
    assert all(each == found[0] for each in found)
    assert not lookup.pending


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "fe80::1%1"])
async def test_an_address_needs_no_resolver(address: str) -> None:
    lookup = Lookup(address, 80)
    assert await lookup.addresses() == [address]
    assert not lookup.pending


async def test_who_loses_patience_leaves_the_others_waiting() -> None:
    lookup = Lookup("localhost", 80)
    one, other = (asyncio.ensure_future(lookup.addresses()) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    assert "127.0.0.1" in await other
