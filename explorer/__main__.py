"""What the command `explorer` runs, and `python -m explorer`.

Loading the commands takes a third of a second. Who presses Ctrl-C in it wants no traceback either,
so they are loaded here, and not where this file is loaded.

Nearly all objects that are made while modules are loaded stay. By default Python looks for garbage
whenever there are 700 more, which takes 4 % of the processor time of a short command.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130
GARBAGE_THRESHOLDS = (50_000, 10, 10)


def main() -> int:
    try:
        import gc

        gc.set_threshold(*GARBAGE_THRESHOLDS)
        from explorer import cli

        status = cli.main()
        end_at_once_if_interrupted()
    except KeyboardInterrupt:
        print("explorer: interrupted", file=sys.stderr)
        return INTERRUPTED
    return status


def end_at_once_if_interrupted() -> None:
    """All is done but what the interpreter tidies up; Ctrl-C in that would print a traceback."""
    import os
    import signal

    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))


if __name__ == "__main__":
    sys.exit(main())
