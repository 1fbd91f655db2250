"""What users of a cluster do with model versions, and how it is known what became of them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster import namespaces
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.waiting import until

JSON = dict[str, Any]
VERSION = "modelversions.model.kubedl.io"
DEADLINE_SECONDS = 180.0
AGAIN = "modelwright.dev/reconcile-requested-at"


class User:
    """Somebody with kubectl and a namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """What kubectl printed. Raises CalledProcessError."""
        return self.cluster.run("--namespace", self.namespace, *arguments, stdin=stdin, check=check)

    def refused(self, *objects: JSON) -> str:
        """What kubectl complains of when these are made."""
        command = [str(self.cluster.kubectl), f"--kubeconfig={self.cluster.kubeconfig}", "--namespace", self.namespace]
        done = subprocess.run([*command, "create", "-f", "-"], input=_list(objects), capture_output=True, text=True)
        assert done.returncode == 1, done.stdout
        return done.stderr

    def create(self, *objects: JSON) -> None:
        """Make these."""
        self.kubectl("create", "-f", "-", stdin=_list(objects))

    def get(self, *arguments: str) -> JSON:
        """`kubectl get ARGUMENTS -o json`."""
        return self.cluster.get("--namespace", self.namespace, *arguments)

    def version(self, name: str) -> JSON:
        """The ModelVersion as it is."""
        return self.get(VERSION, name)

    def condition(self, name: str, type_: str = "Ready") -> JSON:
        """The condition of a ModelVersion, or of KIND/NAME; empty if it has none of this type."""
        found = self.get(name) if "/" in name else self.version(name)
        conditions = found.get("status", {}).get("conditions") or []
        return next((each for each in conditions if each["type"] == type_), {})

    def ready(self, *names: str) -> None:
        """Wait until these ModelVersions have their images."""
        for name in names:
            self.until(lambda name=name: self.condition(name).get("status") == "True", f"{name} to be Ready", name)

    def told(self, name: str, reason: str) -> str:
        """Wait until a ModelVersion has this reason; its message."""
        self.until(lambda: self.condition(name).get("reason") == reason, f"{name} to say {reason}", name)
        return str(self.condition(name)["message"])

    def until(self, condition: Any, what: str, name: str = "") -> None:
        """Wait for it. Raises TimeoutError, with what is known of the ModelVersion."""
        try:
            until(condition, what, DEADLINE_SECONDS, 0.3)
        except TimeoutError as late:
            late.add_note(self.kubectl("describe", VERSION, *([name] if name else [])))
            late.add_note(self.kubectl("describe", "jobs,pods,pvc"))
            raise

    def try_again(self, name: str) -> None:
        """As the message of a version that has failed for good says it."""
        self.kubectl("annotate", f"mv/{name}", "--overwrite", f"{AGAIN}={os.urandom(4).hex()}")

    def events(self, name: str) -> list[tuple[str, str]]:
        """Type and reason of each Event of a ModelVersion, first seen first."""
        found = self.get("events", "--field-selector", f"involvedObject.kind=ModelVersion,involvedObject.name={name}")
        items = sorted(found["items"], key=lambda item: item["metadata"]["creationTimestamp"])
        return [(item["type"], item["reason"]) for item in items]

    def warned_once(self, name: str, reason: str) -> None:
        """Wait until a ModelVersion has a Warning, which may come after its image: this one, and no other."""
        self.until(lambda: ("Warning", reason) in self.events(name), f"the Event {reason} of {name}", name)
        assert [each for each in self.events(name) if each[0] == "Warning"] == [("Warning", reason)]

    def children(self, name: str) -> list[str]:
        """What is there of a ModelVersion's build: KIND/NAME."""
        uid = self.version(name)["metadata"]["uid"]
        kinds = "jobs,pods,persistentvolumeclaims,persistentvolumes"
        found = self.get(kinds, "--selector", f"modelwright.dev/owner-uid={uid}")["items"]
        return [f"{item['kind']}/{item['metadata']['name']}" for item in found]

    def cleared(self, name: str) -> None:
        """Wait until nothing is there any more of a ModelVersion's build."""
        self.until(lambda: self.children(name) == [], f"the build of {name} to be cleared away", name)


