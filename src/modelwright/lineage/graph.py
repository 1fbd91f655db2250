"""The graph of a namespace, and walks through it in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from modelwright.lineage import describe
from modelwright.lineage.datasets import Datasets, Link
from modelwright.lineage.links import ServedLinks, joint_links, model_links
from modelwright.lineage.making import Making
from modelwright.lineage.nodes import KINDS, Edge, Node, Trace
from modelwright.lineage.records import Records

Neighbours = Callable[[str], Iterable[Link]]
_KIND_OF = {kind.lower(): kind for kind in KINDS}
_FROM, _TO = 0, 1


class Graph:
    """Who used what, from the records of one namespace. Things that are named and not there are nodes too."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._datasets = Datasets(records)
        self._making = Making(records, self._datasets)
        self._services = ServedLinks(records)
        self._models = {model.metadata.name: model for model in records.models}
        self._served = {served.metadata.name: served for served in records.served}
        self._joint = {joint.metadata.name: joint for joint in records.joint}
        self._above: dict[str, list[Link]] = {}
        self._below: dict[str, list[Link]] = {}
        for link in chain(self._services.links(), joint_links(records)):
            self._above.setdefault(link[_TO], []).append(link)
            self._below.setdefault(link[_FROM], []).append(link)

    # Nodes ----------------------------------------------------------------------------------------------------------

    def __contains__(self, id_: str) -> bool:
        kind, _, name = id_.partition("/")
        if id_ in self._above or id_ in self._below or name in self._objects(kind):
            return True
        if kind == "modelversion":
            return self._making.names_version(name)
        if kind == "trainingmodel":
            return self._making.names_training(name)
        return kind == "dataset" and id_ in self._datasets.all()

    def find(self, name: str, kinds: tuple[str, ...] = KINDS) -> list[str]:
        """The ids of all nodes of this name (or whole id), of these kinds; the real ones if there are any."""
        wanted = [kind.lower() for kind in kinds]
        found = [f"{kind}/{name}" for kind in wanted if f"{kind}/{name}" in self]
        if "dataset" in wanted:
            datasets = self._datasets.all().items()
            found += sorted(id_ for id_, dataset in datasets if name in dataset.names and id_ not in found)
        if "file" in wanted:
            found += sorted(id_ for id_, file in self._services.files.items() if file.version == name)
        there = [id_ for id_ in found if not self.node(id_).missing]
        return there or found

    def joins(self, source: str, target: str) -> bool:
        """Whether one was used for the other directly."""
        return any(link[_TO] == target for link in self.below(source))

    def node(self, id_: str) -> Node:
        """What is known of a node."""
        kind, _, name = id_.partition("/")
        found = self._objects(kind).get(name)
        if found is not None:
            return _DESCRIBED[kind](id_, found)
        dataset = self._datasets.get(id_)
        if dataset is not None:
            return describe.dataset_node(id_, dataset)
        if id_ in self._services.files:
            return describe.file_node(id_, self._services.files[id_])
        image = self._services.images.get(id_, "")
        return Node(id=id_, kind=_KIND_OF[kind], name=name, image=image, missing=not image)

    def _objects(self, kind: str) -> dict[str, Any]:
        objects: dict[str, dict[str, Any]] = {
            "model": self._models,
            "modelversion": self._making.versions,
            "trainingmodel": self._making.trainings,
            "inferencemodel": self._served,
            "jointinferenceservice": self._joint,
        }
        return objects.get(kind, {})

    # Links ----------------------------------------------------------------------------------------------------------

    def above(self, id_: str) -> Iterable[Link]:
        """From what it was made from."""
        kind, _, name = id_.partition("/")
        known = self._above.get(id_, ())
        if kind == "modelversion":
            return chain(known, self._making.above_version(name))
        if kind == "trainingmodel":
            return chain(known, self._making.above_training(name))
        return self._datasets.above(id_) if kind == "dataset" else known

    def below(self, id_: str) -> Iterable[Link]:
        """To what was made of it."""
        kind, _, name = id_.partition("/")
        known = self._below.get(id_, ())
        if kind == "modelversion":
            return chain(known, self._making.below_version(name))
        if kind == "trainingmodel":
            return chain(known, self._making.below_training(name))
        if kind == "jointinferenceservice":
            return self._datasets.kept_by(name)
        if kind == "dataset":
            return self._datasets.below(id_)
        return model_links(self._records, name) if kind == "model" else known

    def trace(self, root: str, depth: int = 0) -> Trace:
        """Both directions from a node, as far as there is something, or `depth` steps where that is not 0."""
        up, ancestors, up_cut = _walk(root, self.above, _FROM, depth)
        down, descendants, down_cut = _walk(root, self.below, _TO, depth)
        nodes = sorted(map(self.node, ancestors | descendants), key=order)
        edges = tuple(Edge(*link) for link in sorted(up | down))
        return Trace(root=root, nodes=tuple(nodes), edges=edges, cut=up_cut + down_cut)


def _walk(root: str, neighbours: Neighbours, end: int, depth: int) -> tuple[set[Link], set[str], int]:
    """Level by level; a node is gone on from once, so that circles end."""
    links: set[Link] = set()
    seen, level, steps = {root}, [root], 0
    while level and (not depth or steps < depth):
        found = [link for id_ in level for link in neighbours(id_)]
        links.update(found)
        level = [id_ for id_ in dict.fromkeys(link[end] for link in found) if id_ not in seen]
        seen.update(level)
        steps += 1
    return links, seen, sum(1 for id_ in level if any(True for _ in neighbours(id_)))


def order(node: Node) -> tuple[int, str]:
    """Nodes of a document stand by kind, then by id."""
    return KINDS.index(node.kind), node.id


def _model_node(id_: str, model: Any) -> Node:
    return Node(id=id_, kind="Model", name=model.metadata.name)


_DESCRIBED: dict[str, Callable[[str, Any], Node]] = {
    "model": _model_node,
    "modelversion": describe.version_node,
    "trainingmodel": describe.training_node,
    "inferencemodel": describe.served_node,
    "jointinferenceservice": describe.joint_node,
}
