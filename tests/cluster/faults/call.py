"""A request to a Kubernetes API server as the fault proxy sees it: what is asked of which object."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

JSON = dict[str, Any]
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
OF_NAMESPACES = ("status", "finalize")
"""Subresources of a namespace itself; anything else there is what is in it."""


@dataclass
class Call:
    """One request; `status` is the server's answer to it, 0 while there is none. Faults may change `target`."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    status: int = 0
    at: datetime = field(init=False, default_factory=lambda: datetime.now(UTC))
    group: str = field(init=False, default="")
    resource: str = field(init=False, default="")
    namespace: str = field(init=False, default="")
    name: str = field(init=False, default="")
    subresource: str = field(init=False, default="")

    def __post_init__(self) -> None:
        parts = [unquote(part) for part in urlsplit(self.target).path.strip("/").split("/")]
        if parts[0] not in ("api", "apis"):
            return  # such as /readyz
        self.group = parts[1] if parts[0] == "apis" and len(parts) > 1 else ""
        rest = parts[3 if parts[0] == "apis" else 2 :]
        if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in OF_NAMESPACES:
            self.namespace, rest = rest[1], rest[2:]
        self.resource, self.name, self.subresource = [*rest, "", "", ""][:3]

    @property
    def query(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.target).query).items()}

    def ask(self, **query: str) -> None:
        """Ask with these parameters instead of, or beside, those that are there."""
        path = urlsplit(self.target).path
        self.target = f"{path}?{urlencode({**self.query, **query})}"

    @property
    def watch(self) -> bool:
        return self.method == "GET" and self.query.get("watch") in ("true", "1")

    @property
    def listing(self) -> bool:
        return self.method == "GET" and bool(self.resource) and not self.name and not self.watch

    @property
    def write(self) -> bool:
        return self.method in WRITES

    @property
    def document(self) -> JSON:
        """The body, empty where there is none or it is no object."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return cast("JSON", value) if isinstance(value, dict) else {}

    @property
    def of(self) -> str:
        """`resource`, or `resource/subresource`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def line(self) -> str:
        """As a log has it: when it came, and what was sent."""
        return f"{self.at:%H:%M:%S.%f} {self.method} {self.target} {self.status} {self.body.decode()}"

    def __str__(self) -> str:
        return f"{self.method} {self.of} {self.namespace}/{self.name} {self.status}"
