"""What is printed: text that cannot command the terminal, errors, notes, progress, JSON.

    printable("conv\\x1b[2J")    -> 'conv\\\\x1b[2J'      a name from a model file, made harmless

Results go to stdout; notes, progress and errors to stderr, so that `--json` output is only JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from explorer.errors import (
    BuildError,
    DeviceError,
    ExplorerError,
    ModelError,
    PassError,
    UnsupportedError,
    grouped,
)
from explorer.progress import Progress as Progress
from explorer.results.encoding import to_json
from explorer.results.names import printable

WIDTH = 100
STANDARD_OUTPUT = "standard output"
LOG_LINES = 20
"""The last lines of what a compiler or driver said."""


def terminal_width() -> int:
    """Characters of a line: those of the terminal, or what is easily read where there is none."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


@contextmanager
def printing() -> Iterator[None]:
    """Gives what the system says of a full or closed standard output (an OSError) its name."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from error


def print_lines(lines: Iterable[str]) -> None:
    """Lines of text or source: tabs stay, whatever else is invisible is escaped."""
    for line in lines:
        with printing():
            print("\t".join(printable(part) for part in line.split("\t")))


def print_json(data: object) -> None:
    """One JSON object. Infinities and NaN are the strings "inf", "-inf" and "nan"."""
    text = json.dumps(to_json(data), indent=2, allow_nan=False)
    with printing():
        print(text)


def print_note(text: str) -> None:
    """Something that the person should know beside the result."""
    print(f"note: {printable(text)}", file=sys.stderr)


def print_error(error: ExplorerError) -> None:
    """The one message of a failed command. What continues it is indented: no line poses as ours."""
    error.hint = error.hint or _way_out(error)
    problems = error.problems if isinstance(error, UnsupportedError) else ()
    whole = ExplorerError.__str__(error)
    first, *rest = whole.split("\n")
    print(f"explorer: error: {printable(first)}", file=sys.stderr)
    for line in rest:
        print(f"    {printable(line)}", file=sys.stderr)
    for problem in grouped(problems):
        print(f"  - {printable(problem)}", file=sys.stderr)

    log = error.log if isinstance(error, BuildError | DeviceError) else ""
    for line in log.strip().split("\n")[-LOG_LINES:] if log else ():
        print(f"    | {printable(line)}", file=sys.stderr)


def _way_out(error: ExplorerError) -> str:
    """What to try where the error itself does not say it."""
    if isinstance(error, PassError) and error.pass_name:
        return f"leave the pass out: --disable {error.pass_name}"
    if isinstance(error, ModelError):
        return "compare the file with its original, or export the model again"
    if isinstance(error, UnsupportedError):
        return "export the model with other operators or types"
    if isinstance(error, BuildError | DeviceError):
        return "explorer devices"
    return "explorer --help"
