"""Somebody who serves models at the edge, and what is seen of them there."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from tests.cluster.builds import JSON
from tests.cluster.edge import pairs
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.state import NodeState
from tests.cluster.serving.team import INFERENCE_MODEL, JOINT_SERVICE, OWNER, Team, joint_service
from tests.cluster.serving.traffic import Traffic

JOINT = "jis/digits"
EDGE_FOLDER = "var/lib/modelwright"
PORTS = itertools.count(18500)
"""A port of the node for each server, so that none meets what is left of another."""


class EdgeTeam(Team):
    """Somebody with models on one node."""

    def __init__(self, cluster: Cluster, namespace: str, node: NodeState) -> None:
        super().__init__(cluster, namespace)
        self.node = node

    def serve_here(self, name: str, **spec: Any) -> None:
        """Apply an InferenceModel that is served on the node, at a port of its own if none is given."""
        here = {"deployToLayer": "edge", "nodeName": self.node.name, "servingPort": next(PORTS)}
        self.serve(name, **{**here, **spec})

    def join(self, name: str, **spec: Any) -> None:
        """Apply a JointInferenceService whose gateway has a port of its own, if none is given."""
        here = {"gateway": {"port": next(PORTS)}, "timeoutSeconds": 1}
        self.cluster.apply(joint_service(name, **{**here, **spec}), namespace=self.namespace)

    def gateway(self, name: str) -> JSON:
        """The Pod of the gateway of a JointInferenceService."""
        found = self.get("pods", "--selector", f"{OWNER}={self.uid(name)}")["items"]
        (pod,) = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return dict(pod)

    def kept(self, name: str) -> Path:
        """Where the node keeps the models of an InferenceModel."""
        return self.kept_of(self.uid(name))

    def kept_of(self, uid: str) -> Path:
        return Path(self.node.root, EDGE_FOLDER, "models", self.namespace, uid)

    def kept_files(self, name: str) -> list[Path]:
        """The model files that the node keeps of it."""
        return sorted(self.kept(name).rglob("*.onnx"))

    def pod(self, name: str) -> JSON:
        """The one Pod that serves the model."""
        (found,) = self.pods(name)
        return found

    def restarts(self, name: str) -> dict[str, int]:
        """How often each container of its Pod was started again."""
        return {each["name"]: each["restartCount"] for each in self.pod(name)["status"]["containerStatuses"]}

    def inside(self, name: str, **how: Any) -> Traffic:
        """Steady requests to the model from its own node, which need no cable."""
        return self.traffic(name, inside=self.cluster.pid(f"containerd-{self.node.name}"), **how)

    def by(self, side: str, *rows: list[float], name: str = JOINT) -> list[int]:
        """Ask a JointInferenceService until this side answers; the classes.

        A side that was away is found again within the pause of a breaker.
        """

        def answered() -> bool:
            return pairs.said(self.ask(name, body=pairs.body(*rows)))[1] == side

        self.wait(answered, f"an answer by {side}", name)
        return pairs.said(self.ask(name, body=pairs.body(*rows)))[0]

    def remove(self, *names: str) -> None:
        """Delete InferenceModels, and wait until nothing is left of them, on the node as well."""
        gone = {name: self.uid(name) for name in names}
        self.kubectl("delete", INFERENCE_MODEL, *names)
        for name, uid in gone.items():
            self.wait(lambda uid=uid: self.owned(uid) == [] and not self.kept_of(uid).exists(), f"{name} to be gone")

    def leave(self) -> None:
        """Delete all that this team has made: its ports and folders are free when its namespace goes."""
        self.kubectl("delete", f"{JOINT_SERVICE},{INFERENCE_MODEL}", "--all", "--timeout=120s")
