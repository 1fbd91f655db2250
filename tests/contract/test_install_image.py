"""The container image of the operator and the agent, as its recipe builds it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.image import build
from tests.contract.elf import read_elf

from modelwright import __version__

TOOLS = ("apt-get", "dpkg-deb", "skopeo", "umoci")
ARCHITECTURES = ("amd64", "arm64")
LIMIT_BYTES = 250_000_000


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    """What the recipe needs; a machine without it runs these tests in CI only, where it is installed."""
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if os.geteuid() != 0 or sys.version_info[:2] != (3, 11):
        missing.append("root, and Python 3.11")
    if missing:
        message = f"the image is built with {', '.join(missing)}"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An OCI image layout with the image for both architectures."""
    layout = tmp_path_factory.mktemp("image") / "layout"
    build(layout, *ARCHITECTURES)
    return layout


@pytest.fixture(scope="module", params=ARCHITECTURES)
def unpacked(request: pytest.FixtureRequest, layout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root file system for one architecture."""
    image = layout.parent / request.param
    copy = ["skopeo", "copy", "--quiet", f"--override-arch={request.param}"]
    subprocess.run([*copy, f"oci:{layout}:latest", f"oci:{image}:latest"], check=True)
    bundle = tmp_path_factory.mktemp("bundle") / request.param
    subprocess.run(["umoci", "unpack", "--image", f"{image}:latest", str(bundle)], check=True)
    yield bundle / "rootfs"
    shutil.rmtree(bundle)


def manifests(layout: Path) -> dict[str, str]:
    """The digest of each architecture's image."""
    raw = subprocess.run(["skopeo", "inspect", "--raw", f"oci:{layout}:latest"], check=True, capture_output=True).stdout
    return {entry["platform"]["architecture"]: entry["digest"] for entry in json.loads(raw)["manifests"]}


def config(layout: Path, architecture: str) -> dict[str, Any]:
    command = ["skopeo", "inspect", "--config", f"--override-arch={architecture}", f"oci:{layout}:latest"]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


def test_the_same_sources_give_the_same_digest_alone_or_beside_another(layout: Path, tmp_path: Path) -> None:
    assert build(tmp_path / "again", "amd64") == manifests(layout)["amd64"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_configuration_says_what_runs_as_whom(layout: Path, architecture: str) -> None:
    said = config(layout, architecture)
    assert (said["os"], said["architecture"], said["created"]) == ("linux", architecture, "1970-01-01T00:00:00Z")
    assert said["config"]["User"] == "65532:65532"
    assert said["config"]["Entrypoint"] == ["modelwright"]
    assert said["config"]["Labels"]["org.opencontainers.image.version"] == __version__


def test_it_is_small_and_has_no_file_that_gives_rights(unpacked: Path) -> None:
    files = [(path, path.lstat()) for path in unpacked.rglob("*")]
    assert sum(state.st_size for _, state in files if not stat.S_ISDIR(state.st_mode)) < LIMIT_BYTES
    assert [path for path, state in files if state.st_mode & (stat.S_ISUID | stat.S_ISGID)] == []
    writable = [path for path, state in files if state.st_mode & stat.S_IWOTH and not path.is_symlink()]
    assert writable == [unpacked / "tmp"]
    assert {state.st_uid for _, state in files} == {0}


def test_every_program_and_library_is_of_its_architecture_and_finds_what_it_needs(unpacked: Path) -> None:
    files = [path for path in unpacked.rglob("*") if path.is_file() and not path.is_symlink()]
    present = {path.name for path in unpacked.rglob("*")}
    found = {path: elf for path in files if (elf := read_elf(path)) is not None}
    assert {elf.architecture for elf in found.values()} == {unpacked.parent.name}
    missing = {(str(path), name) for path, elf in found.items() for name in elf.needed if name not in present}
    assert missing == set()


def test_every_module_is_compiled_and_nothing_tells_where_it_was_built(unpacked: Path) -> None:
    modules = sorted((unpacked / "usr/local/lib").rglob("*.py"))
    assert modules
    assert [
        path for path in modules if not (path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc").exists()
    ] == []
    checkout = str(Path(__file__).parents[2]).encode()
    compiled = (unpacked / "usr/local/lib").rglob("modelwright*/**/*")
    assert [path for path in compiled if path.is_file() and checkout in path.read_bytes()] == []


def test_it_trusts_the_usual_authorities_and_lists_its_packages(unpacked: Path) -> None:
    bundle = (unpacked / "etc/ssl/certs/ca-certificates.crt").read_text()
    assert bundle.count("BEGIN CERTIFICATE") == bundle.count("END CERTIFICATE") > 100
    listed = {path.name for path in (unpacked / "var/lib/dpkg/status.d").iterdir()}
    assert {"base-files", "ca-certificates", "libc6", "libssl3", "python3.11-minimal"} <= listed
    assert not listed & {"dpkg", "tar", "bash", "apt", "perl-base"}


@pytest.mark.parametrize("arguments", [["--version"], ["operator", "--help"], ["agent", "build", "--help"]])
@pytest.mark.parametrize("unpacked", ["amd64"], indirect=True)
def test_it_runs_as_its_user(unpacked: Path, arguments: list[str]) -> None:
    """Without its own entry in /etc/passwd, as an admin may configure, it runs as well."""
    for user in ("65532:65532", "4711:4711"):
        command = [
            shutil.which("chroot") or "chroot",
            f"--userspec={user}",
            str(unpacked),
            "/usr/local/bin/modelwright",
            *arguments,
        ]
        done = subprocess.run(
            command, env={"PATH": "/usr/local/bin:/usr/bin", "HOME": "/tmp"}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_an_unknown_architecture_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    recipe = Path(__file__).parents[2] / "deploy/image/build.py"
    command = [sys.executable, str(recipe), "--arch", "vax", "--output", str(tmp_path / "layout")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "vax" in done.stderr
    assert not (tmp_path / "layout").exists()
