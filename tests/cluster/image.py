"""The container image of the operator and the agent, built by the project's own recipe: once for each content."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
RECIPE = CHECKOUT / "deploy/image/build.py"
PARTS = ("deploy/image", "src/modelwright", "pyproject.toml", "README.md", "LICENSE", "requirements/operator.txt")
KEPT = 3
"""Images of former contents that stay in the cache."""


def build(layout: Path, *architectures: str) -> str:
    """Build the image into a new OCI image layout; its digest."""
    wanted = [part for architecture in architectures for part in ("--arch", architecture)]
    command = [sys.executable, str(RECIPE), *wanted, "--output", str(layout)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1]


@functools.cache
def built_image() -> Path:
    """An OCI image layout with the image for this machine's cluster (amd64), tagged `latest`; outside the checkout.

    A test run has one image from its beginning to its end, although the checkout may change meanwhile.
    """
    cached = _cache() / _content()
    if not cached.exists():
        partial = cached.with_name(f".{cached.name}.{os.getpid()}")
        build(partial, "amd64")
        try:
            partial.rename(cached)
        except OSError:  # another run was faster
            shutil.rmtree(partial)
        _forget(cached.parent)
    return cached


def push(layout: Path, registry: str, repository: str = "modelwright/operator") -> str:
    """Push to a registry of the tests, which speaks plain http; REGISTRY/REPOSITORY@DIGEST, as a Pod names it."""
    tag = layout.name[:12]
    copy = ["skopeo", "copy", "--quiet", "--all", "--preserve-digests", "--dest-tls-verify=false"]
    subprocess.run([*copy, f"oci:{layout}:latest", f"docker://{registry}/{repository}:{tag}"], check=True)
    inspect = ["skopeo", "inspect", "--format", "{{.Digest}}", f"oci:{layout}:latest"]
    digest = subprocess.run(inspect, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"{registry}/{repository}@{digest}"


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "modelwright" / "image"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _content() -> str:
    """A digest of everything in the checkout that the image is made from."""
    digest = hashlib.sha256()
    for file in _files():
        content = file.read_bytes()
        digest.update(f"{file.relative_to(CHECKOUT)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _files() -> Iterator[Path]:
    for part in PARTS:
        path = CHECKOUT / part
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in found if file.is_file() and "__pycache__" not in file.parts)


def _forget(folder: Path) -> None:
    former = sorted(folder.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
    for entry in [entry for entry in former if not entry.name.startswith(".")][KEPT:]:
        shutil.rmtree(entry)
