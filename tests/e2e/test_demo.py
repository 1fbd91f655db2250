"""What `make demo` runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "digits" / "demo.py"


def test_the_demo_passes_and_prints_what_it_measured() -> None:
    done = subprocess.run([sys.executable, str(DEMO)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "demo: PASS"
    found = [re.search(pattern, done.stdout, re.MULTILINE) for pattern in PATTERNS]
    assert all(found), done.stdout
    assert found[0] is not None
    first, second = map(float, found[0].groups())
    assert 0.9 < first < second <= 1.0


PATTERNS = (
    r"^accuracy v1 (0\.\d{3}) v2 (0\.\d{3})$",
    r"^digest sha256:[0-9a-f]{64}$",
    r"^switch: [1-9]\d+ requests, 0 failed$",
)
