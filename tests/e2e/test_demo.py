"""What `make demo` runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "digits" / "demo"
PATTERNS = {
    "measured": r"^accuracy edge (0\.\d{3}) cloud (0\.\d{3}) joint (0\.\d{3}) share (0\.\d\d)$",
    "packed": r"^digest sha256:[0-9a-f]{64}$",
    "switched": r"^switch and rollback: (\d+) requests, (\d+) failed",
    "alone": r"^without the cloud: (\d+) requests, (\d+) failed \((\d+) by the cloud, (\d+) by the edge\)$",
    "edge's origin": r"download of .*digits-edge-v1",
    "cloud's origin": r"serves: modelversion/digits-cloud-v1",
    "data": r"data set: dataset/digits +sha256:971e08af5c18",
}


def test_the_demo_passes_and_prints_what_it_measured() -> None:
    done = subprocess.run([sys.executable, str(DEMO)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "demo: PASS"
    assert done.stderr == ""
    found = {what: re.search(pattern, done.stdout, re.MULTILINE) for what, pattern in PATTERNS.items()}
    assert [what for what, match in found.items() if match is None] == [], done.stdout

    measured, switched, alone = (found[what] for what in ("measured", "switched", "alone"))
    assert measured is not None and switched is not None and alone is not None
    edge, cloud, joint, share = map(float, measured.groups())
    assert 0.9 < edge < cloud <= 1.0
    assert joint >= cloud - 0.005
    assert 0.0 < share <= 0.3
    assert int(switched[1]) > 100 and int(switched[2]) == 0
    assert int(alone[2]) == 0 and int(alone[4]) > int(alone[3]) > 0
