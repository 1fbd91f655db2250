"""What a cluster asks of a machine before anything is changed: it may be a stranger's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cluster.rig import state
from tests.tools import install

INSTALL = Path(install.__file__)


class Refused(Exception):
    """A cluster is not started here; the message says why."""


class NoConsent(Refused):
    """Nobody has said that one may be."""


def check() -> None:
    """Raises Refused unless this machine can run a cluster, and CI or a person has said that it may."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise Refused("a test cluster needs Linux and root: it makes namespaces, mounts and control groups")
    if os.environ.get("CI") != "true" and os.environ.get(install.CLUSTER_VARIABLE) != "1":
        says = "`python -m tests.cluster.rig up` says what it would install and change"
        raise NoConsent(f"a cluster is started where {install.CLUSTER_VARIABLE}=1 lets it; {says}")


def install_programs() -> Path:
    """Install what is missing, by the one script that installs for tests; the folder of the Go programs."""
    command = [sys.executable, str(INSTALL), "--cluster"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Path(printed.stdout.split()[-1])


def plan() -> str:
    """What starting a cluster would install and change."""
    packages = install.missing_packages(cluster=True)
    unbuilt = [name for name in install.GO_PROGRAMS if not (install.bin_dir() / name).exists()]
    return "\n".join(
        [
            "A test cluster would, on this machine,",
            f"- install with apt: {', '.join(packages) or 'nothing, all is there'}",
            f"- build with Go into {install.bin_dir()}: {', '.join(unbuilt) or 'nothing, all is there'}",
            f"- unpack, not install, an NFS server and what it needs into {install.cache_root()} (apt-get download),",
            "  and compile there a mount.nfs and a CSI driver, with gcc and Go",
            f"- keep its files in {state.cache()} (what a cluster wrote is removed with it)",
            "- add, while it runs, an interface mw-NAME with an address in 10.88.0.0/16,",
            "  control groups modelwright-NAME, and processes in mount and network namespaces of their own",
            "It changes no sysctl, no packet filter and no mount of the machine, and removes the rest with `down`.",
        ]
    )


def kubectl() -> Path:
    """The kubectl for a cluster that was given: the one built for tests, else the one on PATH."""
    built = install.bin_dir() / "kubectl"
    if built.exists():
        return built
    found = shutil.which("kubectl")
    if found is None:
        raise Refused(f"no kubectl in {install.bin_dir()} or on PATH")
    return Path(found)
