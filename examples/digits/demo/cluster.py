"""Serving and joint inference on a Kubernetes cluster, with models that plain Jobs train. `make demo-cluster` runs it.

On the cluster of KUBECONFIG (with MODELWRIGHT_REGISTRY=HOST:PORT, and MODELWRIGHT_PLAIN_HTTP=1 where that registry
speaks no TLS), else on a test cluster of two nodes that it starts here. What it makes it removes.

Needs kubectl and helm, and to build the images, what deploy/image/build.py needs.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from installing import TRAINER, Images, installed_operator
from jobs import Trainings
from kube import Kube, cluster
from plane import Client, DemoFailed
from story import Story, headline, say

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE = 600
EDGE_ROLE = "node-role.kubernetes.io/edge"
"""How KubeEdge labels its nodes."""
CONTROL_PLANE_ROLE = "node-role.kubernetes.io/control-plane"
KEEP = "    keep:\n      maxBytes: 1000000\n"
OURS = "app.kubernetes.io/managed-by=modelwright"


class OnCluster(Story):
    """The demo's steps; the edge model and the gateway are on one node, and trainings on another, if there is one."""

    def __init__(self, client: Client, folder: pathlib.Path, trainings: Trainings, kube: Kube, edge_node: str) -> None:
        super().__init__(client, folder, PATIENCE)
        self._trainings = trainings
        self._kube = kube
        self._edge_node = edge_node

    def manifest(self, name: str) -> str:
        """As it is, but for the node; and no hard rows are kept: they would outlive the demo on the node."""
        text = super().manifest(name).replace("nodeName: edge-1 ", f"nodeName: {self._edge_node} ")
        return text.replace(KEEP, "")

    def train(self) -> None:
        """Two models from nothing, and one from the second of these."""
        self._trainings.bring_along(self._folder / "digits.tar")
        self._trainings.start("digits-edge-v1", "train_edge.py", "--strength", "0.01")
        self._trainings.start("digits-cloud-v1", "train_cloud.py", "--folds", "3")
        for name in ("digits-edge-v1", "digits-cloud-v1"):
            say(f"{name}: {self._trainings.finish(name)}")
        self._trainings.start("digits-cloud-v2", "refine_cloud.py", "--shift", "1", base="digits-cloud-v1")
        say(f"digits-cloud-v2: {self._trainings.finish('digits-cloud-v2')}")

    def pack(self) -> None:
        """Each result becomes a version."""
        names = ("digits-edge-v1", "digits-cloud-v1", "digits-cloud-v2")
        models = {name: name.rpartition("-")[0] for name in names}
        self._kube.apply(*(self._trainings.version(name, model, self._kube.registry) for name, model in models.items()))
        self._client.wait(*(f"mv/{name}" for name in names))
        for name in names:
            status = self._client.status(f"mv/{name}")
            say(f"{name}: {status['sizeBytes'] / 1000:,.0f} kB, {status['image']}")
            print(f"digest {status['imageDigest']}", flush=True)

    def where(self) -> None:
        """On which nodes what runs, as the cluster says it."""
        for pod in self._kube.items("pods", "--field-selector", "status.phase=Running"):
            say(f"{pod['spec']['nodeName']}: {pod['metadata']['name']}")


def demo(folder: pathlib.Path, options: argparse.Namespace) -> None:
    prepare = [sys.executable, str(HERE.parent / "prepare.py"), str(folder)]
    subprocess.run(prepare, check=True, stdout=subprocess.DEVNULL)
    headline("A cluster, our images in its registry, and the operator")
    with cluster(keep=options.keep) as plain:
        say(f"{plain.kubeconfig}, registry {plain.registry}")
        images = Images(plain, dict(options.image))
        with installed_operator(plain, images, keep=options.keep), namespace(plain, folder, options) as kube:
            cloud_node, edge_node = nodes(kube, options)
            say(f"cloud model and trainings on {cloud_node}, edge model and gateway on {edge_node}")
            with trainings(kube, cloud_node, images[TRAINER], keep=options.keep) as jobs:
                client = Client(plain.kubeconfig, pathlib.Path(kube.kubeconfig), PATIENCE)
                tell(OnCluster(client, folder, jobs, kube, edge_node))


