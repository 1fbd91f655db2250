"""Install the programs that the tests run against: apt packages and Go programs built from pinned modules.

Standard library only, since it runs before the virtual environment exists.
Built programs live outside the checkout, in a folder named by what they were built from,
so that a second run finds them and a changed pin never finds the old ones.

    install.py            install what is missing, print the folder of the built programs
    install.py --print    only print that folder
    install.py --bench    also build what only `make bench-cluster` runs; prints both paths
    install.py --cluster  also install what only a test cluster needs; so do CI=true and MODELWRIGHT_TEST_CLUSTER=1
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

HERE = pathlib.Path(__file__).resolve().parent
KUBERNETES_VERSION = "1.35.4"
POLICY = pathlib.Path("/usr/sbin/policy-rc.d")
CLUSTER_VARIABLE = "MODELWRIGHT_TEST_CLUSTER"
APT_PACKAGES = {"skopeo": "skopeo", "umoci": "umoci", "docker-registry": "docker-registry", "curl": "curl"}
CLUSTER_PACKAGES = (
    "busybox-static",
    "containernetworking-plugins",
    "gcc",
    "iproute2",
    "iptables",
    "libc6-dev",
    "nftables",
    "runc",
)
GO_PROGRAMS = {
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kubectl": ("kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    "etcd": ("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubelet": ("kubernetes", "k8s.io/kubernetes/cmd/kubelet"),
    "kube-proxy": ("kubernetes", "k8s.io/kubernetes/cmd/kube-proxy"),
    "containerd": ("containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
    "containerd-shim-runc-v2": ("containerd", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"),
    "kaniko": ("kaniko", "github.com/GoogleContainerTools/kaniko/cmd/executor"),
    "helm": ("helm", "helm.sh/helm/v3/cmd/helm"),
}
BENCH_PROGRAM = ("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok")
"""Fake nodes and pods, in a folder of its own: tests run on real ones."""


def cache_root() -> pathlib.Path:
    """The folder that outlives a checkout: XDG_CACHE_HOME or ~/.cache, then modelwright/tools."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "modelwright" / "tools"


def bin_dir() -> pathlib.Path:
    """The folder of the built programs: its name is a digest of every pin."""
    modules = sorted({module for module, _ in GO_PROGRAMS.values()})
    return cache_root() / pinned(f"{KUBERNETES_VERSION} {sorted(GO_PROGRAMS)}", modules)


def pinned(what: str, modules: list[str]) -> str:
    """A name for what is built from these modules."""
    digest = hashlib.sha256(what.encode())
    for module in modules:
        for pin in ("go.mod", "go.sum"):
            digest.update((HERE / module / pin).read_bytes())
    return digest.hexdigest()[:16]


def version_flags() -> str:
    """Linker flags that make Kubernetes programs report their version instead of v0.0.0-master."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    base = "k8s.io/component-base/version"
    return f"-s -w -X {base}.gitVersion=v{KUBERNETES_VERSION} -X {base}.gitMajor={major} -X {base}.gitMinor={minor}"


def build(name: str, module: str, package: str, destination: pathlib.Path) -> None:
    """Build one Go program into `destination`, atomically: a half-written program is never found."""
    flags = version_flags() if module == "kubernetes" else "-s -w"
    partial = destination / f".{name}.{os.getpid()}"
    command = ["go", "build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", str(partial), package]
    subprocess.run(command, cwd=HERE / module, check=True, env={**os.environ, "CGO_ENABLED": "0"})
    partial.rename(destination / name)


def install_go_programs() -> None:
    for name, (module, package) in GO_PROGRAMS.items():
        install_go_program(name, module, package, bin_dir())


def install_bench_program() -> pathlib.Path:
    """Build it where it is missing; its path."""
    name, module, package = BENCH_PROGRAM
    folder = cache_root() / f"{name}-{pinned(name, [module])}"
    install_go_program(name, module, package, folder)
    return folder / name


def install_go_program(name: str, module: str, package: str, destination: pathlib.Path) -> None:
    if (destination / name).exists():
        return
    if shutil.which("go") is None:
        raise SystemExit(f"install: {name} is built with Go >= 1.25, and there is no `go` on PATH")
    destination.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    print(f"install: building {name} ...", file=sys.stderr, flush=True)
    build(name, module, package, destination)
    print(f"install: built {name} in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def wants_cluster() -> bool:
    """True where the tests on a real cluster will run, so that what only they need is installed too."""
    return "--cluster" in sys.argv[1:] or os.environ.get("CI") == "true" or os.environ.get(CLUSTER_VARIABLE) == "1"


def missing_packages(*, cluster: bool) -> list[str]:
    """The Debian packages that are not there yet; all that have no program of their own where there is no dpkg."""
    missing = [package for program, package in APT_PACKAGES.items() if shutil.which(program) is None]
    return [*missing, *(package for package in CLUSTER_PACKAGES if cluster and not is_installed(package))]


def is_installed(package: str) -> bool:
    if shutil.which("dpkg-query") is None:
        return False
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    return subprocess.run(query, capture_output=True, text=True).stdout == "installed"


def install_apt_packages() -> None:
    missing = missing_packages(cluster=wants_cluster())
    if not missing:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise SystemExit(f"install: needs {', '.join(missing)}; install them, or run as root on Debian")
    print(f"install: installing {', '.join(missing)} ...", file=sys.stderr, flush=True)
    with no_service_starts():
        for command in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *missing]):
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            apt_get = ["apt-get", "-o", "DPkg::Lock::Timeout=600", *command]
            subprocess.run(apt_get, stdout=sys.stderr, check=True, env=environment)


@contextmanager
def no_service_starts() -> Iterator[None]:
    """Debian starts a service when it is installed, unless this file says no: tests start servers of their own."""
    try:
        with POLICY.open("x") as policy:
            policy.write("#!/bin/sh\nexit 101\n")
    except FileExistsError:  # an administrator's own policy holds
        yield
        return
    try:
        POLICY.chmod(0o755)
        yield
    finally:
        POLICY.unlink()


if __name__ == "__main__":
    if "--print" not in sys.argv[1:]:
        install_apt_packages()
        install_go_programs()
    print(bin_dir())
    if "--bench" in sys.argv[1:]:
        print(install_bench_program())
