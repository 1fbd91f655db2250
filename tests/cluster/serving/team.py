"""Somebody who serves models in a namespace, and how it is known what became of them."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.cluster import builds, namespaces
from tests.cluster.builds import JSON, User
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.waiting import until
from tests.cluster.serving import models
from tests.cluster.serving.traffic import Traffic

INFERENCE_MODEL = "inferencemodels.sedna.io"
JOINT_SERVICE = "jointinferenceservices.modelwright.dev"
OWNER = "modelwright.dev/owner-uid"
PROXY_SECONDS = 15.0
CHILDREN = "deployments,replicasets,pods,services,poddisruptionbudgets,configmaps,secrets,jobs"


class Reply(msgspec.Struct, frozen=True):
    """What was answered to a request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Team(User):
    """Somebody with kubectl, a namespace, and models in it. A name without a kind is an InferenceModel's."""

    def serve(self, name: str, **spec: Any) -> None:
        """Apply an InferenceModel (`inference_model`)."""
        self.cluster.apply(inference_model(name, **spec), namespace=self.namespace)

    def change(self, name: str, **spec: Any) -> None:
        """Change fields of an InferenceModel's spec; None removes one."""
        self.kubectl("patch", INFERENCE_MODEL, name, "--type=merge", "--patch", json.dumps({"spec": spec}))

    def model(self, name: str) -> JSON:
        """The InferenceModel as it is, or any other object by KIND/NAME."""
        return self.get(name) if "/" in name else self.get(INFERENCE_MODEL, name)

    def status(self, name: str) -> JSON:
        status: JSON = self.model(name).get("status", {})
        return status

    def conditions(self, name: str) -> dict[str, JSON]:
        """The conditions by type; none while the newest spec has not been looked at."""
        found = self.model(name)
        status = found.get("status", {})
        if status.get("observedGeneration") != found["metadata"]["generation"]:
            return {}
        return {each["type"]: each for each in status.get("conditions", ())}

    def is_ready(self, name: str) -> bool:
        return self.conditions(name).get("Ready", {}).get("status") == "True"

    def ready(self, *names: str) -> None:
        """Wait until the newest spec of each is fully realised."""
        for name in names:
            self.wait(lambda name=name: self.is_ready(name), f"{name} to be Ready", name)

    def said(self, name: str, *reasons: str) -> str:
        """Wait until some condition has this reason, or one of these; its message, which may be another soon."""
        said: list[str] = []

        def is_said() -> bool:
            found = [each for each in self.conditions(name).values() if each["reason"] in reasons]
            said.extend(sorted((str(each.get("message", "")) for each in found), key=len))
            return bool(said)

        self.wait(is_said, f"{name} to say {' or '.join(reasons)}", name)
        return said[-1]

    def wait(self, condition: Any, what: str, name: str = "", seconds: float = builds.DEADLINE_SECONDS) -> None:
        """Wait for it. Raises TimeoutError, with what is known of the object and of all Pods."""
        try:
            until(condition, what, seconds, 0.3)
        except TimeoutError as late:
            kind = [name] if "/" in name else [INFERENCE_MODEL, *([name] if name else [])]
            late.add_note(self.kubectl("describe", *kind, check=False))
            of = f"{OWNER}={self.uid(name)}" if name else OWNER
            late.add_note(self.kubectl("describe", "deployments,pods,services", "--selector", of, check=False))
            for container in ("fetch", "keeper", "server", "gateway"):
                logs = ("logs", "--selector", of, f"--container={container}", "--prefix", "--ignore-errors")
                late.add_note(self.kubectl(*logs, check=False))
            raise

    # Asking ---------------------------------------------------------------------------------------------------------

    def url(self, name: str) -> str:
        """Where the model answers, as its status says it; waits until it does."""
        self.wait(lambda: self.status(name).get("url"), f"{name} to have a URL", name)
        return str(self.status(name)["url"])

    def ask(self, name: str, path: str = ":predict", **how: Any) -> Reply:
        """Ask the model at its URL, followed by `path`."""
        return ask(self.url(name) + path, **how)

    def value(self, name: str) -> float:
        """What the model answers to `models.BODY`: which of the test's models it is."""
        return number(self.ask(name))

    def traffic(self, name: str, **how: Any) -> Traffic:
        """Steady requests to the model, which is not yet asked, but reached."""
        if "inside" not in how:
            self.ask(name, "", body=None, ca_file=how.get("ca_file"))
        return Traffic(f"{self.url(name)}:predict", **how)

    # What is there --------------------------------------------------------------------------------------------------

    def pods(self, name: str) -> list[JSON]:
        """The Pods that serve the model and are not being deleted, oldest first."""
        selector = self.status(name).get("selector", "")
        found = self.get("pods", "--selector", selector)["items"] if selector else []
        kept = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return sorted(kept, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def owned(self, uid: str) -> list[str]:
        """What is there on behalf of the object with this UID: KIND/NAME."""
        found = self.get(CHILDREN, "--selector", f"{OWNER}={uid}")["items"]
        return sorted(f"{item['kind']}/{item['metadata']['name']}" for item in found)

    def uid(self, name: str) -> str:
        return str(self.model(name)["metadata"]["uid"])

    def told_events(self, name: str) -> list[tuple[str, str, str]]:
        """Type, reason and message of each Event of an InferenceModel, or of KIND/NAME; first seen first."""
        selector = f"involvedObject.uid={self.uid(name)}"
        items = self.get("events", "--field-selector", selector)["items"]
        items.sort(key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]))
        return [(item["type"], item["reason"], item["message"]) for item in items]

    def event(self, name: str, reason: str) -> str:
        """Wait for an Event with this reason; its message."""
        self.wait(lambda: any(each[1] == reason for each in self.told_events(name)), f"the Event {reason}", name)
        return next(each[2] for each in self.told_events(name) if each[1] == reason)

    def warned(self, name: str, text: str) -> None:
        """Wait for an Event of the type Warning that says this: it may come after the condition that says the same."""
        self.wait(lambda: any(each[0] == "Warning" and text in each[2] for each in self.told_events(name)), text, name)


