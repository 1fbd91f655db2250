"""predict asks what it is told to, and says who answered."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.contract.pki import Authority
from tests.integration.apiserver.kubectl import Kubectl
from tests.integration.cli.support import DEADLINE_SECONDS, Cli

JSON = dict[str, Any]


class Answering(http.server.BaseHTTPRequestHandler):
    """Gives back what it was sent; a path that begins with /joint is answered as a gateway does."""

    token = ""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.token and self.headers["Authorization"] != f"Bearer {self.token}":
            self.send_response(401)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")
            return
        answer = json.dumps({"predictions": json.loads(body)["instances"], "path": self.path}).encode()
        self.send_response(200)
        if self.path.startswith("/joint"):
            self.send_header("X-Served-By", "mixed")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: Any) -> None:
        """Tests look at the answers."""


class Secured(Answering):
    token = "right"


@contextmanager
def answering(handler: type[Answering], context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server on loopback; its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def url() -> Iterator[str]:
    with answering(Answering) as port:
        yield f"http://127.0.0.1:{port}"


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


def test_a_model_that_asks_for_a_token_over_tls_is_asked_with_both(cli: Cli, kubectl: Kubectl, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("model"))
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text("right\n")
    wrong.write_text("wrong\n")
    both(cli)
    ask = ("predict", "inferencemodel/digits", "--data", "[[1, 2]]")
    trusting = ("--ca-file", str(authority.ca_file))
    with answering(Secured, context) as port:
        set_url(kubectl, "infm", f"https://127.0.0.1:{port}/v1/models/m")
        told = cli.run(*ask, *trusting, "--token-file", str(right))
        assert json.loads(told)["predictions"] == [[1, 2]]
        assert "asks for a token" in cli.fail(*ask, *trusting)
        assert "knows another token" in cli.fail(*ask, *trusting, "--token-file", str(wrong))
        assert "certificate verify failed" in cli.fail(*ask, "--token-file", str(right))
        told = cli.fail(*ask, *trusting, "--token-file", str(right), "--server-name", "other.example.com")
        assert "other.example.com" in told


def test_files_that_are_no_token_and_no_certificate_are_a_usage_error(cli: Cli, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for option in ("--token-file", "--ca-file"):
        for file in (empty, tmp_path / "missing"):
            assert str(file.name) in cli.fail("predict", "digits", "--data", "[[1]]", option, str(file), code=2)
