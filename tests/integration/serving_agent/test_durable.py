"""What an edge node is to have after a power cut is on its disk before it counts as brought."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.integration.serving_agent.hosts import FileHost
from tests.integration.serving_agent.pod import tar_of

from modelwright.agent.serving.access import Access, bring
from modelwright.ports.workloads import Download


def flushed(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The inodes that are flushed from now on."""
    seen: set[int] = set()
    real = os.fsync

    def note(descriptor: int) -> None:
        seen.add(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return seen


@pytest.mark.parametrize("durable", [True, False])
def test_the_model_and_its_manifest_are_flushed_where_they_have_to_last(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    url, digest = host.add("/m.tar", tar_of({"top/model.onnx": b"weights", "top/more/labels.txt": b"a b"}))
    folder = tmp_path / "models" / "one"
    seen = flushed(monkeypatch)
    access = Access(pull_secret="", download_secret="", durable=durable)
    bring(Download(url, digest), folder, access, lambda _done, _total: None)
    stay = [folder.parent, folder, *(path for path in folder.rglob("*") if not path.name.startswith("."))]
    assert len(stay) >= 6
    assert all(path.stat().st_ino in seen for path in stay) is durable
