"""The two images that a cluster starts with: made of Debian's static busybox, kept as an OCI layout in the cache."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path

from tests.cluster.rig import state

BUSYBOX_PROGRAM = Path("/bin/busybox")
BUSYBOX = "busybox:1"
"""Every busybox program, and no entry point: what tests run."""
PAUSE = "pause:1"
"""Waits: what holds a Pod's namespaces."""


def layout() -> Path:
    """The OCI layout with both images, made if it is not there yet."""
    digest = hashlib.sha256(BUSYBOX_PROGRAM.read_bytes() + Path(__file__).read_bytes()).hexdigest()
    made = state.cache() / "images" / f"busybox-{digest[:16]}"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            _make(Path(folder))
            (Path(folder) / "layout").rename(made)
    return made


def push(registry: str) -> None:
    """Put both images into a registry that is spoken to without TLS."""
    for image in (PAUSE, BUSYBOX):
        source, target = f"oci:{layout()}:{image.partition(':')[0]}", f"docker://{registry}/{image}"
        _run("skopeo", "copy", "--quiet", "--dest-tls-verify=false", source, target)


def _make(folder: Path) -> None:
    layout, bundle = folder / "layout", folder / "bundle"
    _run("umoci", "init", "--layout", str(layout))
    _run("umoci", "new", "--image", f"{layout}:busybox")
    _run("umoci", "unpack", "--image", f"{layout}:busybox", str(bundle))
    _fill(bundle / "rootfs")
    _run("umoci", "repack", "--image", f"{layout}:busybox", str(bundle))
    _run("umoci", "config", "--image", f"{layout}:busybox", "--config.env", "PATH=/bin", "--config.cmd", "/bin/sh")
    wait = [f"--config.entrypoint={word}" for word in ("/bin/busybox", "sleep", "infinity")]
    _run("umoci", "config", "--image", f"{layout}:busybox", "--tag", "pause", "--clear=config.cmd", *wait)


def _fill(root: Path) -> None:
    """Busybox under each of its names, and the folders that programs expect."""
    for name in ("bin", "tmp", "etc"):
        (root / name).mkdir()
    (root / "tmp").chmod(0o1777)
    program = root / "bin/busybox"
    program.write_bytes(BUSYBOX_PROGRAM.read_bytes())
    program.chmod(0o755)
    listed = subprocess.run([BUSYBOX_PROGRAM, "--list"], check=True, capture_output=True, text=True)
    for name in listed.stdout.split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\nnonroot:x:65532:65532:nonroot:/tmp:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nnonroot:x:65532:\n")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
