"""What the command `explorer` runs, and `python -m explorer`.

Loading the commands takes a third of a second. Who presses Ctrl-C in it wants no traceback either,
so they are loaded here, and not where this file is loaded.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> int:
    try:
        from explorer import cli

        return cli.main()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
