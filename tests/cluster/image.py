"""The container images of this project, built by its own recipe: once for each content."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
RECIPE = CHECKOUT / "deploy/image/build.py"
PARTS = ("deploy/image", "src/modelwright", "pyproject.toml", "README.md", "LICENSE")
OPERATOR = "operator"
KEPT = 3
"""Images of former contents that stay in the cache, of each kind."""
KEPT_SECONDS = 7 * 24 * 3600.0


def build(layout: Path, *architectures: str, variant: str = OPERATOR, layers: Path | None = None) -> str:
    """Build an image into a new OCI image layout; its digest. In `layers`, those below the project's are kept."""
    wanted = [part for architecture in architectures for part in ("--arch", architecture)]
    wanted += ["--cache", str(layers)] if layers else []
    command = [sys.executable, str(RECIPE), *wanted, "--variant", variant, "--output", str(layout)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1]


@functools.cache
def built_image(variant: str = OPERATOR) -> Path:
    """An OCI image layout with an image for this machine's cluster (amd64), tagged `latest`; outside the checkout.

    `variant` is operator, gateway, server-onnx, server-sklearn or server-tensorflow: the last takes minutes, and 2 GB.
    A test run has one image from its beginning to its end, although the checkout may change meanwhile.
    """
    cached = _cache() / f"{_content(variant)}-{variant}"
    if not cached.exists():
        partial = cached.with_name(f".{cached.name}.{os.getpid()}")
        build(partial, "amd64", variant=variant, layers=kept_layers())
        try:
            partial.rename(cached)
        except OSError:  # another run was faster
            shutil.rmtree(partial)
        _forget(cached.parent, variant)
    return cached


def push(layout: Path, registry: str, repository: str = "") -> str:
    """Push to a registry of the tests, which speaks plain http; REGISTRY/REPOSITORY@DIGEST, as a Pod names it.

    The repository is by default modelwright/VARIANT.
    """
    content, _, variant = layout.name.partition("-")
    repository = repository or f"modelwright/{variant}"
    copy = ["skopeo", "copy", "--quiet", "--all", "--preserve-digests", "--dest-tls-verify=false"]
    subprocess.run([*copy, f"oci:{layout}:latest", f"docker://{registry}/{repository}:{content[:12]}"], check=True)
    inspect = ["skopeo", "inspect", "--format", "{{.Digest}}", f"oci:{layout}:latest"]
    digest = subprocess.run(inspect, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"{registry}/{repository}@{digest}"


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "modelwright" / "image"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kept_layers() -> Path:
    """Where the layers below the project's are kept; for a week, so that Debian's updates arrive."""
    folder = _cache().with_name("image-layers")
    folder.mkdir(exist_ok=True)
    for entry in folder.iterdir():
        if time.time() - entry.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(entry, ignore_errors=True)
    return folder


def _content(variant: str) -> str:
    """A digest of everything in the checkout that an image is made from."""
    digest = hashlib.sha256()
    for file in _files(variant):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(CHECKOUT)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _files(variant: str) -> Iterator[Path]:
    for part in (*PARTS, f"requirements/{variant}.txt"):
        path = CHECKOUT / part
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in found if file.is_file() and "__pycache__" not in file.parts)


def _forget(folder: Path, variant: str) -> None:
    former = sorted(folder.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
    of_this = [entry for entry in former if entry.name.partition("-")[2] in (variant, "")]
    for entry in [entry for entry in of_this if not entry.name.startswith(".")][KEPT:]:
        shutil.rmtree(entry)
