"""The image of Kaniko's executor: the real program, in the folders that its published images have."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path

from tests.cluster.rig import state

REPOSITORY = "kaniko/executor"
FOLDERS = ("kaniko/.docker", "kaniko/ssl/certs", "tmp")
VARIABLES = ("PATH=/kaniko", "DOCKER_CONFIG=/kaniko/.docker/", "SSL_CERT_DIR=/kaniko/ssl/certs")


def push(programs: Path, registry: str) -> str:
    """Put it into a registry that is spoken to without TLS; REGISTRY/REPOSITORY:TAG, as a Pod names it."""
    layout = _layout(programs / "kaniko")
    image = f"{registry}/{REPOSITORY}:{layout.name}"
    _run("skopeo", "copy", "--quiet", "--dest-tls-verify=false", f"oci:{layout}:executor", f"docker://{image}")
    return image


def _layout(executor: Path) -> Path:
    """The OCI layout with it, kept in the cache: named after the folder of the program, which its pins name."""
    known = hashlib.sha256(f"{executor.resolve()}\0".encode() + Path(__file__).read_bytes()).hexdigest()
    made = state.cache() / "images" / f"kaniko-{known[:16]}"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            _make(Path(folder), executor)
            (Path(folder) / "layout").rename(made)
    return made


def _make(folder: Path, executor: Path) -> None:
    layout, root = folder / "layout", folder / "root"
    for name in FOLDERS:
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    (root / "kaniko/executor").write_bytes(executor.read_bytes())
    (root / "kaniko/executor").chmod(0o755)
    image = f"{layout}:executor"
    _run("umoci", "init", "--layout", str(layout))
    _run("umoci", "new", "--image", image)
    for name in ("kaniko", "tmp"):
        _run("umoci", "insert", "--image", image, str(root / name), f"/{name}")
    variables = [f"--config.env={variable}" for variable in VARIABLES]
    _run("umoci", "config", "--image", image, "--config.entrypoint=/kaniko/executor", *variables)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