@contextmanager
def team_of(cluster: Cluster, level: str = "restricted") -> Iterator[Team]:
    """Somebody with a namespace of this level."""
    with namespaces.fresh(cluster, level) as namespace:
        yield Team(cluster, namespace)


def inference_model(name: str, **spec: Any) -> JSON:
    """An InferenceModel of the same model name, in the cloud, on ONNX, at a NodePort, if nothing else is said.

    What is None is left out.
    """
    usual: JSON = {"modelName": name, "deployToLayer": "cloud", "frameworkType": "onnx"}
    if spec.get("deployToLayer", "cloud") == "cloud":
        usual["service"] = {"type": "NodePort"}  # the test cluster has nobody who gives addresses to LoadBalancers
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": name},
        "spec": {field: value for field, value in {**usual, **spec}.items() if value is not None},
    }


def joint_service(name: str, **spec: Any) -> JSON:
    """A JointInferenceService."""
    return {
        "apiVersion": "modelwright.dev/v1alpha1",
        "kind": "JointInferenceService",
        "metadata": {"name": name},
        "spec": spec,
    }


def manifest(**versions: tuple[str, str]) -> list[JSON]:
    """The manifest with these versions: URL and sha256, empty for none."""
    entries = []
    for version, (url, sha256) in versions.items():
        entries.append({"version": version, "downloadURL": url, **({"sha256sum": sha256} if sha256 else {})})
    return entries


def secret(name: str, type_: str = "Opaque", **data: str) -> JSON:
    """A Secret; `_` in a key stands for a point."""
    keys = {key.replace("_", "."): value for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": type_, "stringData": keys}


def ask(
    url: str,
    *,
    body: bytes | None = models.BODY,
    method: str = "",
    headers: dict[str, str] | None = None,
    ca_file: Path | None = None,
    seconds: float = 30.0,
    patience: float = PROXY_SECONDS,
) -> Reply:
    """Ask once; the answer, whatever its status. Raises OSError if there is none.

    A refused connection is tried again: kube-proxy needs a moment until a port leads to a Pod that is ready by now.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return _ask(url, body, method, headers, ca_file, seconds)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _ask(
    url: str, body: bytes | None, method: str, headers: dict[str, str] | None, ca_file: Path | None, seconds: float
) -> Reply:
    request = urllib.request.Request(url, data=body, headers=headers or {}, method=method or None)
    tls = ssl.create_default_context(cafile=ca_file) if ca_file else None
    try:
        with urllib.request.urlopen(request, timeout=seconds, context=tls) as answer:
            return Reply(answer.status, _lower(answer.headers.items()), answer.read())
    except urllib.error.HTTPError as answer:
        with answer:
            return Reply(answer.code, _lower(answer.headers.items()), answer.read())


def number(reply: Reply) -> float:
    """The first number of a prediction. Raises AssertionError for any other answer."""
    assert reply.status == 200, (reply.status, reply.body)
    found = reply.json["predictions"][0]
    while isinstance(found, list):
        found = found[0]
    return float(found)


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers}
