"""A real NFS server in user space: nfs-ganesha, which serves folders of this machine on one address."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.storage import packages

SCRIPT = Path(__file__).with_name("ganesha.sh")
NFS_PORT = 2049
MOUNT_PORT = 20048
"""The registered port of the mount protocol, which clients of version 3 ask first; the portmapper is left out."""


def command(exports: Mapping[str, Path], address: str, run: Path) -> list[str]:
    """The command that serves `exports` (the path that clients name: the folder) and stays in the foreground.

    `run` is made: configuration, log and what the server remembers of its clients. SIGTERM ends the server cleanly.
    Whoever reaches the address may read and write, and root is root. Versions 3 and 4.0 to 4.2 are spoken.
    """
    run.mkdir(parents=True, exist_ok=True)
    (run / "recovery").mkdir(exist_ok=True)
    config = run / "ganesha.conf"
    config.write_text(_config(exports, address, run))
    namespace = ["unshare", "--mount", "--propagation", "slave"]
    files = [packages.unpacked(), config, run / "ganesha.pid", log_file(run)]
    return [*namespace, "sh", str(SCRIPT), *(str(file) for file in files)]


def log_file(run: Path) -> Path:
    return run / "ganesha.log"


def is_ready(address: str, run: Path) -> bool:
    """True once the server says that it is, and answers."""
    log = log_file(run)
    return log.exists() and "NFS SERVER INITIALIZED" in log.read_text() and _answers(address)


def _answers(address: str) -> bool:
    for port in (NFS_PORT, MOUNT_PORT):
        try:
            socket.create_connection((address, port), timeout=5).close()
        except OSError:
            return False
    return True


def _config(exports: Mapping[str, Path], address: str, run: Path) -> str:
    """`mount_path_pseudo`: version 3 knows an export by the same path as version 4."""
    return f"""NFS_CORE_PARAM {{
  Bind_addr = {address};
  NFS_Port = {NFS_PORT};
  MNT_Port = {MOUNT_PORT};
  Protocols = 3, 4;
  Enable_UDP = false;
  Enable_NLM = false;
  Enable_RQUOTA = false;
  mount_path_pseudo = true;
}}
NFSv4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = "{run}/recovery"; Only_Numeric_Owners = true; }}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT_DEFAULTS {{ Access_Type = RW; Squash = No_Root_Squash; SecType = sys; }}
{"".join(_export(number, path, folder) for number, (path, folder) in enumerate(sorted(exports.items()), 1))}"""


def _export(number: int, path: str, folder: Path) -> str:
    return f'EXPORT {{ Export_Id = {number}; Path = "{folder}"; Pseudo = "{path}"; FSAL {{ Name = VFS; }} }}\n'
