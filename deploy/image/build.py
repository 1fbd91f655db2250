"""Build the container image of the operator and the build agent, without Docker and without root.

    python3 deploy/image/build.py --output LAYOUT
    python3 deploy/image/build.py --arch amd64 --arch arm64 --push HOST/REPO:TAG

The root file system is Debian's packages, unpacked by this program and not run, so that the image of another
architecture is built as well; then the locked Python dependencies and this project. Prints the digest last.
Needs apt-get, dpkg-deb, tar, umoci, and to push, skopeo. The same packages and sources give the same digest.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import debian
import oci
import python

LOCK = python.PROJECT / "requirements/operator.txt"
USERS = (
    "root:x:0:0:root:/:/usr/sbin/nologin\nmodelwright:x:65532:65532:Modelwright:/home/modelwright:/usr/sbin/nologin\n"
)
GROUPS = "root:x:0:\nmodelwright:x:65532:\n"


def main() -> None:
    """The command."""
    options = arguments()
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="modelwright-image-") as name:
        work = Path(name)
        layout = options.output or work / "layout"
        oci.start(layout)
        with ThreadPoolExecutor() as pool:
            roots = list(pool.map(lambda architecture: furnished(architecture, work, options), options.arch))
        for architecture, root in zip(options.arch, roots, strict=True):
            oci.add(layout, root, architecture, python.version(root))
        digest = oci.join(layout, options.arch)
        if options.push:
            oci.push(layout, options.push, plain_http=options.plain_http)
    print(digest)


def arguments() -> argparse.Namespace:
    """What was asked for, checked."""
    parser = argparse.ArgumentParser(description="Build the image of the operator and the build agent.")
    parser.add_argument(
        "--arch", action="append", choices=sorted(python.MACHINES), help="several make an index (amd64)"
    )
    parser.add_argument("--output", type=Path, metavar="LAYOUT", help="write an OCI image layout to this new folder")
    parser.add_argument("--push", metavar="HOST/REPO:TAG", help="push the image")
    parser.add_argument("--plain-http", action="store_true", help="the registry of --push speaks no TLS")
    parser.add_argument(
        "--requirements", type=Path, action="append", default=[], metavar="LOCK", help="also install these"
    )
    parser.add_argument("--apt-sources", type=Path, metavar="FILE", help="Debian's sources (this machine's), as deb822")
    options = parser.parse_args()
    options.arch = sorted(set(options.arch or ["amd64"]))
    if not options.output and not options.push:
        parser.error("say where the image goes: --output or --push")
    if options.output and options.output.exists():
        parser.error(f"{options.output} exists")
    missing = [name for name in ("apt-get", "dpkg-deb", "tar", "umoci", "skopeo") if not shutil.which(name)]
    if missing:
        parser.error(f"not found: {', '.join(missing)}")
    return options


def furnished(architecture: str, work: Path, options: argparse.Namespace) -> Path:
    """The root file system for one architecture."""
    root, began = work / architecture, time.monotonic()
    root.mkdir()
    debian.unpack(root, architecture, work, options.apt_sources)
    python.install(root, architecture, work, [LOCK, *options.requirements])
    furnish(root)
    size = sum(file.lstat().st_size for file in root.rglob("*")) / 1e6
    print(f"image: {architecture}, {size:.0f} MB unpacked, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return root


def furnish(root: Path) -> None:
    """What no package brings: the users, and folders to mount on."""
    (root / "etc/passwd").write_text(USERS)
    (root / "etc/group").write_text(GROUPS)
    for folder in ("home/modelwright", "dev", "proc", "sys", "run", "tmp"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)


if __name__ == "__main__":
    main()
