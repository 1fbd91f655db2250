"""Print a lock as it is for one machine: pip judges markers by the machine that it runs on.

    python for_machine.py LOCK MACHINE        (needs packaging)

Printed are the requirements with their hashes whose markers hold, without markers.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from packaging.markers import Marker

REQUIREMENT = re.compile(r"([A-Za-z0-9][^\s;]*)\s*(?:;\s*([^\\]*[^\\\s]))?\s*(\\?)$")


def for_machine(text: str, machine: str) -> str:
    """The lock's lines for a Linux machine such as x86_64."""
    environment = {"platform_machine": machine, "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    kept, holds = [], False
    for line in text.splitlines():
        found = REQUIREMENT.match(line)
        if found is not None:
            holds = not found[2] or Marker(found[2]).evaluate(environment)
            line = f"{found[1]} {found[3]}"
        if holds or not line.strip():
            kept.append(line)
    return "\n".join(kept) + "\n"


if __name__ == "__main__":
    sys.stdout.write(for_machine(Path(sys.argv[1]).read_text(), sys.argv[2]))
