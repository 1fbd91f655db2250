"""Which Pods at the edge may be made anew for the operator's sake now: not all of them in the same seconds.

A Pod that is made for other images takes its former one away before anybody knows whether the node can pull them. So as
many may wait for their images at once as have them already, and one where none has: 1, 1, 2, 4, 8. Where a registry
cannot be reached from the edge, that is one model that is down, and all others serve on as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from modelwright.adapters.kubernetes.servers.edge_notes import Note
from modelwright.adapters.kubernetes.servers.node_mirror import Node
from modelwright.adapters.kubernetes.workloads.kinds import Pod, going

OVER = ("Failed", "Succeeded")


class Turns:
    """Counts, for each set of images. What the Pods themselves do not tell yet is taken from the notes."""

    def __init__(self) -> None:
        self._have: Counter[str] = Counter()
        self._wait: Counter[str] = Counter()
        self._counted = False

    @property
    def counted(self) -> bool:
        """Whether anything has been counted yet."""
        return self._counted

    def count(
        self,
        pods: Iterable[Pod],
        notes: Iterable[tuple[Note, Pod | None]],
        node: Callable[[str], Node | None],
    ) -> None:
        """Look anew: at all Pods, at what is noted of each server with the Pod that it has, at nodes by name."""
        self._have, self._wait, self._counted = Counter(), Counter(), True
        for pod in pods:
            said = pod.metadata.annotations
            if going(pod) or pod.status.phase in OVER:
                continue
            if has_images(pod):
                self._have[said.images] += 1
            elif answers(node(said.node)):
                self._wait[said.images] += 1
        for note, own in notes:
            if note.rendered is not None and (note.turn or _is_between(note, own, node(note.rendered.node))):
                self._wait[note.rendered.images] += 1

    def free(self, images: str) -> int:
        """How many may begin to wait for these."""
        return max(1, self._have[images]) - self._wait[images]

    def take(self, images: str) -> None:
        """One begins to wait."""
        self._wait[images] += 1


def has_images(pod: Pod) -> bool:
    """Whether each of its containers has had its image on the node: it can begin again without a registry."""
    return bool(pod.status.container_statuses) and all(each.image_id for each in pod.status.containers)


def answers(node: Node | None) -> bool:
    """Whether anything that is changed now reaches the node now."""
    return node is not None and node.ready != "Unknown"


def _is_between(note: Note, pod: Pod | None, node: Node | None) -> bool:
    """Whether its former Pod is taken away, and its next one is not there yet, and nothing else stands against that."""
    wanted = note.server is not None and note.server.replicas > 0 and not note.ending
    return wanted and note.failure is None and going(pod) and answers(node)
