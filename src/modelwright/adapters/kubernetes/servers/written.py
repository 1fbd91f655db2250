"""How each Deployment stood after our last write: whatever somebody has changed since is seen without comparing it."""

from __future__ import annotations

from modelwright.adapters.kubernetes.servers.kinds import Deployment
from modelwright.ports.workloads import Server


class Written:
    """A Deployment's generation is another one after each change of its spec, whoever made it."""

    def __init__(self) -> None:
        self._generations: dict[str, dict[str, tuple[str, int]]] = {}
        """By the owner's UID and the Server's name."""

    def wrote(self, server: Server, made: Deployment) -> None:
        """It stands so after our write."""
        generation = made.metadata.uid, made.metadata.generation
        self._generations.setdefault(server.owner.uid, {})[server.name] = generation

    def is_as_written(self, server: Server, there: Deployment) -> bool:
        """Whether it is; one that this process has not written is taken for it."""
        uid, generation = self._generations.get(server.owner.uid, {}).get(server.name, ("", 0))
        return uid != there.metadata.uid or generation == there.metadata.generation

    def forget(self, owner_uid: str, name: str) -> None:
        """It is gone."""
        named = self._generations.get(owner_uid, {})
        named.pop(name, None)
        if not named:
            self._generations.pop(owner_uid, None)

    def forget_owner(self, owner_uid: str) -> None:
        """All of it is gone."""
        self._generations.pop(owner_uid, None)

    def __len__(self) -> int:
        """The owners that are known."""
        return len(self._generations)
