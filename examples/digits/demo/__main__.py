"""The whole story on one machine: train, pack, serve, let edge and cloud answer together, switch. `make demo` runs it.

Everything goes through the command line and the served URLs, as a user would do it: nothing here imports Modelwright.
The manifests are those beside this folder. It works in a new folder with a control plane of its own, and removes both.
"""

from __future__ import annotations

import http.client
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import archive
from asking import Device, Requests, held_out, one_by_one, share_right
from plane import Client, DemoFailed, control_plane

HERE = pathlib.Path(__file__).resolve().parent
NO_SUM = "0" * 64
PATIENCE = 60.0


class Demo:
    """The steps, in their order; each checks what it shows."""

    def __init__(self, client: Client, folder: pathlib.Path) -> None:
        self._client = client
        self._folder = folder
        self._images, self._digits = held_out(folder / "digits.tar")
        self._urls: dict[str, str] = {}
        self._joint = 0.0

    def manifest(self, name: str) -> str:
        return (self._folder / f"{name}.yaml").read_text()

    def train(self, *names: str) -> None:
        """Run trainings; each ends as a version that is packed, and pushed to the registry."""
        self._client.apply(*(self.manifest(f"train-{name}") for name in names))
        self._client.wait(*(f"tm/{version_of(name)}" for name in names))
        for name in names:
            status = self._client.status(f"mv/{version_of(name)}")
            size, measured = status["sizeBytes"], status["metrics"]["accuracy"]
            say(f"{version_of(name)}: accuracy {measured:.3f}, {size / 1000:,.0f} kB, {status['image']}")
            print(f"digest {status['imageDigest']}", flush=True)

    def serve(self, files: str) -> None:
        """The edge model from an archive of what is in the registry, the cloud model from its version."""
        self._client.apply(self.edge_manifest(files), self.manifest("serve-cloud"))
        self._client.wait("infm/digits-edge", "infm/digits-cloud")
        for name in ("digits-edge", "digits-cloud"):
            self._urls[name] = self._client.status(f"infm/{name}")["url"]
            say(f"{name} answers at {self._urls[name]}")

    def edge_manifest(self, files: str) -> str:
        image = self._client.status("mv/digits-edge-v1")["resolvedImage"]
        self._client.run("image", "pull", image, str(self._folder / "edge-v1"))
        digest = archive.pack(self._folder / "edge-v1", self._folder / "files" / "edge-v1.tar")
        local = (self._folder / "edge-v1.tar").as_uri()
        manifest = self.manifest("serve-edge-download").replace(local, f"{files}/edge-v1.tar")
        return manifest.replace(NO_SUM, digest)

    def join(self) -> None:
        """One URL for both models; what it is worth is measured."""
        self._client.apply(self.manifest("join"))
        self._client.wait("jis/digits")
        self._urls["digits"] = self._client.status("jis/digits")["url"]
        edge, cloud = (self.accuracy(name, "") for name in ("digits-edge", "digits-cloud"))
        answers, share = one_by_one(self._urls["digits"], self._images)
        joint = self._joint = share_right(answers, self._digits)
        print(f"accuracy edge {edge:.3f} cloud {cloud:.3f} joint {joint:.3f} share {share:.2f}", flush=True)
        check(edge < cloud, "the cloud model should be better than the edge model")
        check(joint >= cloud - 0.005, "edge and cloud together should be as good as the cloud model")
        check(0 < share <= 0.3, "at most 30 % of the digits should go to the cloud")

    def accuracy(self, name: str, served_by: str) -> float:
        """Of a served model, or of both together, on the held-out digits; asked until the answer is of that side."""
        with Device(self._urls[name]) as device:
            answer = device.ask(self._images)
            deadline = time.monotonic() + PATIENCE
            while answer.served_by != served_by:
                check(time.monotonic() < deadline, f"{name} should answer by {served_by}, not by {answer.served_by}")
                answer = device.ask(self._images)
        return share_right(answer.digits, self._digits)

    def lineage(self) -> None:
        print(self._client.run("lineage", "jis/digits").rstrip(), flush=True)

    def switch(self) -> None:
        """Another version of the cloud model, and the first one again, while requests run."""
        with Requests(self._urls["digits"], self._images) as requests:
            requests.more()
            self._client.apply(self.manifest("serve-cloud").replace("digits-cloud-v1", "digits-cloud-v2"))
            self._client.wait("infm/digits-cloud")
            requests.more()
            second = self.accuracy("digits", "mixed")
            self._client.run("rollback", "infm/digits-cloud")
            self._client.wait("infm/digits-cloud")
            requests.more()
        again = self.accuracy("digits", "mixed")
        say(f"both together: accuracy {self._joint:.3f}, after the switch {second:.3f}, rolled back {again:.3f}")
        report("switch and rollback", requests)
        check(second >= self._joint, "the second version should not be worse")
        check(again == self._joint, "after the rollback the accuracy should be what it was")

    def lose_the_cloud(self) -> None:
        """No replica of the cloud model is left: the edge answers alone; then the cloud comes back."""
        with Requests(self._urls["digits"], self._images) as requests:
            requests.more()
            self._client.apply(self.manifest("serve-cloud").replace("replicas: 1", "replicas: 0"))
            self._client.wait("infm/digits-cloud")
            until(lambda: set(requests.more()) == {"edge"}, "the edge model answers alone")
            self._client.apply(self.manifest("serve-cloud"))
            self._client.wait("infm/digits-cloud")
            until(lambda: requests.more()["cloud"] > 0, "the cloud model is asked again")
        report("without the cloud", requests)


