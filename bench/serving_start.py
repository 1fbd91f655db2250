"""How long a model takes from its creation to its first answer, where all images are on the node already."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.serving_models import packed
from bench.serving_site import Api, Site, say
from tests.cluster import namespaces
from tests.cluster.builds import JSON
from tests.cluster.edge.edge_team import PORTS
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.names import BARE_NODE
from tests.cluster.serving import models
from tests.cluster.serving.team import INFERENCE_MODEL, inference_model, manifest

GOAL_SECONDS = 5.0
CLOUD_NODE = "cloud-0"


def measure(site: Site) -> None:
    """A small model as several InferenceModels, one after the other; those that answer stay until the end."""
    file = packed(models.onnx_model(site.folder / "started", 1))
    source = {"manifest": manifest(v1=(site.downloads.give(file), file.sha256)), "targetVersion": "v1"}
    site.cluster.start_node(BARE_NODE)
    count = 3 if site.quick else 10
    for layer in ("cloud", "edge"):
        taken = sorted(first_answers(site.cluster, layer, source, count))
        what = f"{layer}: creation to first answer, p50 of {count}"
        site.figures.most(what, statistics.median(taken), GOAL_SECONDS, "s")
        site.figures.report("  fastest / slowest", f"{taken[0]:.2f} / {taken[-1]:.2f} s")


def first_answers(cluster: Cluster, layer: str, source: JSON, count: int) -> list[float]:
    """Seconds of each: a first one, which brings the images, is not counted."""
    taken = []
    with namespaces.fresh(cluster, "privileged") as namespace, Api(cluster, namespace) as api:
        try:
            for number in range(count + 1):
                say(f"{layer}: model {number} of {count}")
                name = f"started-{number}"
                began = api.create(inference_model(name, **source, **place(layer)))
                answered = api.answers(name)
                api.ready(name)
                taken.append(answered - began)
        finally:
            cluster.run("delete", INFERENCE_MODEL, "--all", "--namespace", namespace, "--timeout=180s")
    return taken[1:]


def place(layer: str) -> dict[str, Any]:
    """Where a model is served: on a node that is named, so that its images are there."""
    if layer == "cloud":
        return {"deployToLayer": "cloud", "nodeName": CLOUD_NODE}
    return {"deployToLayer": "edge", "nodeName": BARE_NODE, "servingPort": next(PORTS)}
