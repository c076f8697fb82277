"""One line that says what is being done, how long it has taken and how long it may take.

    with Progress("compiling") as progress:
        explorer.compile(model, progress=progress)       # compiling 3/20 fuse-bias  0:12, 0:40 left

In a terminal and in a notebook the line is written over; elsewhere, as in the log of a batch job,
there is a line of its own every few seconds. It goes to stderr.
"""

from __future__ import annotations

import sys
import time

from explorer.results.names import printable

TIMED_SECONDS = 2.0
"""Progress that takes longer says how long."""


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
    """What `progress=` takes: called with what is done, its number from 0, and how many there are.

    activity: what the line begins with. Times follow what takes longer than `TIMED_SECONDS`. Where
    no line can be written over, there is one of its own every `every_seconds`.
    """

    def __init__(self, activity: str, every_seconds: float = 5.0):
        self.activity = activity
        self.is_shown = sys.stderr.isatty() or is_notebook()
        self.every_seconds = every_seconds
        self._begin = self._told = time.monotonic()
        self._last = -1
        self._width = 0

    def __call__(self, name: str, number: int, total: int) -> None:
        now = time.monotonic()
        if number < self._last:  # the next of several rounds
            self._begin = now
        self._last = number
        text = f"{self.activity} {number + 1}/{total} {printable(name)}"
        text += spent_and_left(now - self._begin, number, total)
        if self.is_shown:
            self._write_over(text)
        elif now - self._told >= self.every_seconds:
            self._told = now
            print(text, file=sys.stderr, flush=True)

    def _write_over(self, text: str) -> None:
        """The line instead of the one before, of which nothing stays: a notebook knows spaces."""
        end = "\x1b[K" if sys.stderr.isatty() else " " * (self._width - len(text))
        self._width = len(text)
        print(f"\r{text}{end}", end="" if text else "\r", file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *of_error: object) -> None:
        if self.is_shown:
            self._write_over("")


def is_notebook() -> bool:
    """Whether what is printed goes to a notebook's output."""
    kernel = sys.modules.get("ipykernel.iostream")
    return kernel is not None and isinstance(sys.stderr, kernel.OutStream)