def version_of(name: str) -> str:
    """A training and its version are called alike: digits-edge-v1, digits-cloud-v2."""
    return f"digits-{name}" if name.endswith("-v2") else f"digits-{name}-v1"


def demo(folder: pathlib.Path) -> None:
    subprocess.run(
        [sys.executable, str(HERE.parent / "prepare.py"), str(folder)], check=True, stdout=subprocess.DEVNULL
    )
    (folder / "files").mkdir()
    with control_plane(folder) as client, archive.file_server(folder / "files") as files:
        say(f"control plane at {client.url}, data set and manifests in {folder}")
        story = Demo(client, folder)
        headline("Train a small model, and with two workers a strong one")
        story.train("edge", "cloud")
        headline("Serve the small one at the edge, from an archive, and the strong one in the cloud")
        story.serve(files)
        headline("Join them: the edge model answers, and asks the cloud model when it is not sure")
        story.join()
        headline("Where do these answers come from?")
        story.lineage()
        headline("Train a second cloud model from the first; switch to it and back while requests run")
        story.train("cloud-v2")
        story.switch()
        headline("Stop the cloud model while requests run, and start it again")
        story.lose_the_cloud()


def report(what: str, requests: Requests) -> None:
    """Say how the requests fared, and insist that none failed."""
    by = ", ".join(f"{count} by the {name}" for name, count in sorted(requests.answered.items()))
    print(f"{what}: {requests.sent} requests, {len(requests.faults)} failed ({by})", flush=True)
    check(not requests.faults, f"{len(requests.faults)} requests failed: {requests.faults[:3]}")


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        check(time.monotonic() < deadline, f"not within {PATIENCE:.0f} s: {what}")


def check(true: bool, why: str) -> None:
    if not true:
        raise DemoFailed(why)


def headline(text: str) -> None:
    print(f"\n{text}", flush=True)


def say(text: str) -> None:
    print(f"  {text}", flush=True)


def main() -> int:
    folder = tempfile.TemporaryDirectory(prefix="modelwright-demo-", ignore_cleanup_errors=True)
    try:
        demo(pathlib.Path(folder.name))
    except (DemoFailed, OSError, http.client.HTTPException, KeyError, ValueError, subprocess.SubprocessError) as error:
        print(f"demo: FAIL ({error if isinstance(error, DemoFailed) else repr(error)})", flush=True)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: stopped", flush=True)
        return 130
    finally:
        folder.cleanup()  # models are read-only, folders too: this knows how to remove them
    print("\ndemo: PASS", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
