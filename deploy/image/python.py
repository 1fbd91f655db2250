"""The parts of the images that are Python: the locked dependencies, this project, and their compiled modules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from debian import PYTHON

PROJECT = Path(__file__).resolve().parents[2]
SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
STANDARD_LIBRARY = f"usr/lib/python{PYTHON}"
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# manylinux tags name the oldest glibc: bookworm's is 2.36.
GLIBCS = tuple(f"2_{minor}" for minor in range(36, 4, -1))
# What only building against TensorFlow takes: a fifth of it.
USELESS = ("clang", "tensorflow/include")
PROGRAM = "usr/local/bin/modelwright"


def interpreter() -> str:
    """A Python of the image's version with pip and hatchling: the running one, or that of the checkout's .venv."""
    probe = f"import sys, pip, hatchling; sys.exit(sys.version_info[:2] != tuple(map(int, '{PYTHON}'.split('.'))))"
    for candidate in (sys.executable, str(PROJECT / ".venv/bin/python")):
        if shutil.which(candidate) and _succeeds(candidate, "-c", probe):
            return candidate
    raise SystemExit(f"image: needs a Python {PYTHON} with pip and hatchling: `make demo` makes one in .venv")


def install_dependencies(root: Path, architecture: str, work: Path, locks: list[Path]) -> None:
    """Install what the locks name into `root`, and nothing else."""
    python, site = interpreter(), _site(root)
    for lock in locks:
        wanted = work / f"{lock.stem}-{architecture}.txt"
        wanted.write_text(_lines(python, lock, architecture))
        _run(
            [*_pip(python), "install", *_target(site, architecture), "--no-deps", "--require-hashes", "-r", str(wanted)]
        )
        shutil.rmtree(site / "bin", ignore_errors=True)
    _tidy(site)
    _compile(python, root, site)


def install_project(root: Path, architecture: str, work: Path) -> None:
    """Install this project into `root`, without its dependencies and its program."""
    python, site, wheels = interpreter(), _site(root), work / f"wheels-{architecture}"
    _run([*_pip(python), "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(PROJECT)])
    found = map(str, wheels.glob("*.whl"))
    _run([*_pip(python), "install", *_target(site, architecture), "--no-deps", "--no-index", *found])
    shutil.rmtree(site / "bin")
    _tidy(site)
    _compile(python, root, site)


def install_program(root: Path, text: str) -> None:
    """Put the program on PATH."""
    program = root / PROGRAM
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(text)
    program.chmod(0o755)


def compile_standard_library(root: Path) -> None:
    """Compile every module of Python's own in `root`."""
    _compile(interpreter(), root, root / STANDARD_LIBRARY)


def version(root: Path) -> str:
    """The version of this project that is in `root`."""
    metadata = next((root / SITE).glob("modelwright-*.dist-info/METADATA"))
    return next(line.split()[1] for line in metadata.read_text().splitlines() if line.startswith("Version:"))


def _site(root: Path) -> Path:
    site = root / SITE
    site.mkdir(parents=True)
    return site


def _pip(python: str) -> list[str]:
    return [python, "-m", "pip", "--disable-pip-version-check", "-q"]


def _lines(python: str, lock: Path, architecture: str) -> str:
    script = Path(__file__).with_name("for_machine.py")
    command = [python, "-I", str(script), str(lock), MACHINES[architecture]]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _target(site: Path, architecture: str) -> list[str]:
    machine = MACHINES[architecture]
    platforms = [f"manylinux_{glibc}_{machine}" for glibc in GLIBCS] + [f"manylinux2014_{machine}"]
    return [
        *("--target", str(site), "--no-compile", "--only-binary", ":all:"),
        *(f"--platform={platform}" for platform in platforms),
        "--implementation=cp",
        f"--python-version={PYTHON}",
        *(f"--abi={abi}" for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")),
    ]


def _tidy(site: Path) -> None:
    """Take away what tests the dependencies, and what tells where they were installed from."""
    useless = [site / name for name in USELESS]
    useless += [path for path in site.rglob("*") if path.is_dir() and path.name in ("tests", "__pycache__")]
    for folder in useless:
        shutil.rmtree(folder, ignore_errors=True)
    for name in ("direct_url.json", "REQUESTED"):
        for file in site.glob(f"*.dist-info/{name}"):
            file.unlink()
    for record in site.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if (site / line.partition(",")[0].strip('"')).is_file()))


def _compile(python: str, root: Path, folder: Path) -> None:
    """Compile every module; checked by nothing at run time, so that it depends on no file times."""
    command = [python, "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    _run([*command, "-s", str(root), "-p", "/", str(folder)])


def _run(command: list[str]) -> None:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "315532800"),
    }
    subprocess.run(command, check=True, stdout=sys.stderr, env=environment, cwd=PROJECT)


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0
