"""`agent keep` with other times: `keeper_program.py NAME=SECONDS ...`."""

from __future__ import annotations

import sys

from modelwright.agent.serving.keep import main
from modelwright.agent.serving.timing import Timing

if __name__ == "__main__":
    sys.exit(main(Timing(**{name: float(value) for name, value in (word.split("=") for word in sys.argv[1:])})))
