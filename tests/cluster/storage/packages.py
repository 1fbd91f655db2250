"""Debian packages that the storage of a test cluster is made of, unpacked into the cache instead of installed.

To install nfs-ganesha is to install a system service, which starts at once and at every boot from then on. Unpacked,
its programs run when they are started, and the machine knows nothing of them.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.tools import install

SERVER = ("nfs-ganesha", "nfs-ganesha-vfs", "rpcbind")
SERVER_LIBRARIES = (
    "libbsd0",
    "libcap2",
    "libdbus-1-3",
    "libmd0",
    "libnfsidmap1",
    "libntirpc4.3",
    "libtirpc-common",
    "libtirpc3",
    "liburcu8",
    "libwbclient0",
    "libwrap0",
)
CLIENT_LIBRARIES = ("libfuse3-dev", "libnfs-dev")
PACKAGES = (*SERVER, *SERVER_LIBRARIES, *CLIENT_LIBRARIES)
USERS = """\
root:x:0:0:root:/root:/bin/sh
_rpc:x:0:0::/run/rpcbind:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
"""All that the NFS server is to know of users: numbers are the clients' own. rpcbind becomes the user _rpc; it would
forget that it is to end with the server if that were not the user that it has already."""


def unpacked() -> Path:
    """A folder with `usr` and `etc` of the packages. Raises CalledProcessError where apt or dpkg-deb fails."""
    folder = install.cache_root() / f"storage-packages-{key()}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        partial = Path(temporary, "root")
        _unpack(_download(Path(temporary)), partial)
        try:
            partial.rename(folder)
        except OSError:  # somebody else was quicker
            if not folder.exists():
                raise
    return folder


def key() -> str:
    """What the packages are of: the distribution's release, the machine's architecture, their names."""
    release = platform.freedesktop_os_release()
    parts = [release["ID"], release.get("VERSION_ID", ""), platform.machine(), USERS, *PACKAGES]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _download(folder: Path) -> list[Path]:
    """The packages' files. The lists of packages are asked for where there are none, or old ones."""
    command = ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", *PACKAGES]
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode != 0:
        subprocess.run(["apt-get", "update", "-q"], capture_output=True, check=True)
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
    return sorted(folder.glob("*.deb"))


def _unpack(packages: list[Path], root: Path) -> None:
    root.mkdir()
    for package in packages:
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    for name in ("bin", "sbin", "lib"):  # links into /usr on the machine, folders in a package
        if (root / name).exists():
            shutil.copytree(root / name, root / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(root / name)
    (root / "etc/passwd").write_text(USERS)
