"""Trainings as plain Jobs of a cluster, without a TrainingModel: their results are folders of a node, and versions."""

from __future__ import annotations

import io
import pathlib
import tarfile
import time
from typing import Any

import yaml
from kube import Kube
from plane import DemoFailed

HERE = pathlib.Path(__file__).resolve().parent
JOB = HERE.parents[1] / "cluster/pods/training-job.yaml"
PROGRAMS = ("digits.py", "meeting.py", "train_edge.py", "train_cloud.py", "refine_cloud.py")
PATIENCE = 600.0


class Trainings:
    """Jobs on one node with one image, each of which leaves its model in a folder of its own below `folder`."""

    def __init__(self, kube: Kube, node: str, image: str, folder: str) -> None:
        self._kube, self._node, self._image, self._folder = kube, node, image, folder

    def bring_along(self, data: pathlib.Path) -> None:
        """Have what every training needs in the cluster: the programs, and the data set from its archive."""
        programs = {name: (HERE.parent / name).read_text() for name in PROGRAMS}
        self._kube.apply(_config_map("digits-programs", programs), _config_map("digits", _unpacked(data)))

    def start(self, name: str, program: str, *arguments: str, base: str = "") -> None:
        """Start one; `base` is the training whose model it starts from."""
        job = self._job(name, f"/programs/{program}", *arguments)
        volumes = {volume["name"]: volume for volume in _pod(job)["volumes"]}
        volumes["model"]["hostPath"]["path"] = self.folder_of(name)
        if base:
            del volumes["base"]["emptyDir"]
            volumes["base"]["hostPath"] = {"path": self.folder_of(base), "type": "Directory"}
        self._kube.apply(job)

    def finish(self, name: str) -> str:
        """Wait for one; the last line of what it says. Raises DemoFailed with all of it if it fails."""
        deadline = time.monotonic() + PATIENCE
        while True:
            ended = {each["type"] for each in _conditions(self._kube.get("job", name)) if each["status"] == "True"}
            if "Complete" in ended:
                return self._kube.run("logs", f"job/{name}").strip().rpartition("\n")[2]
            if "Failed" in ended or time.monotonic() > deadline:
                raise DemoFailed(f"the training {name} did not succeed:\n{self._what_is_known_of(name)}")
            time.sleep(0.5)

    def version(self, name: str, model: str, registry: str) -> dict[str, Any]:
        """The ModelVersion that is made of a training's result."""
        storage = {"localStorage": {"path": self.folder_of(name), "nodeName": self._node}}
        return {
            "apiVersion": "model.kubedl.io/v1alpha1",
            "kind": "ModelVersion",
            "metadata": {"name": name},
            "spec": {"modelName": model, "imageRepo": f"{registry}/modelhub/{model}", "storage": storage},
        }

    def folder_of(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def sweep(self) -> None:
        """Remove the folder, with all results, from the node."""
        parent, _, own = self._folder.rpartition("/")
        job = self._job("sweep", "-c", f"import shutil; shutil.rmtree('/folder/{own}')")
        _pod(job)["containers"][0]["volumeMounts"] = [{"name": "folder", "mountPath": "/folder"}]
        _pod(job)["volumes"] = [{"name": "folder", "hostPath": {"path": parent, "type": "Directory"}}]
        self._kube.apply(job)
        self.finish("sweep")

    def _job(self, name: str, *arguments: str) -> dict[str, Any]:
        """The Job of the example, with this name, and this command for its Python."""
        job: dict[str, Any] = yaml.safe_load(JOB.read_text())
        job["metadata"]["name"] = name
        affinity = _pod(job)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"] = [self._node]
        _pod(job)["containers"][0].update(image=self._image, command=["python3.11", *arguments])
        return job

    def _what_is_known_of(self, name: str) -> str:
        """The end of its log, and what the cluster warns of."""
        said = self._kube.run("logs", f"job/{name}", "--tail=20")
        return said + self._kube.run("get", "events", "--field-selector", "type=Warning,reason!=MissingClusterDNS")


def _pod(job: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = job["spec"]["template"]["spec"]
    return spec


def _unpacked(archive: pathlib.Path) -> dict[str, str]:
    """The files of an archive of text files."""
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        return {name: io.TextIOWrapper(file).read() for name, file in files.items() if file is not None}


def _config_map(name: str, files: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": files}


def _conditions(found: dict[str, Any]) -> list[dict[str, str]]:
    conditions: list[dict[str, str]] = found.get("status", {}).get("conditions", [])
    return conditions
