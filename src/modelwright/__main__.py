"""The entry of the program; `python -m modelwright` is the same."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly, even while its modules are being imported."""
    try:
        from modelwright.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
