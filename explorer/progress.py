"""One line that says what is being done, how long it has taken and how long it may take.

    with Progress("compiling") as progress:
        explorer.compile(model, progress=progress)    # compiling 3/20 fuse-bias  00:12, 00:40 left

tqdm writes the line. In a terminal and in a notebook it is written over and cut at the width;
elsewhere, as in the log of a batch job, there is a line of its own every few seconds. It goes to
stderr.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from explorer.results.names import printable

if TYPE_CHECKING:
    from tqdm import tqdm

TIMED_SECONDS = 2.0
"""Progress that takes longer says how long."""


class Progress:
    """What `progress=` takes: called with what is done, its number from 0, and how many there are.

    activity: what the line begins with. Times follow what takes longer than `TIMED_SECONDS`. Where
    no line can be written over, there is one of its own every `every_seconds`.
    """

    def __init__(self, activity: str, every_seconds: float = 5.0):
        self.activity = activity
        self.every_seconds = every_seconds
        self._line: tqdm | None = None
        self._begin = self._last_line = time.monotonic()
        self._last = -1

    def __call__(self, name: str, number: int, total: int) -> None:
        now = time.monotonic()
        if number < self._last:  # the next of several rounds
            self._begin = now
        self._last = number
        text = f"{self.activity} {number + 1}/{total} {printable(name)}"
        text += spent_and_left(now - self._begin, number, total)
        if sys.stderr.isatty() or is_notebook():
            self._write_over(text.replace("{", "{{").replace("}", "}}"))
        elif now - self._last_line >= self.every_seconds:
            self._last_line = now
            print(text, file=sys.stderr, flush=True)

    def _write_over(self, text: str) -> None:
        if self._line is None:
            self._line = new_line(text)
        else:
            self._line.bar_format = text
            self._line.refresh()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *of_error: object) -> None:
        if self._line is not None:
            self._line.close()


def new_line(text: str) -> tqdm:
    """A line on stderr that each refresh writes over and that leaves nothing; without a thread."""
    from tqdm import tqdm  # takes 40 ms

    class Line(tqdm):
        monitor_interval = 0

    return Line(bar_format=text, file=sys.stderr, leave=False, dynamic_ncols=True)


def spent_and_left(seconds: float, done: int, total: int) -> str:
    """`  00:12, 00:40 left`; nothing for what has just begun, no rest where nothing is done yet, or
    where the total is only the next one."""
    if seconds < TIMED_SECONDS:
        return ""
    from tqdm import tqdm

    left = seconds / done * (total - done) if 0 < done < total - 1 else None
    rest = "" if left is None else f", {tqdm.format_interval(left)} left"
    return f"  {tqdm.format_interval(seconds)}{rest}"


def is_notebook() -> bool:
    """Whether what is printed goes to a notebook's output."""
    kernel = sys.modules.get("ipykernel.iostream")
    return kernel is not None and isinstance(sys.stderr, kernel.OutStream)
