"""Which folders of a node belong to its system: what they hold is never a model, and often a secret.

Only the spelling of a path is judged here. A link on the node can lead elsewhere: what a build that runs as nobody in
particular may read there is the node's concern.
"""

from __future__ import annotations

from pathlib import PurePosixPath

SYSTEM_FOLDERS: tuple[str, ...] = (
    # the operating system, by the Filesystem Hierarchy Standard, and what boots it
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/proc", "/root", "/run", "/sbin", "/sys", "/usr"),
    *("/ostree", "/snap", "/sysroot", "/system"),
    # what its programs keep: kubelet, container runtimes, etcd, KubeEdge, and the volumes that others have on the node
    *("/var/backups", "/var/lib", "/var/lock", "/var/log", "/var/mail", "/var/run", "/var/spool"),
    *("/var/openebs", "/var/roothome", "/var/snap"),
    *("/opt/cni", "/opt/containerd", "/opt/local-path-provisioner", "/opt/rke", "/opt/rke2"),
)
"""With everything below them, and whatever holds one of them. Never /tmp, /home, /data, /mnt, /srv or /opt/models."""


def is_clear(path: str) -> bool:
    """Whether a path can be judged by its spelling: absolute, and without `..`, which a link before it would bend."""
    return path.startswith("/") and "\0" not in path and ".." not in path.split("/")


def normalised(path: str) -> str:
    """An absolute path in its shortest spelling: without `.`, doubled slashes and a slash at the end."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def lies_in(path: str, folder: str) -> bool:
    """Whether the path is the folder or below it. Both are absolute; names are compared as wholes."""
    return PurePosixPath(normalised(path)).is_relative_to(normalised(folder))


def system_folder(path: str) -> str:
    """The system's folder that the path lies in, or that lies in the path; empty if there is none."""
    touched = (folder for folder in SYSTEM_FOLDERS if lies_in(path, folder) or lies_in(folder, path))
    return next(touched, "")