def tell(story: OnCluster) -> None:
    headline("Train a small model, a strong one and a second strong one, as plain Jobs")
    story.train()
    headline("Make versions of the folders that they leave on their node")
    story.pack()
    headline("Serve the small one at the edge, and the strong one in the cloud")
    story.serve_both(story.manifest("serve-edge"), story.manifest("serve-cloud"))
    headline("Join them: the edge model answers, and asks the cloud model when it is not sure")
    story.join()
    story.where()
    headline("Switch to the second cloud model and back while requests run")
    story.switch()
    headline("Stop the cloud model while requests run, and start it again")
    story.lose_the_cloud()


def nodes(kube: Kube, options: argparse.Namespace) -> tuple[str, str]:
    """A node for what runs in the cloud, and one for the edge, if none are given; the same one if there is only one."""
    found = [node for node in kube.items("nodes") if not node["spec"].get("unschedulable")]
    ours = [node for node in found if CONTROL_PLANE_ROLE not in node["metadata"]["labels"]] or found
    ours.sort(key=lambda node: (EDGE_ROLE in node["metadata"]["labels"], node["metadata"]["name"]))
    if not ours:
        raise DemoFailed("the cluster has no node to run anything on")
    names = [node["metadata"]["name"] for node in ours]
    return options.cloud_node or names[0], options.edge_node or names[-1]


@contextlib.contextmanager
def namespace(kube: Kube, folder: pathlib.Path, options: argparse.Namespace) -> Iterator[Kube]:
    """A namespace of the demo's own that admits edge Pods; removed with all in it, unless it is to be kept."""
    name = f"modelwright-demo-{os.urandom(3).hex()}"
    labels = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")}
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    try:
        kube.run("wait", "--for=create", "--timeout=60s", "serviceaccount/default", "--namespace", name)
        yield kube.in_namespace(name, folder)
    finally:
        if options.keep:
            say(f"namespace {name} is kept")
        else:
            kube.run("delete", "namespace", name, "--timeout=180s")


@contextlib.contextmanager
def trainings(kube: Kube, node: str, image: str, *, keep: bool) -> Iterator[Trainings]:
    """What trains on a node. At the end, what was made of the results is removed first, and they themselves then."""
    made = Trainings(kube, node, image, f"/tmp/{kube.namespace}")
    try:
        yield made
    finally:
        if not keep:
            for kinds in ("jis", "infm", "mv,mo"):
                kube.run("delete", kinds, "--all", "--timeout=180s")
            kube.run("wait", "--for=delete", "pods", "--selector", OURS, "--timeout=180s")
            made.sweep()
            say("models and results are removed")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave everything as it is at the end, to look at")
    parser.add_argument("--cloud-node", metavar="NAME", help="where the cloud model and the trainings run")
    parser.add_argument("--edge-node", metavar="NAME", help="where the edge model and the gateway run")
    parser.add_argument(
        "--image", action="append", default=[], type=_image, metavar="NAME=REF", help="use this image, do not build it"
    )
    return parser.parse_args()


def _image(text: str) -> tuple[str, str]:
    name, separator, reference = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"NAME=REF, not {text!r}")
    return name, reference


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it cleans up then, too
    options = arguments()
    folder = tempfile.TemporaryDirectory(prefix="modelwright-demo-", ignore_cleanup_errors=True)
    try:
        demo(pathlib.Path(folder.name), options)
    except (DemoFailed, OSError, http.client.HTTPException, KeyError, ValueError, subprocess.SubprocessError) as error:
        print(f"demo: FAIL ({error if isinstance(error, DemoFailed) else repr(error)})", flush=True)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: stopped", flush=True)
        return 130
    finally:
        folder.cleanup()
    print("\ndemo: PASS", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
