"""Servers: started, changed without a lost request, kept alive, and ended."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.integration.workloads.support import (
    a_server,
    ask,
    until_server,
)

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads

pytestmark = pytest.mark.anyio
replace = msgspec.structs.replace


async def test_a_server_becomes_ready_and_answers(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    await workloads.apply(a_server(data_dir, "v1"))
    status = await until_server(workloads, lambda status: status.up_to_date)
    assert (status.replicas, status.ready_replicas, status.serving_version) == (1, 1, "v1")
    assert [version.phase for version in status.versions] == ["Ready"]
    assert ask(status.port)["text"] == "v1"
