"""Run every check and every suite, and print each with its time.

    run.py             everything, in two lanes side by side: tests wait more than they work
    run.py lint        the checks alone
    run.py SUITE ...   these suites alone, one after the other

What cannot run on this machine is left out by name and reason; with CI=true nothing is left out.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

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
LANES = (("cluster",), ("unit", "integration", "contract", "e2e", "tensorflow"))
"""What waits most begins first; unit tests on other Pythons follow in the second lane."""
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
    """Run one suite; what it prints comes in one piece at its end, since another may run beside it."""
    label = f"suite {name}" + ("" if python.parent == BIN else f" ({python.parent.parent.name})")
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=10", f"tests/{name}"]
    print(f"--- {label}: started", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(command, cwd=ROOT, stdout=output, stderr=output).returncode == 0
        seconds = time.monotonic() - began
        output.seek(0)
        print(f"{output.read()}--- {label}: {'ok' if done else 'FAILED'} in {seconds:.0f} s", flush=True)
    return done


def tools() -> bool:
    """Install what the contract and end-to-end suites run against, where that is possible."""
    possible = shutil.which("apt-get") and os.geteuid() == 0 and shutil.which("go")
    if possible or CI:
        return run("tools", [sys.executable, "tests/tools/install.py", *(["--cluster"] if cluster_asked_for() else [])])
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
    """An environment with another Python; None where that Python is not found."""
    program = find_python(version)
    if program is None:
        print(f"--- unit tests on Python {version}: left out, it is not installed", flush=True)
        return None
    return environment(program, ROOT / f".venv-{version}", "dev.txt")


def tensorflow() -> pathlib.Path | None:
    """The environment with TensorFlow; None where it is not there and would only be made for this."""
    venv = ROOT / ".venv-tensorflow"
    if not (CI or venv.exists() or "tensorflow" in sys.argv):
        print(
            "--- suite tensorflow: left out, it installs 1.6 GB; `.venv/bin/python tests/run.py tensorflow` runs it, "
            "and from then on it is not left out",
            flush=True,
        )
        return None
    return environment(sys.executable, venv, "tensorflow.txt")


def environment(program: str, venv: pathlib.Path, lock: str) -> pathlib.Path:
    """An environment with what a lock names, made anew when the lock changes; its Python."""
    stamp, content = venv / "locked", (ROOT / "requirements" / lock).read_text()
    if not stamp.exists() or stamp.read_text() != content:
        began = time.monotonic()
        print(f"--- installing the locked dependencies into {venv.name} ...", flush=True)
        install(program, venv, lock)
        stamp.write_text(content)
        print(f"--- {venv.name}: made in {time.monotonic() - began:.0f} s", flush=True)
    return venv / "bin/python"


def install(program: str, venv: pathlib.Path, lock: str) -> None:
    pip = [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    locked = ["--require-hashes", "--only-binary", ":all:", "-r", f"requirements/{lock}"]
    subprocess.run([program, "-m", "venv", "--clear", str(venv)], check=True)
    subprocess.run([*pip, *locked], cwd=ROOT, check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", "."], cwd=ROOT, check=True)


def cluster_asked_for() -> bool:
    """Whether one may be started on this machine."""
    return CI or os.environ.get("MODELWRIGHT_TEST_CLUSTER") == "1"


def cluster() -> pathlib.Path | None:
    """The environment for the tests on a real cluster; None where nobody has asked for one on this machine."""
    if cluster_asked_for() or os.environ.get("MODELWRIGHT_TEST_KUBECONFIG"):
        return BIN / "python"
    print(
        "--- suite cluster: left out, it installs programs and makes network namespaces, mounts and cgroups as root; "
        "MODELWRIGHT_TEST_CLUSTER=1 runs it on Debian, MODELWRIGHT_TEST_KUBECONFIG=FILE on a cluster of yours",
        flush=True,
    )
    return None


def suite_of(name: str) -> bool:
    """A suite in the environment that it needs; True too if that is left out."""
    special = {"tensorflow": tensorflow, "cluster": cluster}
    python = special[name]() if name in special else BIN / "python"
    return python is None or suite(name, python)


def everything() -> bool:
    """Checks and tools, then the lanes."""
    first = [lint(), tools()]
    with ThreadPoolExecutor(len(LANES)) as pool:
        waiting, working = LANES
        others = [partial(unit_on, version) for version in OTHER_PYTHONS]
        lanes = [
            pool.submit(lane, [partial(suite_of, name) for name in waiting]),
            pool.submit(lane, [*(partial(suite_of, name) for name in working), *others]),
        ]
        return all([*first, *(each.result() for each in lanes)])


def lane(steps: list[Callable[[], bool]]) -> bool:
    """One after the other; one that fails stops none."""
    results = [step() for step in steps]
    return all(results)


def unit_on(version: str) -> bool:
    """The unit tests on another Python; True too if that is not here."""
    python = other_python(version)
    return python is None or suite("unit", python)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs, and inherited
    wanted = sys.argv[1:]
    if not wanted:
        succeeded = everything()
    elif wanted == ["lint"]:
        succeeded = lint()
    else:
        succeeded = lane([partial(suite_of, name) for name in wanted])
    sys.exit(0 if succeeded else 1)
