"""A store in a temporary directory, and the API server on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.embedded.api import TOKEN, Client

from modelwright.adapters.embedded.apiserver.app import create_api_app
from modelwright.adapters.embedded.store import EmbeddedStore


class HandClock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.time = datetime(2024, 2, 29, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def pass_time(self, **spans: float) -> None:
        self.time += timedelta(**spans)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(tmp_path: Path, clock: HandClock) -> AsyncIterator[EmbeddedStore]:
    """A store that remembers its newest 40 to 50 changes."""
    opened = await EmbeddedStore.open(tmp_path / "data", clock=clock, keep_changes=40)
    yield opened
    await opened.close()


@pytest.fixture
def api(store: EmbeddedStore) -> Client:
    return Client(create_api_app(store.resources, TOKEN))
