"""How an address is spelled that somebody asks a model at."""

from __future__ import annotations

from urllib.parse import urlsplit

from modelwright.ports.workloads import ServerStatus


def authority(host: str, port: int) -> str:
    """HOST:PORT; an IPv6 address stands in brackets, as URLs have it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def answers(seen: ServerStatus | None) -> bool:
    """Whether there is an address at which somebody who asks now is answered."""
    return seen is not None and seen.ready_replicas > 0 and seen.port > 0


def model_path(model_name: str) -> str:
    """Where a model answers below the address of its server, after TensorFlow Serving's REST."""
    return f"/v1/models/{model_name}"


def moved(url: str, host: str, port: int) -> str:
    """The URL at another address: scheme and path stay."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{authority(host, port)}{parts.path}"
