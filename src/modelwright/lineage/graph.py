"""The graph of a namespace, and walks through it in both directions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from modelwright.lineage import describe
from modelwright.lineage.datasets import Datasets, Link
from modelwright.lineage.links import ServedLinks, joint_links, model_links, version_links
from modelwright.lineage.nodes import KINDS, Edge, Node, Trace
from modelwright.lineage.records import Records

Neighbours = dict[str, list[Link]]
_KIND_OF = {kind.lower(): kind for kind in KINDS}
_FROM, _TO = 0, 1


class Graph:
    """Who used what, from the records of one namespace. Things that are named and not there are nodes too."""

    def __init__(self, records: Records) -> None:
        self._all = records
        self._datasets = Datasets(records)
        self._served = ServedLinks(records)
        self._records: dict[str, tuple[Callable[[str, Any], Node], Any]] = {}
        for kind, make, found in (
            ("model", _model_node, records.models),
            ("modelversion", describe.version_node, records.versions),
            ("trainingmodel", describe.training_node, records.trainings),
            ("inferencemodel", describe.served_node, records.served),
            ("jointinferenceservice", describe.joint_node, records.joint),
        ):
            self._records.update({f"{kind}/{each.metadata.name}": (make, each) for each in found})
        self._above: Neighbours = {}
        self._below: Neighbours = {}
        self._link(records)

    def _link(self, records: Records) -> None:
        above, below = self._above, self._below
        everything = chain(
            self._datasets.links(),
            self._datasets.hard_examples(records),
            version_links(records),
            self._served.links(),
            joint_links(records),
        )
        for link in everything:
            source, target = link[_FROM], link[_TO]
            if source in below:
                below[source].append(link)
            else:
                below[source] = [link]
            if target in above:
                above[target].append(link)
            else:
                above[target] = [link]

    def __contains__(self, id_: str) -> bool:
        return id_ in self._records or id_ in self._above or id_ in self._below

    def find(self, name: str, kinds: tuple[str, ...] = KINDS) -> list[str]:
        """The ids of all nodes of this name (or whole id), of these kinds; the real ones if there are any."""
        wanted = [kind.lower() for kind in kinds]
        found = [f"{kind}/{name}" for kind in wanted if f"{kind}/{name}" in self]
        if "dataset" in wanted:
            datasets = self._datasets.by_id.items()
            found += sorted(id_ for id_, dataset in datasets if name in dataset.names and id_ not in found)
        if "file" in wanted:
            found += sorted(id_ for id_, file in self._served.files.items() if file.version == name)
        there = [id_ for id_ in found if not self.node(id_).missing]
        return there or found

    def joins(self, source: str, target: str) -> bool:
        """Whether one was used for the other directly."""
        return any(link[_TO] == target for link in self._below.get(source, ()))

    def node(self, id_: str) -> Node:
        """What is known of a node."""
        if id_ in self._records:
            make, record = self._records[id_]
            return make(id_, record)
        if id_ in self._datasets.by_id:
            return describe.dataset_node(id_, self._datasets.by_id[id_])
        if id_ in self._served.files:
            return describe.file_node(id_, self._served.files[id_])
        kind, _, name = id_.partition("/")
        image = self._served.images.get(id_, "")
        return Node(id=id_, kind=_KIND_OF[kind], name=name, image=image, missing=not image)

    def trace(self, root: str, depth: int = 0) -> Trace:
        """Both directions from a node, as far as there is something, or `depth` steps where that is not 0."""
        self._link_model(root)
        up, ancestors, up_cut = self._walk(root, self._above, _FROM, depth)
        down, descendants, down_cut = self._walk(root, self._below, _TO, depth)
        nodes = sorted(map(self.node, ancestors | descendants), key=order)
        edges = tuple(Edge(*link) for link in sorted(up | down))
        return Trace(root=root, nodes=tuple(nodes), edges=edges, cut=up_cut + down_cut)

    def _link_model(self, id_: str) -> None:
        """The versions of a Model are looked for only if somebody asks for the Model."""
        kind, _, name = id_.partition("/")
        if kind == "model" and id_ not in self._below:
            self._below[id_] = model_links(self._all, name)

    def _walk(self, root: str, neighbours: Neighbours, end: int, depth: int) -> tuple[set[Link], set[str], int]:
        """Level by level; a node is gone on from once, so that circles end."""
        links: set[Link] = set()
        seen, level, steps = {root}, [root], 0
        while level and (not depth or steps < depth):
            found = [link for id_ in level for link in neighbours.get(id_, ())]
            links.update(found)
            level = [id_ for id_ in dict.fromkeys(link[end] for link in found) if id_ not in seen]
            seen.update(level)
            steps += 1
        return links, seen, sum(1 for id_ in level if id_ in neighbours)


def order(node: Node) -> tuple[int, str]:
    """Nodes of a document stand by kind, then by id."""
    return KINDS.index(node.kind), node.id


def _model_node(id_: str, model: Any) -> Node:
    return Node(id=id_, kind="Model", name=model.metadata.name)
