"""The part of the image that is Python: the locked dependencies, this project, and their compiled modules."""

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
# manylinux tags name the oldest glibc: bookworm's is 2.36.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
GLIBCS = ("2_35", "2_34", "2_31", "2_28", "2_24", "2_17", "2_12", "2_5")
ENTRY_POINT = f"""#!/usr/bin/python{PYTHON} -IB
from modelwright.__main__ import main

main()
"""


def interpreter() -> str:
    """A Python of the image's version with pip and hatchling: the running one, or that of the checkout's .venv."""
    probe = f"import sys, pip, hatchling; sys.exit(sys.version_info[:2] != tuple(map(int, '{PYTHON}'.split('.'))))"
    for candidate in (sys.executable, str(PROJECT / ".venv/bin/python")):
        if shutil.which(candidate) and _succeeds(candidate, "-c", probe):
            return candidate
    raise SystemExit(f"image: needs a Python {PYTHON} with pip and hatchling: `make demo` makes one in .venv")


def install(root: Path, architecture: str, work: Path, requirements: list[Path]) -> None:
    """Install what the locks name, and this project, into `root`."""
    python, site = interpreter(), root / SITE
    site.mkdir(parents=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-q"]
    target = ["--target", str(site), "--no-compile", "--only-binary", ":all:", *_target(architecture)]
    for lock in requirements:
        _run([*pip, "install", *target, "--no-deps", "--require-hashes", "-r", str(lock)])
        shutil.rmtree(site / "bin", ignore_errors=True)
    wheels = work / f"wheels-{architecture}"
    _run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(PROJECT)])
    _run([*pip, "install", *target, "--no-deps", "--no-index", *map(str, wheels.glob("*.whl"))])
    shutil.rmtree(site / "bin")
    _tidy(site)
    program = root / "usr/local/bin/modelwright"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(ENTRY_POINT)
    program.chmod(0o755)
    _compile(python, root)


def version(root: Path) -> str:
    """The version of this project that is in `root`."""
    metadata = next((root / SITE).glob("modelwright-*.dist-info/METADATA"))
    return next(line.split()[1] for line in metadata.read_text().splitlines() if line.startswith("Version:"))


def _target(architecture: str) -> list[str]:
    machine = MACHINES[architecture]
    platforms = [f"manylinux_{glibc}_{machine}" for glibc in GLIBCS] + [f"manylinux2014_{machine}"]
    return [
        *(f"--platform={platform}" for platform in platforms),
        "--implementation=cp",
        f"--python-version={PYTHON}",
        *(f"--abi={abi}" for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")),
    ]


def _tidy(site: Path) -> None:
    """Take away what tests the dependencies, and what tells where they were installed from."""
    for folder in [path for path in site.rglob("*") if path.is_dir() and path.name in ("tests", "__pycache__")]:
        shutil.rmtree(folder)
    for name in ("direct_url.json", "REQUESTED"):
        for file in site.glob(f"*.dist-info/{name}"):
            file.unlink()
    for record in site.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if (site / line.partition(",")[0].strip('"')).is_file()))


def _compile(python: str, root: Path) -> None:
    """Compile every module; checked by nothing at run time, so that it depends on no file times."""
    command = [python, "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    _run([*command, "-s", str(root), "-p", "/", str(root / STANDARD_LIBRARY), str(root / SITE)])


def _run(command: list[str]) -> None:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "315532800"),
    }
    subprocess.run(command, check=True, stdout=sys.stderr, env=environment, cwd=PROJECT)


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0
