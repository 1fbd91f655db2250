"""Hashing on another core gives what hashing here gives."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from modelwright.oci.beside import BATCH, BesideHash


@given(st.lists(st.sampled_from([0, 1, 70_000, BATCH - 1, BATCH, 2 * BATCH + 5]), max_size=12))
def test_chunks_of_any_size_give_the_same_digest_at_any_moment(sizes: list[int]) -> None:
    here = hashlib.sha256()
    with ThreadPoolExecutor(1) as pool:
        beside = BesideHash(pool)
        for number, size in enumerate(sizes):
            chunk = bytes([number]) * size
            here.update(chunk)
            beside.update(chunk)
            if number % 3 == 0:
                assert beside.hexdigest() == here.hexdigest()
        assert beside.hexdigest() == here.hexdigest()
