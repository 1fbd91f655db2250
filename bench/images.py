"""How fast a model image is built and pushed, measured against curl.

Three files of 500 MB go to a docker-registry on this machine (`--quick`: 50 MB, two rounds). The yardstick is three
curls at once that put the same bytes with digests known beforehand. Runs alternate; medians are compared.
Targets: at most 1.25 times curl's time, at most 128 MiB of memory without file pages, a second push that uploads
no layer, one changed file that uploads one layer.

    .venv/bin/python bench/images.py [--quick] [--folder DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

PROGRAM = [sys.executable, "-m", "modelwright", "image", "build"]
UPLOAD = """
location=$(curl -sS -X POST -D - -o /dev/null "http://$HOST/v2/bench/curl/blobs/uploads/" \
  | tr -d '\\r' | awk 'tolower($1) == "location:" { print $2 }')
curl -sS --fail -o /dev/null -X PUT -H 'Content-Type: application/octet-stream' -T "$1" "$location&digest=sha256:$2"
"""


def main() -> int:
    """Run everything, print a table, and return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="50 MB and two rounds instead of 1.5 GB and five")
    parser.add_argument("--folder", type=Path, help="where to put the data (default: the system's temporary folder)")
    options = parser.parse_args()
    size, rounds = (50_000_000 // 3, 2) if options.quick else (500_000_000, 5)
    with tempfile.TemporaryDirectory(dir=options.folder) as place, _registry(_fast_folder()) as (host, data):
        files = _make_files(Path(place) / "model", size)
        _keep_byte_code(Path(place) / "byte-code")
        result = _measure(host, data, files, rounds)
    print(json.dumps(result, indent=2))
    return 0 if all(result["met"].values()) else 1


def _measure(host: str, data: Path, files: list[Path], rounds: int) -> dict[str, dict[str, float] | dict[str, bool]]:
    digests = [_digest(file) for file in files]
    curls, builds = [], []
    _build(host, files[0].parent, "first")
    for _ in range(rounds):
        _empty(data)
        curls.append(_timed(lambda: _curl_all(host, files, digests)))
        _empty(data)
        builds.append(_timed(lambda: _build(host, files[0].parent, "time")))
        print(f"curl {curls[-1]:.2f} s, build and push {builds[-1]:.2f} s", file=sys.stderr)
    _empty(data)
    memory = _peak_memory(_start(host, files[0].parent, "memory"))
    first = _layers_uploaded(host, files[0].parent, "again")
    with files[0].open("r+b") as file:
        file.write(b"changed")
    changed = _layers_uploaded(host, files[0].parent, "changed")
    ratio = statistics.median(builds) / statistics.median(curls)
    return {
        "figures": {
            "bytes": float(sum(file.stat().st_size for file in files)),
            "curl_seconds": round(statistics.median(curls), 3),
            "build_seconds": round(statistics.median(builds), 3),
            "ratio": round(ratio, 3),
            "memory_mib": round(memory / 2**20, 1),
            "layers_uploaded_by_second_push": first,
            "layers_uploaded_after_one_change": changed,
        },
        "met": {"ratio": ratio <= 1.25, "memory": memory <= 128 * 2**20, "second": first == 0, "changed": changed == 1},
    }


def _make_files(folder: Path, size: int) -> list[Path]:
    folder.mkdir()
    files = [folder / f"weights-{number}.bin" for number in range(3)]
    for file in files:
        with file.open("wb") as out:
            for left in range(size, 0, -(1 << 20)):
                out.write(os.urandom(min(left, 1 << 20)))
    return files


def _keep_byte_code(folder: Path) -> None:
    """What runs from source is compiled by its first run only, as an installed program is when it is installed."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _curl_all(host: str, files: list[Path], digests: list[str]) -> None:
    running = [
        subprocess.Popen(["sh", "-ec", UPLOAD, "upload", file, digest], env={**os.environ, "HOST": host})
        for file, digest in zip(files, digests, strict=True)
    ]
    if any(process.wait() for process in running):
        raise SystemExit("curl failed")


def _start(host: str, folder: Path, repository: str) -> subprocess.Popen[bytes]:
    command = [*PROGRAM, str(folder), f"{host}/bench/{repository}:v1"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _build(host: str, folder: Path, repository: str) -> None:
    if _start(host, folder, repository).wait():
        raise SystemExit("the build failed")


def _layers_uploaded(host: str, folder: Path, tag: str) -> int:
    """Push once more to the repository of the memory run; the program says how many layers it uploaded."""
    command = [*PROGRAM, str(folder), f"{host}/bench/memory:{tag}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return int(re.findall(r"(\d+) of \d+ layers uploaded", said)[0])


def _peak_memory(process: subprocess.Popen[bytes]) -> int:
    """The most that the process and its children had at once, in bytes, file pages excluded."""
    peak = 0
    while process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            peak = max(peak, sum(_anonymous(member.pid) for member in family))
        time.sleep(0.02)
    return peak


def _anonymous(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))


def _timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _empty(data: Path) -> None:
    shutil.rmtree(data / "docker", ignore_errors=True)


def _fast_folder() -> str | None:
    """The registry keeps its data in memory, so that the disk is not what is measured."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@contextlib.contextmanager
def _registry(folder: str | None) -> Iterator[tuple[str, Path]]:
    with tempfile.TemporaryDirectory(dir=folder) as place, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{probe.getsockname()[1]}"
        probe.close()
        config = Path(place) / "config.yml"
        config.write_text(
            "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n"
            f"storage: {{filesystem: {{rootdirectory: {place}}}}}\nhttp: {{addr: '{host}'}}\n"
        )
        process = subprocess.Popen(["docker-registry", "serve", config], stderr=subprocess.DEVNULL)
        try:
            _wait_for(host)
            yield host, Path(place)
        finally:
            process.terminate()
            process.wait()


def _wait_for(host: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{host}/v2/", timeout=1):
            return
        time.sleep(0.05)
    raise SystemExit("docker-registry did not start")


if __name__ == "__main__":
    sys.exit(main())
