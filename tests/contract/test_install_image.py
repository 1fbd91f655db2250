"""The container images of this project, as their recipe builds them."""

from __future__ import annotations

import ast
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
from tests.cluster.image import CHECKOUT, RECIPE, build, kept_layers
from tests.contract.elf import read_elf

from modelwright import __version__

TOOLS = ("apt-get", "dpkg-deb", "skopeo", "umoci")
REQUIREMENTS = CHECKOUT / "requirements"
PROGRAM = "/usr/local/bin/modelwright"
ARCHITECTURES = ("amd64", "arm64")
LIMIT_BYTES = {
    "operator": 130_000_000,
    "gateway": 110_000_000,
    "server-onnx": 260_000_000,
    "server-sklearn": 350_000_000,
}
"""Unpacked, by image. TensorFlow's is built for one test on the cluster alone: it takes minutes."""
BESIDE = [name for name in LIMIT_BYTES if name != "operator"]
EXCLUDED = {
    "gateway": ("numpy", "onnxruntime", "sklearn", "typer", "httpx2"),
    "server-onnx": ("sklearn", "typer", "cryptography"),
    "server-sklearn": ("onnxruntime", "typer", "cryptography"),
}


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
    bundle = unpack(layout, request.param, tmp_path_factory.mktemp("bundle"))
    yield bundle / "rootfs"
    shutil.rmtree(bundle)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """OCI image layouts by name: all but TensorFlow's, built at once."""
    folder = tmp_path_factory.mktemp("images")
    wanted = [part for name in LIMIT_BYTES for part in ("--variant", name)]
    wanted += [part for architecture in ARCHITECTURES for part in ("--arch", architecture)]
    command = [
        sys.executable,
        str(RECIPE),
        *wanted,
        "--cache",
        str(kept_layers()),
        "--output",
        str(folder / "{variant}"),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    digests = dict(line.split() for line in done.stdout.splitlines())
    assert digests == {name: index_digest(folder / name) for name in LIMIT_BYTES}
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module", params=[(name, each) for name in BESIDE for each in ARCHITECTURES], ids="-".join)
def beside(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """The name of an image beside the operator's, and its root file system for one architecture."""
    name, architecture = request.param
    bundle = unpack(folder / name, architecture, tmp_path_factory.mktemp("beside"))
    yield name, bundle / "rootfs"
    shutil.rmtree(bundle)


def unpack(layout: Path, architecture: str, folder: Path) -> Path:
    """The bundle with the root file system of an image for one architecture, named by that."""
    image = folder / "image"
    copy = ["skopeo", "copy", "--quiet", f"--override-arch={architecture}"]
    subprocess.run([*copy, f"oci:{layout}:latest", f"oci:{image}:latest"], check=True)
    bundle = folder / architecture
    subprocess.run(["umoci", "unpack", "--image", f"{image}:latest", str(bundle)], check=True)
    shutil.rmtree(image)
    return bundle


def index_digest(layout: Path) -> str:
    """What the tag of a layout names."""
    return str(json.loads((layout / "index.json").read_text())["manifests"][0]["digest"])


def layers(layout: Path, architecture: str) -> list[str]:
    """The digests of the layers of an image."""
    command = ["skopeo", "inspect", f"--override-arch={architecture}", f"oci:{layout}:latest"]
    return list(json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["Layers"])


def size_of(root: Path) -> int:
    """Bytes of all files."""
    return sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir() or path.is_symlink())


def run_in(root: Path, user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program of an image of this machine's architecture as a user."""
    command = [shutil.which("chroot") or "chroot", f"--userspec={user}", str(root), PROGRAM, *arguments]
    environment = {"PATH": "/usr/local/bin:/usr/bin", "HOME": "/tmp"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def manifests(layout: Path) -> dict[str, str]:
    """The digest of each architecture's image."""
    raw = subprocess.run(["skopeo", "inspect", "--raw", f"oci:{layout}:latest"], check=True, capture_output=True).stdout
    return {entry["platform"]["architecture"]: entry["digest"] for entry in json.loads(raw)["manifests"]}


def config(layout: Path, architecture: str) -> dict[str, Any]:
    command = ["skopeo", "inspect", "--config", f"--override-arch={architecture}", f"oci:{layout}:latest"]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


def test_the_same_sources_give_the_same_digest_alone_or_beside_another(layout: Path, tmp_path: Path) -> None:
    """And from layers that were kept."""
    assert build(tmp_path / "again", "amd64", layers=tmp_path / "layers") == manifests(layout)["amd64"]
    assert build(tmp_path / "kept", "amd64", layers=tmp_path / "layers") == manifests(layout)["amd64"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_configuration_says_what_runs_as_whom(layout: Path, architecture: str) -> None:
    said = config(layout, architecture)
    assert (said["os"], said["architecture"], said["created"]) == ("linux", architecture, "1970-01-01T00:00:00Z")
    assert said["config"]["User"] == "65532:65532"
    assert said["config"]["Entrypoint"] == ["modelwright"]
    assert said["config"]["Labels"]["org.opencontainers.image.version"] == __version__


def test_it_is_small_and_has_no_file_that_gives_rights(unpacked: Path) -> None:
    assert size_of(unpacked) < LIMIT_BYTES["operator"]
    files = [(path, path.lstat()) for path in unpacked.rglob("*")]
    assert [path for path, state in files if state.st_mode & (stat.S_ISUID | stat.S_ISGID)] == []
    writable = [path for path, state in files if state.st_mode & stat.S_IWOTH and not path.is_symlink()]
    assert writable == [unpacked / "tmp"]
    assert {state.st_uid for _, state in files} == {0}


def test_every_program_and_library_is_of_its_architecture_and_finds_what_it_needs(unpacked: Path) -> None:
    assert misfits(unpacked) == set()


def misfits(root: Path) -> set[tuple[str, str]]:
    """Programs and libraries of another architecture, or that need a library that is not there."""
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    present = {path.name for path in root.rglob("*")}
    found = {path: elf for path in files if (elf := read_elf(path)) is not None}
    wrong = {(str(path), elf.architecture) for path, elf in found.items() if elf.architecture != root.parent.name}
    return wrong | {(str(path), name) for path, elf in found.items() for name in elf.needed if name not in present}


def test_every_module_is_compiled_and_nothing_tells_where_it_was_built(unpacked: Path) -> None:
    modules = sorted((unpacked / "usr/local/lib").rglob("*.py"))
    assert modules
    assert [
        path for path in modules if not (path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc").exists()
    ] == []
    checkout = str(CHECKOUT).encode()
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
        done = run_in(unpacked, user, *arguments)
        assert done.returncode == 0, done.stderr
        assert done.stdout


# Gateway and model servers ------------------------------------------------------------------------------------------


def test_an_image_beside_the_operators_holds_what_its_program_imports_and_no_more(beside: tuple[str, Path]) -> None:
    name, root = beside
    assert size_of(root) < LIMIT_BYTES[name]
    assert misfits(root) == set()
    packages = {path.name for path in (root / "usr/local/lib/python3.11/dist-packages").iterdir()}
    assert packages & set(EXCLUDED[name]) == set()
    if root.parent.name == "amd64":
        runs_its_verb_alone(name, root)


def runs_its_verb_alone(name: str, root: Path) -> None:
    verb, other = ("gateway", "server") if name == "gateway" else ("server", "gateway")
    for user in ("65532:65532", "4711:4711"):
        assert run_in(root, user, "--version").stdout.strip() == __version__
        told = run_in(root, user, verb, "--help")
        assert told.returncode == 0, told.stderr
        assert f"usage: modelwright {verb}" in told.stdout
    refused = run_in(root, "65532:65532", other)
    assert (refused.returncode, refused.stderr) == (
        1,
        f"this image holds `modelwright {verb}` alone: the operator's image holds the rest\n",
    )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_images_have_the_same_base_and_the_same_program(folder: Path, architecture: str) -> None:
    found = [layers(folder / name, architecture) for name in LIMIT_BYTES]
    assert [len(each) for each in found] == [3] * len(found)
    assert len({each[0] for each in found}) == len({each[2] for each in found}) == 1
    assert len({each[1] for each in found}) == len(found)


def test_the_servers_image_says_what_it_is_and_sends_nothing_home(folder: Path) -> None:
    said = config(folder / "server-onnx", "amd64")["config"]
    assert said["Labels"]["org.opencontainers.image.description"] == "Modelwright's model server for ONNX models"
    assert said["User"] == "65532:65532"
    assert "ORT_DISABLE_TELEMETRY=1" in said["Env"]


FRAMEWORKS = {"numpy", "onnxruntime", "sklearn", "skops", "joblib", "tensorflow", "google"}


@pytest.mark.parametrize(("package", "extra"), [("gateway", set[str]()), ("http", set[str]()), ("serve", FRAMEWORKS)])
def test_a_program_imports_nothing_that_its_image_does_not_hold(package: str, extra: set[str]) -> None:
    """Of what is not Python's own. Only the gateway reads the names in certificates, which `http` can."""
    named = set((REQUIREMENTS / "server.in").read_text().replace("-", "_").split())
    named |= {"cryptography"} if package == "http" else set()
    paths = (CHECKOUT / "src/modelwright" / package).rglob("*.py")
    imported = {name for path in paths for name in imports(path)}
    assert imported - set(sys.stdlib_module_names) - named - extra == {"modelwright"}
    assert "cryptography" in (REQUIREMENTS / "gateway.in").read_text().split()


def imports(path: Path) -> set[str]:
    """The top-level packages that a module imports."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    return {name.partition(".")[0] for name in plain | {str(n.module) for n in nodes if isinstance(n, ast.ImportFrom)}}


@pytest.mark.parametrize(("machine", "wanted"), [("x86_64", "tensorflow-cpu"), ("aarch64", "tensorflow")])
def test_a_lock_is_read_for_the_architecture_of_the_image(machine: str, wanted: str) -> None:
    command = [sys.executable, str(RECIPE.with_name("for_machine.py")), str(REQUIREMENTS / "server-tensorflow.txt")]
    lines = subprocess.run([*command, machine], check=True, capture_output=True, text=True).stdout.splitlines()
    names = [line.partition("==")[0] for line in lines if "==" in line]
    assert [name for name in names if name.startswith("tensorflow")] == [wanted]
    assert len(names) == len(set(names))
    assert not any(";" in line for line in lines)
    assert sum("--hash=sha256:" in line for line in lines) > len(names)


@pytest.mark.parametrize("lock", sorted(REQUIREMENTS.glob("*.txt")), ids=lambda lock: str(lock.stem))
def test_locks_name_no_address(lock: Path) -> None:
    assert "://" not in lock.read_text()


def test_an_unknown_architecture_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    done = refused(tmp_path, "--arch", "vax")
    assert "vax" in done.stderr


def test_an_unknown_image_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    assert "server-sklearn" in refused(tmp_path, "--variant", "server-caffe").stderr


def test_several_images_need_several_places(tmp_path: Path) -> None:
    assert "{variant}" in refused(tmp_path, "--variant", "gateway", "--variant", "operator").stderr


def refused(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """What the recipe says of wrong options."""
    command = [sys.executable, str(RECIPE), *options, "--output", str(tmp_path / "layout")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert not (tmp_path / "layout").exists()
    return done
