"""Image repositories as a spec names them."""

from __future__ import annotations

TAG_LENGTHS = (5, 6, 7, 8, 12, 16, 32)
"""How much of the UID a default tag holds: as in the seed, longer only where that tag holds other content."""


def has_host(repository: str) -> bool:
    """Whether the first part names a registry: the rule that all container tools share."""
    first, slash, _ = repository.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")


def qualified(repository: str, default_registry: str) -> str:
    """The repository with a host: its own, or the default registry's."""
    return repository if has_host(repository) else f"{default_registry}/{repository}"


def tag_candidates(tag: str, uid: str) -> tuple[str, ...]:
    """The tags that may be taken: the one asked for, else `v` and a growing part of the UID (`v1c072`)."""
    if tag:
        return (tag,)
    digits = uid.replace("-", "")
    return tuple(f"v{digits[:length]}" for length in TAG_LENGTHS)
