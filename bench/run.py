"""Run all benchmarks, one after the other: `make bench`, or `make bench QUICK=1`.

run.py [--quick] [NAME ...]

Names: control_plane, control_plane_store, gateway, images, joint, lineage, serve, training.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
QUICK = {"control_plane", "gateway", "images", "lineage", "serve", "training"}
ORDER = ("control_plane", "control_plane_store", "gateway", "images", "joint", "lineage", "serve", "training")


def main() -> int:
    names = [word for word in sys.argv[1:] if not word.startswith("-")] or list(ORDER)
    unknown = sorted(set(names) - set(ORDER))
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(ORDER)}", file=sys.stderr)
        return 2
    codes = []
    for name in names:
        print(f"=== {name}", flush=True)
        quick = ["--quick"] if "--quick" in sys.argv and name in QUICK else []
        codes.append(subprocess.run([sys.executable, str(HERE / f"{name}.py"), *quick]).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
