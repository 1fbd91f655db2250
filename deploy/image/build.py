"""Build the container images of this project, without Docker and without root.

    python3 deploy/image/build.py --output LAYOUT
    python3 deploy/image/build.py --arch amd64 --arch arm64 --push HOST/REPO:TAG
    python3 deploy/image/build.py --variant gateway --variant server-onnx --push HOST/modelwright/{variant}:TAG

An image has three layers: Debian's packages, unpacked by this program and not run, so that the image of another
architecture is built as well; the locked Python dependencies; and this project. The first and the last are the same in
all images of one architecture. Prints each image's digest last, with its name where there are several.
Needs apt-get, dpkg-deb, tar, umoci, and to push, skopeo. The same packages and sources give the same digests.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
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
from variants import VARIANTS, Variant

USERS = (
    "root:x:0:0:root:/:/usr/sbin/nologin\nmodelwright:x:65532:65532:Modelwright:/home/modelwright:/usr/sbin/nologin\n"
)
GROUPS = "root:x:0:\nmodelwright:x:65532:\n"
ANY_VARIANT = "{variant}"
RECIPE = sorted(Path(__file__).parent.glob("*.py"))


def main() -> None:
    """The command."""
    options = arguments()
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="modelwright-image-", dir=options.work) as name:
        recipe = Recipe(Path(name), options)
        with ThreadPoolExecutor() as pool:  # errors of threads are raised as their results are taken
            list(pool.map(recipe.base, options.arch))
            list(pool.map(recipe.project, options.arch))
        for variant in options.variant:
            digest = recipe.image(VARIANTS[variant])
            print(digest if len(options.variant) == 1 else f"{variant} {digest}", flush=True)


def arguments() -> argparse.Namespace:
    """What was asked for, checked."""
    parser = argparse.ArgumentParser(description="Build the container images of this project.")
    parser.add_argument("--variant", action="append", choices=[*VARIANTS], help="which image; several too (operator)")
    parser.add_argument(
        "--arch", action="append", choices=sorted(python.MACHINES), help="several make an index (amd64)"
    )
    parser.add_argument("--output", metavar="LAYOUT", help="write an OCI image layout to this new folder")
    parser.add_argument("--push", metavar="HOST/REPO:TAG", help="push the image; {variant} in it is the image's name")
    parser.add_argument("--plain-http", action="store_true", help="the registry of --push speaks no TLS")
    parser.add_argument(
        "--requirements", type=Path, action="append", default=[], metavar="LOCK", help="also install these"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="FOLDER",
        help="keep the layers below the project's here, until the recipe or a lock changes",
    )
    parser.add_argument("--apt-sources", type=Path, metavar="FILE", help="Debian's sources (this machine's), as deb822")
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="where to work: 5 GB for TensorFlow ($TMPDIR)")
    options = parser.parse_args()
    options.arch = sorted(set(options.arch or ["amd64"]))
    options.variant = list(dict.fromkeys(options.variant or ["operator"]))
    if problem := fault(options):
        parser.error(problem)
    return options


def fault(options: argparse.Namespace) -> str:
    """What is wrong with what was asked for; empty if nothing is."""
    if not options.output and not options.push:
        return "say where the image goes: --output or --push"
    if len(options.variant) > 1:
        for option in ("output", "push"):
            if (given := getattr(options, option)) and ANY_VARIANT not in given:
                return f"--{option} for several images needs {ANY_VARIANT} in it"
    existing = [path for path in map(layout_of, [options] * len(options.variant), options.variant) if path.exists()]
    if options.output and existing:
        return f"{existing[0]} exists"
    missing = [name for name in ("apt-get", "dpkg-deb", "tar", "umoci", "skopeo") if not shutil.which(name)]
    return f"not found: {', '.join(missing)}" if missing else ""


def layout_of(options: argparse.Namespace, variant: str) -> Path:
    """Where the layout of an image is asked for."""
    return Path((options.output or "").replace(ANY_VARIANT, variant))


class Recipe:
    """Builds what was asked for, each part once."""

    def __init__(self, work: Path, options: argparse.Namespace) -> None:
        self._work = work
        self._options = options
        self._cache: Path = options.cache or work / "layers"
        self.base = functools.cache(self._base)
        self.project = functools.cache(self._project)

    def image(self, variant: Variant) -> str:
        """One image for all architectures, written and pushed as asked for; its digest."""
        options = self._options
        layout = layout_of(options, variant.name) if options.output else self._work / f"layout-{variant.name}"
        oci.start(layout)
        for architecture in options.arch:
            below, project = self._below(variant, architecture), self.project(architecture)
            labels = oci.labels(python.version(project), variant.description)
            oci.add(layout, below, project, architecture, labels, variant.environment)
        digest = oci.join(layout, options.arch)
        if options.push:
            oci.push(layout, options.push.replace(ANY_VARIANT, variant.name), plain_http=options.plain_http)
        if not options.output:
            shutil.rmtree(layout)
        return digest

    def _below(self, variant: Variant, architecture: str) -> Path:
        """A layout with the layers below the project's: Debian's packages, and what the variant depends on."""
        began, base = time.monotonic(), self.base(architecture)
        locks = [variant.lock, *self._options.requirements]
        kept = self._cache / f"{variant.name}-{architecture}-{digest_of([oci.archive_of(base), *locks, *RECIPE])}"
        if kept.exists():
            return kept
        dependencies = self._work / architecture / variant.name
        python.install_dependencies(dependencies, architecture, self._work, locks)
        python.install_program(dependencies, variant.program)
        partial = kept.with_name(f".{kept.name}.{os.getpid()}")
        oci.found(partial, [base, dependencies])
        say(f"{variant.name}, {architecture}: dependencies", dependencies, began)
        shutil.rmtree(dependencies)
        oci.archive_of(dependencies).unlink()
        keep(partial, kept)
        return kept

    def _base(self, architecture: str) -> Path:
        """Debian's packages: a folder that is gone again, beside its archive."""
        began, sources = time.monotonic(), self._options.apt_sources
        kept = self._cache / f"base-{architecture}-{digest_of([*RECIPE, *([sources] if sources else [])])}"
        if kept.exists():
            return kept / "base"
        partial = kept.with_name(f".{kept.name}.{os.getpid()}")
        root = partial / "base"
        root.mkdir(parents=True)
        debian.unpack(root, architecture, self._work, sources)
        python.compile_standard_library(root)
        furnish(root)
        oci.archive(root)
        say(f"base, {architecture}", root, began)
        shutil.rmtree(root)
        keep(partial, kept)
        return kept / "base"

    def _project(self, architecture: str) -> Path:
        began, root = time.monotonic(), self._work / architecture / "project"
        root.mkdir(parents=True)
        python.install_project(root, architecture, self._work)
        say(f"project, {architecture}", root, began)
        return root


def digest_of(files: list[Path]) -> str:
    """A digest of what layers are made from, but for Debian's archive, and of the time that is in them."""
    digest = hashlib.sha256(str(oci.epoch()).encode())
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def keep(partial: Path, kept: Path) -> None:
    """Give what is complete its name."""
    try:
        partial.rename(kept)
    except OSError:  # somebody else was quicker
        shutil.rmtree(partial)


def say(what: str, root: Path, began: float) -> None:
    """A line about what was made."""
    size = sum(file.lstat().st_size for file in root.rglob("*")) / 1e6
    print(f"image: {what}, {size:.0f} MB unpacked, {time.monotonic() - began:.0f} s", file=sys.stderr)


def furnish(root: Path) -> None:
    """What no package brings: the users, and folders to mount on."""
    (root / "etc/passwd").write_text(USERS)
    (root / "etc/group").write_text(GROUPS)
    for folder in ("home/modelwright", "dev", "proc", "sys", "run", "tmp"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)


if __name__ == "__main__":
    main()
