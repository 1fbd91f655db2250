"""predict asks what it is told to, and says who answered."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.apiserver.kubectl import Kubectl
from tests.integration.cli.support import DEADLINE_SECONDS, Cli

JSON = dict[str, Any]


class Answering(http.server.BaseHTTPRequestHandler):
    """Gives back what it was sent; a path that begins with /joint is answered as a gateway does."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = json.dumps({"predictions": json.loads(body)["instances"], "path": self.path}).encode()
        self.send_response(200)
        if self.path.startswith("/joint"):
            self.send_header("X-Served-By", "mixed")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: Any) -> None:
        """Tests look at the answers."""


@pytest.fixture
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def apply(cli: Cli, kind: str, api_version: str, spec: JSON) -> None:
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "digits"}, "spec": spec}
    cli.run("apply", "-f", "-", stdin=json.dumps(body))


def both(cli: Cli) -> None:
    """An InferenceModel and a JointInferenceService of one name."""
    spec = {"modelName": "m", "deployToLayer": "cloud", "frameworkType": "onnx", "modelVersion": "mv"}
    apply(cli, "InferenceModel", "sedna.io/v1alpha1", spec)
    joint = {"edgeModel": {"name": "small"}, "cloudModel": {"name": "large"}}
    apply(cli, "JointInferenceService", "modelwright.dev/v1alpha1", joint)


def set_url(kubectl: Kubectl, kind: str, url: str) -> None:
    patch = json.dumps({"status": {"url": url}})
    kubectl.run("patch", kind, "digits", "--subresource=status", "--type=merge", "-p", patch)


def asked(cli: Cli, name: str) -> tuple[str, str]:
    """What was asked, and the remark."""
    with cli.start("predict", name, "--data", "[[1, 2]]") as process:
        stdout, stderr = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, stderr
    answer = json.loads(stdout)
    assert answer["predictions"] == [[1, 2]]
    return answer["path"], stderr


def test_a_plain_name_is_an_inference_model_and_a_joint_service_is_named_by_its_kind(
    cli: Cli, kubectl: Kubectl, url: str
) -> None:
    both(cli)
    set_url(kubectl, "infm", f"{url}/v1/models/m")
    set_url(kubectl, "jis", f"{url}/joint/v1/models/digits")
    assert asked(cli, "digits") == asked(cli, "inferencemodel/digits") == ("/v1/models/m:predict", "")
    joint = ("/joint/v1/models/digits:predict", "answered by: mixed\n")
    assert asked(cli, "jis/digits") == asked(cli, "jointinferenceservices.modelwright.dev/digits") == joint
    kubectl.run("delete", "infm", "digits")
    assert asked(cli, "digits") == joint
    assert "inferencemodel" in cli.fail("predict", "nobody", "--data", "[[1]]").lower()


def test_what_does_not_answer_says_why(cli: Cli, kubectl: Kubectl) -> None:
    both(cli)
    condition = {"type": "Stalled", "status": "True", "reason": "CloudModelStalled", "message": "mend it"}
    patch = json.dumps({"status": {"conditions": [condition]}})
    kubectl.run("patch", "jis", "digits", "--subresource=status", "--type=merge", "-p", patch)
    complaint = cli.fail("predict", "jis/digits", "--data", "[[1]]")
    assert complaint == "error: digits does not answer now: CloudModelStalled: mend it\n"
    assert "digits does not answer now" in cli.fail("predict", "digits", "--data", "[[1]]")


def test_another_kind_is_refused(cli: Cli) -> None:
    told = cli.fail("predict", "mv/digits", "--data", "[[1]]", code=2)
    assert "is no InferenceModel or JointInferenceService" in " ".join(told.replace("│", " ").split())
    assert "not found" in cli.fail("predict", "jis/nobody", "--data", "[[1]]")
