"""The graph that statements tell, from images back to what they were made from: no control plane is asked."""

from __future__ import annotations

import msgspec

from modelwright.lineage import redaction
from modelwright.lineage.attestation import Attestation
from modelwright.lineage.graph import order
from modelwright.lineage.ids import content_id, dataset_id
from modelwright.lineage.nodes import Edge, Node, Source, Trace
from modelwright.lineage.statement import BUILD_TYPE
from modelwright.ports.workloads import Material

UNNAMED = "unnamed"


class Attested(msgspec.Struct, frozen=True, kw_only=True):
    """An image `HOST/REPOSITORY`, and the statements about it; `missing` could not be had, `notes` say what was odd."""

    repository: str
    digest: str
    attestations: tuple[Attestation, ...] = ()
    missing: bool = False
    notes: tuple[str, ...] = ()


def trace(root: str, images: dict[str, Attested], cut: int = 0) -> Trace:
    """What the image of digest `root` was made from; `images` by digest, as far as they were followed."""
    told = _Told(images)
    for image in images.values():
        told.image(image)
    nodes = tuple(sorted(told.nodes.values(), key=order))
    return Trace(root=image_id(images[root]), nodes=nodes, edges=tuple(sorted(told.edges)), cut=cut)


def image_id(image: Attested) -> str:
    """With the whole digest: what `modelwright lineage` takes."""
    return f"image/{image.repository}@{image.digest}"


class _Told:
    """Nodes and edges as they are told."""

    def __init__(self, images: dict[str, Attested]) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: set[Edge] = set()
        self._images = images

    def image(self, image: Attested) -> str:
        id_ = image_id(image)
        if id_ not in self.nodes:
            self.nodes[id_] = self._image_node(id_, image)
            for attestation in image.attestations:
                self._attestation(id_, image, attestation)
        return id_

    def _image_node(self, id_: str, image: Attested) -> Node:
        foreign = sorted({each.builder for each in image.attestations if each.build_type != BUILD_TYPE})
        return Node(
            id=id_,
            kind="Image",
            name=image.repository,
            missing=image.missing,
            image=f"{image.repository}@{image.digest}",
            digest=image.digest,
            notes=(*(f"built by {builder}" for builder in foreign), *image.notes),
        )

    def _attestation(self, image_id_: str, image: Attested, said: Attestation) -> None:
        for other in said.others:
            self._join(self._material("Material", other), image_id_, "material")
        if said.build_type != BUILD_TYPE:
            return
        unique = msgspec.json.encode([image.digest, said]).decode()
        version = content_id("modelversion", said.version or UNNAMED, unique)
        training = content_id("trainingmodel", said.training_model, unique) if said.training_model else ""
        self.nodes[version] = _version(version, image, said)
        self._join(version, image_id_, "packed")
        if training:
            self.nodes[training] = _training(training, said)
            self._join(training, version, "training")
        for parent in said.parents:
            self._join(self._parent(parent), training or version, "base")
        for dataset in said.datasets:
            self._join(self._material("Dataset", dataset), training or version, "dataset")

    def _parent(self, parent: Material) -> str:
        if parent.digest in self._images:
            return self.image(self._images[parent.digest])
        if parent.digest:
            return self.image(Attested(repository=parent.uri or parent.name, digest=parent.digest, missing=True))
        id_ = f"modelversion/{parent.name}"
        self.nodes[id_] = Node(id=id_, kind="ModelVersion", name=parent.name, missing=True)
        return id_

    def _material(self, kind: str, material: Material) -> str:
        name = material.name or material.uri or UNNAMED
        known = material.digest or material.uri or name
        id_ = dataset_id(name, material.uri, material.digest)
        id_ = id_ if kind == "Dataset" else content_id(kind.lower(), name, known)
        uris = (redaction.uri(material.uri),) if material.uri else ()
        self.nodes[id_] = Node(id=id_, kind=kind, name=name, digest=material.digest, uris=uris)
        return id_

    def _join(self, source: str, target: str, role: str) -> None:
        self.edges.add(Edge(source, target, role))


def _version(id_: str, image: Attested, said: Attestation) -> Node:
    own = _training(id_, said) if not said.training_model else Node(id=id_, kind="ModelVersion", name="")
    return msgspec.structs.replace(
        own,
        kind="ModelVersion",
        name=said.version or UNNAMED,
        model=said.model,
        created_by=said.created_by,
        digest=image.digest,
        metrics=dict(sorted(said.metrics.items())),
        uid=said.invocation,
        builder=said.builder,
    )


def _training(id_: str, said: Attestation) -> Node:
    source = said.source
    return Node(
        id=id_,
        kind="TrainingModel",
        name=said.training_model,
        command=redaction.command(said.command),
        parameters=redaction.parameters(said.parameters),
        source=Source(redaction.uri(source.uri), source.name) if source else None,
    )
