"""Packs root file systems as an OCI image layout, an image for each architecture under one tag."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
USER = "65532:65532"
TAG = "latest"
BASE = "base"
CONFIG = {
    "user": USER,
    "entrypoint": "modelwright",
    "workingdir": "/",
}
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin",
    "HOME": "/home/modelwright",
    "LANG": "C.UTF-8",
    "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
}


def labels(version: str, description: str) -> dict[str, str]:
    """What https://specs.opencontainers.org/image-spec/annotations/ names, as far as it comes from the content."""
    prefix = "org.opencontainers.image"
    return {
        f"{prefix}.title": "modelwright",
        f"{prefix}.description": description,
        f"{prefix}.version": version,
        f"{prefix}.licenses": "Apache-2.0",
    }


def start(layout: Path) -> None:
    """Make an empty layout."""
    _umoci("init", "--layout", str(layout))


def found(layout: Path, roots: list[Path]) -> None:
    """Make a layout with the layers that images begin with, tagged BASE; the bytes depend on the content alone.

    Each root is a layer, so that images have the same layer where they have the same content.
    """
    start(layout)
    _umoci("new", "--image", f"{layout}:{BASE}")
    for root in roots:
        _add_layer(f"{layout}:{BASE}", root)
    _umoci("gc", "--layout", str(layout))


def add(
    layout: Path, base: Path, root: Path, architecture: str, config_labels: dict[str, str], environment: dict[str, str]
) -> None:
    """Add the image of one architecture, tagged with its name: the layers of `base`, and `root` upon them."""
    image = f"{layout}:{architecture}"
    copy = ["skopeo", "copy", "--quiet", "--preserve-digests", f"oci:{base}:{BASE}", f"oci:{image}"]
    subprocess.run(copy, check=True, stdout=sys.stderr)
    _add_layer(image, root)
    settings = [part for key, value in CONFIG.items() for part in (f"--config.{key}", value)]
    settings += [
        part for key, value in (ENVIRONMENT | environment).items() for part in ("--config.env", f"{key}={value}")
    ]
    settings += [part for key, value in config_labels.items() for part in ("--config.label", f"{key}={value}")]
    settings += ["--architecture", architecture, "--os", "linux"]
    _umoci("config", "--image", image, "--no-history", "--created", _moment(), *settings)
    _umoci("gc", "--layout", str(layout))


def join(layout: Path, architectures: list[str]) -> str:
    """Put one tag on the images: on an index of them if there are several. Returns what the tag names, a digest."""
    index_file = layout / "index.json"
    index = json.loads(index_file.read_text())
    named = {entry["annotations"]["org.opencontainers.image.ref.name"]: entry for entry in index["manifests"]}
    images = [_descriptor(named[name], architecture=name) for name in architectures]
    top = (
        images[0] if len(images) == 1 else _store(layout, {"schemaVersion": 2, "mediaType": INDEX, "manifests": images})
    )
    index["manifests"] = [{**top, "annotations": {"org.opencontainers.image.ref.name": TAG}}]
    index_file.write_text(json.dumps(index))
    return str(top["digest"])


def push(layout: Path, reference: str, *, plain_http: bool) -> None:
    """Push what is tagged to HOST/REPO:TAG."""
    options = ["--dest-tls-verify=false"] if plain_http else []
    command = ["skopeo", "copy", "--quiet", "--all", "--preserve-digests", *options]
    subprocess.run([*command, f"oci:{layout}:{TAG}", f"docker://{reference}"], check=True, stdout=sys.stderr)


def epoch() -> int:
    """The one time that is in the image, in seconds: https://reproducible-builds.org/specs/source-date-epoch/."""
    return int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


def _moment() -> str:
    return datetime.fromtimestamp(epoch(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _add_layer(image: str, root: Path) -> None:
    if not archive_of(root).exists():
        archive(root)
    history = ["--history.created", _moment(), "--history.created_by", f"modelwright {root.name}"]
    _umoci("raw", "add-layer", "--image", image, *history, str(archive_of(root)))


def archive_of(root: Path) -> Path:
    """Where the archive of a folder is, if there is one: it may outlive the folder."""
    return root.with_suffix(".tar")


def archive(root: Path) -> None:
    """Pack a folder, so that the bytes depend on its content alone."""
    command = [
        "tar",
        "-c",
        "--format=gnu",
        "--sort=name",
        f"--mtime=@{epoch()}",
        "--numeric-owner",
        "--owner=0",
        "--group=0",
    ]
    subprocess.run([*command, "-C", str(root), "-f", str(archive_of(root)), "."], check=True)


def _descriptor(entry: dict[str, Any], *, architecture: str) -> dict[str, Any]:
    platform = {"os": "linux", "architecture": architecture}
    return {key: entry[key] for key in ("mediaType", "digest", "size")} | {"platform": platform}


def _store(layout: Path, document: dict[str, Any]) -> dict[str, Any]:
    content = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
    digest = hashlib.sha256(content).hexdigest()
    (layout / "blobs/sha256" / digest).write_bytes(content)
    return {"mediaType": document["mediaType"], "digest": f"sha256:{digest}", "size": len(content)}


def _umoci(*arguments: str) -> None:
    subprocess.run(["umoci", *arguments], check=True, stdout=sys.stderr)
