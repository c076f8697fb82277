"""What is printed: text that cannot command the terminal, errors, notes, progress, JSON.

    printable("conv\\x1b[2J")    -> 'conv\\\\x1b[2J'      a name from a model file, made harmless

Results go to stdout; notes, progress and errors to stderr, so that `--json` output is only JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

from explorer.errors import (
    BuildError,
    DeviceError,
    ExplorerError,
    ModelError,
    PassError,
    UnsupportedError,
    grouped,
)
from explorer.results.encoding import to_json

WIDTH = 100
STANDARD_OUTPUT = "standard output"
TIMED_SECONDS = 2.0
"""Progress that takes longer says how long."""
LOG_LINES = 20
"""The last lines of what a compiler or driver said."""
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories that a terminal acts upon, or shows as nothing at all."""


def printable(text: object) -> str:
    """Text on one line; control and other invisible characters as `\\x1b` or `\\u202e`."""
    return "".join(
        c.encode("unicode_escape").decode("ascii") if unicodedata.category(c) in _INVISIBLE else c
        for c in str(text)
    )


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


def spent_and_left(seconds: float, done: int, total: int) -> str:
    """`  0:12, 0:40 left`; nothing for what has just begun, no rest where nothing is done yet, or
    where the total is only the next one."""
    if seconds < TIMED_SECONDS:
        return ""
    left = f", {clock(seconds / done * (total - done))} left" if 0 < done < total - 1 else ""
    return f"  {clock(seconds)}{left}"


def clock(seconds: float) -> str:
    """`1:02:03`, or `2:03` below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """One line on a terminal's stderr that says what is being done.

    with Progress("compiling") as progress:
        explorer.compile(model, progress=progress)   # compiling 3/20 fuse-bias  0:12, 0:40 left

    Times follow what takes longer than `TIMED_SECONDS`. Where stderr is no terminal, there is a
    line of its own every `every_seconds`.
    """

    def __init__(self, activity: str, every_seconds: float = 5.0):
        self.activity = activity
        self.is_shown = sys.stderr.isatty()
        self.every_seconds = every_seconds
        self._begin = self._told = time.monotonic()
        self._last = -1

    def __call__(self, name: str, number: int, total: int) -> None:
        now = time.monotonic()
        if number < self._last:  # the next of several rounds
            self._begin = now
        self._last = number
        text = f"{self.activity} {number + 1}/{total} {printable(name)}"
        text += spent_and_left(now - self._begin, number, total)
        if self.is_shown:
            # \x1b[K clears what the line before left behind.
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
        elif now - self._told >= self.every_seconds:
            self._told = now
            print(text, file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
