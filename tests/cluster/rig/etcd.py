"""What is asked of a cluster's etcd directly, by its JSON gateway (etcd v3 API)."""

from __future__ import annotations

import json
import urllib.request
from typing import Any


def compact(url: str) -> int:
    """Forget every revision but the present one, as far back as any watch could ask; the present revision."""
    revision = int(_post(url, "maintenance/status", {})["header"]["revision"])
    _post(url, "kv/compaction", {"revision": str(revision), "physical": True})
    return revision


def _post(url: str, path: str, body: dict[str, object]) -> dict[str, Any]:
    request = urllib.request.Request(f"{url}/v3/{path}", data=json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        decoded: dict[str, Any] = json.load(answer)
        return decoded
