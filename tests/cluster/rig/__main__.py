"""`python -m tests.cluster.rig up|down|status [--name NAME]`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.cluster.rig import lifecycle, state


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.rig", description=__doc__)
    parser.add_argument("verb", choices=("up", "down", "status"))
    parser.add_argument("--name", default="dev")
    arguments = parser.parse_args()
    if arguments.verb == "down":
        lifecycle.down(arguments.name)
    elif arguments.verb == "up":
        began = time.monotonic()
        cluster = lifecycle.up(arguments.name)
        print(f"# ready in {time.monotonic() - began:.1f} s; {state.state_file(arguments.name)}")
        print(f"export KUBECONFIG={cluster.kubeconfig}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
