"""The main job on one machine: train, pack, serve, switch under load, roll back. `make demo` runs it.

Everything goes through the command line and the served URL, as a user would do it: nothing here imports Modelwright.
It works in a new folder with a control plane of its own, and removes both at the end.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
MODELWRIGHT = pathlib.Path(sys.executable).with_name("modelwright")
sys.path.insert(0, str(HERE))
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class DemoFailed(Exception):
    """The demo did not show what it should; the message says why."""


# The control plane --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def control_plane(folder: pathlib.Path) -> Iterator[dict[str, str]]:
    """Run `modelwright up` in the folder; yields the environment in which the other verbs find it."""
    log = (folder / "up.log").open("w")
    command = [str(MODELWRIGHT), "up", "--data-dir", str(folder / "data"), "--listen", "127.0.0.1:0"]
    with log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        try:
            assert process.stdout is not None
            line = next((line for line in process.stdout if line.startswith("ready ")), "")
            if not line:
                raise DemoFailed(f"`modelwright up` did not start: {(folder / 'up.log').read_text().strip()}")
            say(f"control plane {line.removeprefix('ready ').strip()}")
            yield {**os.environ, "KUBECONFIG": str(folder / "data" / "kubeconfig")}
        finally:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)


class Client:
    """The command line of Modelwright, against one control plane."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    def run(self, *arguments: str, manifest: str | None = None) -> str:
        """Run a verb and return what it prints; raises DemoFailed with its error."""
        command = [str(MODELWRIGHT), *arguments]
        done = subprocess.run(command, input=manifest, capture_output=True, text=True, env=self._environment)
        if done.returncode != 0:
            raise DemoFailed(f"`modelwright {' '.join(arguments)}`: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def get(self, what: str, name: str) -> Any:
        return json.loads(self.run("get", what, name, "-o", "json"))

    def apply(self, manifest: str) -> None:
        self.run("apply", "-f", "-", manifest=manifest)

    def wait(self, what: str) -> None:
        self.run("wait", "--for=condition=Ready", what, "--timeout", "60s")


# The served model ---------------------------------------------------------------------------------------------------


def classify(url: str, images: Any) -> list[int]:
    """Ask the served model for the digits in these images, by TensorFlow Serving's REST."""
    body = json.dumps({"instances": [image.tolist() for image in images]}).encode()
    request = urllib.request.Request(f"{url}:predict", body, {"Content-Type": "application/json"})
    with OPENER.open(request, timeout=30) as answer:
        return [int(digit) for digit in json.load(answer)["predictions"]]


def accuracy(url: str, images: Any, digits: Any) -> float:
    answers = classify(url, images)
    return sum(answer == digit for answer, digit in zip(answers, digits, strict=True)) / len(digits)


class Requests:
    """Requests that go on until the end of the block, counted."""

    def __init__(self, url: str, images: Any) -> None:
        self.sent = self.failed = 0
        self._url = url
        self._images = images
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask) for _ in range(4)]

    def __enter__(self) -> Requests:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def at_least(self, more: int) -> None:
        """Wait until so many more have been answered: the load is there, before and after the switch."""
        goal, deadline = self.sent + more, time.monotonic() + 60
        while self.sent < goal:
            if time.monotonic() > deadline:
                raise DemoFailed("requests are not answered any more")
            time.sleep(0.01)

    def _ask(self) -> None:
        while not self._stop.is_set():
            try:
                good = len(classify(self._url, self._images[:1])) == 1
            except (OSError, http.client.HTTPException) as error:
                say(f"a request failed: {error}")
                good = False
            with self._lock:
                self.sent += 1
                self.failed += not good


# The story ----------------------------------------------------------------------------------------------------------


def demo(folder: pathlib.Path) -> None:
    from train import split_digits, train

    with control_plane(folder) as environment:
        client = Client(environment)
        say("training two models on the digits of scikit-learn")
        train("plain", folder / "v1")
        train("better", folder / "v2")
        _, images, _, digits = split_digits()

        package(client, folder)
        client.apply((HERE / "serving.yaml").read_text())
        client.wait("infm/digits")
        url = client.get("infm", "digits")["status"]["url"]
        say(f"serving digits-v1 at {url}")
        first = accuracy(url, images, digits)

        requests = switch(client, url, images)
        second = accuracy(url, images, digits)
        print(f"accuracy v1 {first:.3f} v2 {second:.3f}", flush=True)
        print(f"switch: {requests.sent} requests, {requests.failed} failed", flush=True)
        roll_back(client, url, images, digits, first)
        check(second > first, f"the better model should be better: {first:.3f} and {second:.3f}")
        check(requests.failed == 0, f"{requests.failed} of {requests.sent} requests failed during the switch")


def package(client: Client, folder: pathlib.Path) -> None:
    """Two folders become two immutable images."""
    client.apply((HERE / "versions.yaml").read_text().replace("FOLDER", str(folder)))
    for name in ("digits-v1", "digits-v2"):
        client.wait(f"mv/{name}")
        status = client.get("mv", name)["status"]
        say(f"{name} is {status['image']} ({status['sizeBytes']:,} bytes, accuracy {status['metrics']['accuracy']})")
    print(f"digest {client.get('mv', 'digits-v1')['status']['imageDigest']}", flush=True)
    latest = client.get("model", "digits")["status"]["latestVersion"]["modelVersion"]
    check(latest in ("digits-v1", "digits-v2"), f"the Model does not know its latest version: {latest}")


def switch(client: Client, url: str, images: Any) -> Requests:
    """Serve the second version while requests run."""
    say("switching to digits-v2 while requests run")
    with Requests(url, images) as requests:
        requests.at_least(50)
        client.apply((HERE / "serving.yaml").read_text().replace("digits-v1", "digits-v2"))
        client.wait("infm/digits")
        requests.at_least(50)
    serving = client.get("infm", "digits")["status"]["servingVersion"]
    check(serving == "digits-v2", f"digits-v2 should be served, and it is {serving}")
    return requests


def roll_back(client: Client, url: str, images: Any, digits: Any, expected: float) -> None:
    client.run("rollback", "infm/digits")
    client.wait("infm/digits")
    again = accuracy(url, images, digits)
    say(f"rolled back: accuracy {again:.3f}")
    check(again == expected, f"after the rollback the accuracy should be {expected:.3f} again, and it is {again:.3f}")


def check(true: bool, why: str) -> None:
    if not true:
        raise DemoFailed(why)


def say(text: str) -> None:
    print(f"  {text}", flush=True)


def main() -> int:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="modelwright-demo-"))
    try:
        demo(folder)
    except (DemoFailed, OSError, http.client.HTTPException, KeyError, ValueError) as error:
        print(f"demo: FAIL ({error if isinstance(error, DemoFailed) else repr(error)})", flush=True)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("demo: PASS", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
