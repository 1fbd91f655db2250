"""What a graph of lineage is made of: nodes, and edges that lead from what was used to what was made of it.

These structs are the JSON of `modelwright lineage -o json`: their names are promised in docs/lineage.md.
"""

from __future__ import annotations

import msgspec

KINDS = (
    "Dataset",
    "File",
    "Image",
    "Material",
    "Model",
    "TrainingModel",
    "ModelVersion",
    "InferenceModel",
    "JointInferenceService",
)


class Source(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The code that trained."""

    repo: str = ""
    revision: str = ""


class Node(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A thing in the graph; `id` is `KIND/NAME` in lower case, unique in its graph.

    `missing` is named by another thing, and not there. Digests are `sha256:HEX`, sizes bytes.
    """

    id: str
    kind: str
    name: str
    missing: bool = False
    status: str = ""
    model: str = ""
    created_by: str = ""
    image: str = ""
    digest: str = ""
    base_image: str = ""
    files: int = 0
    size_bytes: int = 0
    uris: tuple[str, ...] = ()
    metrics: dict[str, float] = {}
    command: str = ""
    parameters: dict[str, str] = {}
    workers: int = 0
    framework: str = ""
    source: Source | None = None
    layer: str = ""
    serving_version: str = ""
    url: str = ""
    policy: str = ""
    uid: str = ""
    builder: str = ""
    notes: tuple[str, ...] = ()


class Edge(msgspec.Struct, frozen=True, rename={"source": "from", "target": "to"}, omit_defaults=True, order=True):
    """`source` was used for `target`; `role` says as what, and `by` how that is known where nobody has said it."""

    source: str
    target: str
    role: str
    by: str = ""


class Trace(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Everything that `root` was made from, and everything that was made of it: follow the edges back, and forth.

    `cut` counts the nodes whose further neighbours were left out, since they are too far away.
    """

    # A default_factory is written even when it is the default: a document says what it is.
    api_version: str = msgspec.field(default_factory=lambda: "modelwright.dev/v1alpha1")
    kind: str = msgspec.field(default_factory=lambda: "Lineage")
    root: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = msgspec.field(default_factory=tuple)
    cut: int = 0
