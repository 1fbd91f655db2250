"""mount.nfs for machines whose kernel has no NFS client: compiled once into the cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from tests.cluster.storage import packages
from tests.tools import install

SOURCES = Path(__file__).with_name("mount_nfs")
NAMES = ("mount.nfs", "mount.nfs4")
"""The names by which mount(8) looks for it in /sbin."""
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-D_FILE_OFFSET_BITS=64", "-pthread")


def build() -> Path:
    """The program, which needs nothing but libc where it runs. Raises CalledProcessError where gcc refuses it."""
    folder = install.cache_root() / f"mount-nfs-{_key()}"
    program = folder / NAMES[0]
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{os.getpid()}"
        subprocess.run(_compiler(packages.unpacked() / "usr", partial), check=True)
        partial.rename(program)
    return program


def place(folder: Path) -> None:
    """Put the program where mount(8) looks for it: `folder` is the /sbin of a node."""
    program = build().read_bytes()
    for name in NAMES:
        (folder / name).write_bytes(program)
        (folder / name).chmod(0o755)


def _key() -> str:
    digest = hashlib.sha256(packages.key().encode())
    for source in sorted(SOURCES.glob("*.[ch]")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _compiler(usr: Path, output: Path) -> list[str | Path]:
    includes = (f"-I{usr}/include", f"-I{usr}/include/fuse3")
    libraries = [next(usr.glob(f"lib/*/{name}")) for name in ("libfuse3.a", "libnfs.a")]
    return ["gcc", *FLAGS, *includes, "-o", output, *sorted(SOURCES.glob("*.c")), *libraries, "-ldl"]
