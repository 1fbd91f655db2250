"""Run every check and every suite, one after the other, and print each with its time.

    run.py             everything
    run.py lint        the checks alone
    run.py SUITE ...   these suites alone

What cannot run on this machine is left out by name and reason; with CI=true nothing is left out.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(sys.executable).parent
CI = os.environ.get("CI") == "true"
CHECKS = {
    "style": ["ruff", "check", "--quiet", "."],
    "format": ["ruff", "format", "--quiet", "--check", "."],
    "layers": ["lint-imports"],
    "generated": ["python", "-m", "modelwright.api.generate", "--check"],
    "types": ["mypy"],
}
SUITES = ("unit", "contract", "integration", "e2e")
OTHER_PYTHONS = ("3.12", "3.13")


def run(name: str, command: list[str]) -> bool:
    """Run one command and print how it went; True if it succeeded."""
    print(f"--- {name}", flush=True)
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT).returncode == 0
    print(f"--- {name}: {'ok' if done else 'FAILED'} in {time.monotonic() - began:.0f} s", flush=True)
    return done


def tool(name: str, *arguments: str) -> list[str]:
    return [str(BIN / name), *arguments]


def lint() -> bool:
    results = [run(f"lint {name}", tool(*command)) for name, command in CHECKS.items()]
    return all(results)


def suite(name: str, python: pathlib.Path = BIN / "python") -> bool:
    label = f"suite {name}" + ("" if python.parent == BIN else f" ({python.parent.parent.name})")
    return run(label, [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/{name}"])


def tools() -> bool:
    """Install what the contract and end-to-end suites run against, where that is possible."""
    possible = shutil.which("apt-get") and os.geteuid() == 0 and shutil.which("go")
    if possible or CI:
        return run("tools", [sys.executable, "tests/tools/install.py"])
    print("--- tools: left out (they need Debian, root and Go); tests that need them say so", flush=True)
    return True


def find_python(version: str) -> str | None:
    """A working interpreter of that version: on PATH, or among those that pyenv keeps."""
    kept = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    candidates = [f"python{version}", *(str(path) for path in sorted(kept.glob(f"{version}*/bin/python{version}")))]
    for candidate in candidates:
        program = shutil.which(candidate)
        if program and subprocess.run([program, "-c", ""], capture_output=True).returncode == 0:
            return program
    return None


def other_python(version: str) -> pathlib.Path | None:
    """An environment with another Python, made anew when the lock changes; None where that Python is not found."""
    program = find_python(version)
    if program is None:
        print(f"--- unit tests on Python {version}: left out, it is not installed", flush=True)
        return None
    venv = ROOT / f".venv-{version}"
    python, stamp = venv / "bin/python", venv / "locked"
    lock = (ROOT / "requirements/dev.txt").read_text()
    if not stamp.exists() or stamp.read_text() != lock:
        install_environment(program, venv)
        stamp.write_text(lock)
    return python


def install_environment(program: str, venv: pathlib.Path) -> None:
    print(f"--- installing the locked dependencies into {venv.name} ...", flush=True)
    pip = [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    locked = ["--require-hashes", "--only-binary", ":all:", "-r", "requirements/dev.txt"]
    subprocess.run([program, "-m", "venv", "--clear", str(venv)], check=True)
    subprocess.run([*pip, *locked], cwd=ROOT, check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", "."], cwd=ROOT, check=True)


def everything() -> bool:
    results = [lint(), tools(), *(suite(name) for name in SUITES)]
    pythons = [python for version in OTHER_PYTHONS if (python := other_python(version)) is not None]
    return all([*results, *(suite("unit", python) for python in pythons)])


if __name__ == "__main__":
    wanted = sys.argv[1:]
    if not wanted:
        succeeded = everything()
    elif wanted == ["lint"]:
        succeeded = lint()
    else:
        results = [suite(name) for name in wanted]
        succeeded = all(results)
    sys.exit(0 if succeeded else 1)
