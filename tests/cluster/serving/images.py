"""Serving images of users: complete ones, that are no model server of ours."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

from tests.cluster.rig import images

WORDS = b"served as it is"
PORT = 8080


@functools.cache
def web(registry: str) -> str:
    """Push an image that answers every `/` with WORDS on port 8080, as a user that is not root; by its digest."""
    target = f"{registry}/serving/web:1"
    with tempfile.TemporaryDirectory() as folder:
        layout = Path(folder, "layout")
        _run("skopeo", "copy", "--quiet", f"oci:{images.layout()}:busybox", f"oci:{layout}:web")
        say = f"mkdir /tmp/web && echo {WORDS.decode()} >/tmp/web/index.html && exec httpd -f -p {PORT} -h /tmp/web"
        words = [f"--config.entrypoint={word}" for word in ("/bin/sh", "-c", say)]
        _run("umoci", "config", "--image", f"{layout}:web", "--config.user=65532:65532", "--clear=config.cmd", *words)
        _run("skopeo", "copy", "--quiet", "--dest-tls-verify=false", f"oci:{layout}:web", f"docker://{target}")
    inspect = ["skopeo", "inspect", "--tls-verify=false", "--format", "{{.Digest}}", f"docker://{target}"]
    digest = subprocess.run(inspect, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"{registry}/serving/web@{digest}"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
