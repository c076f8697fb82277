"""What each launch does to memory, and the check that it never reads what is not there.

step 0  conv  writes conv
step 1  relu  reads conv, writes relu in the storage of conv
step 2  add   reads conv, relu      ->  InputError: add reads 'conv' after relu has overwritten it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.errors import InputError


@dataclass(frozen=True)
class Use:
    """One launch: the values that it reads and writes, and its scratch buffers."""

    operation: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    """(written value, other value): the first lies in the storage of the other. It overwrites the
    other where that has been written before (in place); else it is a part of it (a concat)."""
    scratch_bytes: tuple[int, ...] = ()


def verify_contents(
    uses: Sequence[Use],
    inputs: Sequence[str],
    outputs: Sequence[str],
    views: Mapping[str, str],
) -> None:
    """Raise `InputError` where a value is written twice, or read after it was overwritten."""
    contents = Contents(views)
    for value in inputs:
        contents.write(value, "the caller")
    for launch in uses:
        over = dict(launch.aliases)
        for value in launch.reads:
            contents.read(value, launch.operation)
        for value in launch.writes:
            contents.write(value, launch.operation, over.get(value))
    for value in outputs:
        contents.read(value, "the caller")


class Contents:
    """Which value each place in memory holds, while one walks through the launches in order.

    A *family* is a value with all its views, named by the value that is a view of nothing.
    """

    def __init__(self, views: Mapping[str, str]) -> None:
        self.views = views
        self.places: dict[str, str] = {}
        """The place of every family that has been written."""
        self.holders: dict[str, tuple[str, str]] = {}
        """By place: the family that it holds, and who wrote it there."""

    def family(self, value: str) -> str:
        while value in self.views:
            value = self.views[value]
        return value

    def write(self, value: str, writer: str, over: str | None = None) -> None:
        """`writer` makes `value`, in the place of `over` if that has been written."""
        family = self.family(value)
        if family in self.places:
            raise InputError(
                f"memory: {writer} writes {value!r}, which has been written before",
                hint="a name of its own for every result",
            )
        place = family if over is None else self.places.get(self.family(over), family)
        self.places[family] = place
        self.holders[place] = (family, writer)

    def read(self, value: str, reader: str) -> None:
        family = self.family(value)
        # A whole that is written only in its parts comes into being when it is first read.
        place = self.places.setdefault(family, family)
        holder, writer = self.holders.setdefault(place, (family, reader))
        if holder != family:
            raise InputError(
                f"memory: {reader} reads {value!r} after {writer} has overwritten it",
                hint=f"a buffer of its own for {holder!r}",
            )
