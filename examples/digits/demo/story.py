"""What the demo shows of served models, wherever they run: join two, measure them, switch one, lose one."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable

from asking import Device, Requests, held_out, one_by_one, share_right
from plane import Client, DemoFailed

PATIENCE = 60.0


class Story:
    """The steps that follow once two models serve, in their order; each checks what it shows.

    `folder` holds the data set and the manifests; `urls` has where each model answers, once it does.
    """

    def __init__(self, client: Client, folder: pathlib.Path, patience: float = PATIENCE) -> None:
        self._client = client
        self._folder = folder
        self._patience = patience
        self._images, self._digits = held_out(folder / "digits.tar")
        self._urls: dict[str, str] = {}
        self._joint = 0.0

    def manifest(self, name: str) -> str:
        return (self._folder / f"{name}.yaml").read_text()

    def serve_both(self, edge: str, cloud: str) -> None:
        """Apply both manifests, and wait until both models answer."""
        self._client.apply(edge, cloud)
        self._client.wait("infm/digits-edge", "infm/digits-cloud")
        for name in ("digits-edge", "digits-cloud"):
            self._urls[name] = self._client.status(f"infm/{name}")["url"]
            say(f"{name} answers at {self._urls[name]}")

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
            deadline = time.monotonic() + self._patience
            while answer.served_by != served_by:
                check(time.monotonic() < deadline, f"{name} should answer by {served_by}, not by {answer.served_by}")
                answer = device.ask(self._images)
        return share_right(answer.digits, self._digits)

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
            self._until(lambda: set(requests.more()) == {"edge"}, "the edge model answers alone")
            self._client.apply(self.manifest("serve-cloud"))
            self._client.wait("infm/digits-cloud")
            self._until(lambda: requests.more()["cloud"] > 0, "the cloud model is asked again")
        report("without the cloud", requests)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self._patience
        while not condition():
            check(time.monotonic() < deadline, f"not within {self._patience:.0f} s: {what}")


def report(what: str, requests: Requests) -> None:
    """Say how the requests fared, and insist that none failed."""
    by = ", ".join(f"{count} by the {name}" for name, count in sorted(requests.answered.items()))
    print(f"{what}: {requests.sent} requests, {len(requests.faults)} failed ({by})", flush=True)
    check(not requests.faults, f"{len(requests.faults)} requests failed: {requests.faults[:3]}")


def check(true: bool, why: str) -> None:
    if not true:
        raise DemoFailed(why)


def headline(text: str) -> None:
    print(f"\n{text}", flush=True)


def say(text: str) -> None:
    print(f"  {text}", flush=True)