@contextmanager
def user_of(cluster: Cluster, level: str = "restricted") -> Iterator[User]:
    """Somebody with a namespace of this level."""
    with namespaces.fresh(cluster, level) as namespace:
        yield User(cluster, namespace)


def version(name: str, storage: JSON, **spec: Any) -> JSON:
    """A ModelVersion; of the Model `models`, and with a repository of its own, if nothing else is said."""
    wanted = {"modelName": "models", "createdBy": "user1", "imageRepo": f"modelhub/{name}", "storage": storage, **spec}
    return {
        "apiVersion": "model.kubedl.io/v1alpha1",
        "kind": "ModelVersion",
        "metadata": {"name": name},
        "spec": wanted,
    }


def local(node: str, path: str) -> JSON:
    """The storage: a folder of a node."""
    return {"localStorage": {"path": path, "nodeName": node}}


# Files --------------------------------------------------------------------------------------------------------------


def write_model(folder: Path, salt: str, size: int = 3 << 20) -> None:
    """Files with names that are easy to get wrong; the same for the same salt, as user 1234 keeps them."""
    weights = hashlib.shake_256(salt.encode()).digest(size)
    for path, data in {
        "weights.bin": weights,
        "config.json": json.dumps({"salt": salt}).encode(),
        "a folder/with space, ünïcode.txt": b"words",
        ".hidden/.file": b"",
        "variables/1/deep": b"d" * 70_000,
    }.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        os.utime(file, (1_600_000_000, 1_600_000_000))
        os.chown(file, 1234, 1234)
    (folder / "config.json").chmod(0o444)


def seen(folder: Path) -> dict[str, tuple[int, int, int, int, bytes]]:
    """All that a build could change of a folder: mode, owner, group, time of change and content of what is in it."""
    return {
        str(path.relative_to(folder)): (at.st_mode, at.st_uid, at.st_gid, at.st_mtime_ns, _content(path))
        for path in [folder, *sorted(folder.rglob("*"))]
        for at in [path.lstat()]
    }


def files(folder: Path) -> dict[str, bytes]:
    """The files of a folder by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


# Images -------------------------------------------------------------------------------------------------------------


def modelwright(*arguments: str, **variables: str) -> str:
    """The program as a person runs it; what it printed. Raises AssertionError with what it complained of."""
    command = [sys.executable, "-m", "modelwright", *arguments]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pulled(image: str, *options: str, **variables: str) -> dict[str, bytes]:
    """The files of an image's model, pulled from its registry."""
    with tempfile.TemporaryDirectory() as folder:
        modelwright("image", "pull", *(options or ("--plain-http",)), image, f"{folder}/model", **variables)
        return files(Path(folder, "model"))


def digest_here(cluster: Cluster, folder: Path) -> str:
    """The digest that this machine's builder gives the folder."""
    reference = f"{cluster.registry}/here/{os.urandom(6).hex()}:v1"
    return modelwright("image", "build", "--plain-http", str(folder), reference).split()[-1]


# Pods ---------------------------------------------------------------------------------------------------------------


class PodWatch:
    """Every state of every Pod of a namespace, from the beginning: Pods of builds do not stay."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def states(self, uid: str) -> list[JSON]:
        """The Pods of this ModelVersion, as they were seen, oldest first."""
        text, decoder, found, position = self._log.read_text(), json.JSONDecoder(), [], 0
        while position < len(text):
            try:
                event, end = decoder.raw_decode(text, position)
            except json.JSONDecodeError:  # it is being written
                break
            found.append(event["object"])
            position = end + len(text[end:]) - len(text[end:].lstrip())
        return [pod for pod in found if pod["metadata"]["labels"].get("modelwright.dev/owner-uid") == uid]


@contextmanager
def watched_pods(user: User) -> Iterator[PodWatch]:
    """Watch the Pods of the user's namespace."""
    command = [str(user.cluster.kubectl), f"--kubeconfig={user.cluster.kubeconfig}", "--namespace", user.namespace]
    wanted = ["get", "pods", "--watch", "--output-watch-events", "-o", "json"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "pods")
        with log.open("wb") as output, subprocess.Popen([*command, *wanted], stdout=output) as process:
            try:
                yield PodWatch(log)
            finally:
                process.terminate()


def _list(objects: tuple[JSON, ...]) -> str:
    return "\n".join(map(json.dumps, objects))
