"""What each launch does to memory, and the check that it never reads what is not there.

step 0  conv  writes conv
step 1  relu  reads conv, writes relu in the storage of conv
step 2  add   reads conv, relu      ->  InputError: add reads 'conv' after relu has overwritten it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.errors import InputError
from explorer.memory.places import Place


@dataclass(frozen=True)
class Use:
    """One launch: the values that it reads and writes, and its scratch buffers."""

    operation: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    """(written value, other value): the first overwrites the other, in whose storage it lies."""
    scratch_bytes: tuple[int, ...] = ()


def verify_contents(
    uses: Sequence[Use],
    inputs: Sequence[str],
    outputs: Sequence[str],
    views: Mapping[str, str],
    places: Mapping[str, Place],
) -> None:
    """Raise `InputError` where a value is written twice, or over another one that it may not
    overwrite, or read after it was overwritten or before all of it was written.

    `views`: values that nothing writes, and what they show. `places`: bytes of every value.
    """
    contents = Contents(views, places)
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
    """Which bytes hold which values, while one walks through the launches in order.

    What is written is in memory until something is written over it. A view stands for what it
    shows, and a whole that is only written in its parts for those.
    """

    def __init__(self, views: Mapping[str, str], places: Mapping[str, Place]) -> None:
        self.views = views
        self.places = places
        self.written: dict[str, dict[str, str]] = {}
        """By storage: what was written there, by whom."""
        self.overwritten: dict[str, str] = {}
        """Values that are not there any more, and who wrote over them."""
        self.made_of: dict[str, tuple[str, ...]] = {}
        """Written values that a value consists of, from its first reading on."""

    def base(self, value: str) -> str:
        while value in self.views:
            value = self.views[value]
        return value

    def write(self, value: str, writer: str, over: str | None = None) -> None:
        """`writer` makes `value`, which may take the place of `over`."""
        place = self.places[value]
        here = self.written.setdefault(place.storage, {})
        if self.base(value) in here:
            raise InputError(
                f"memory: {writer} writes {value!r}, which has been written before",
                hint="a name of its own for every result",
            )
        for other, maker in here.items():
            if other in self.overwritten or not place.meets(self.places[other]):
                continue
            if over is None or not self.places[over].meets(self.places[other]):
                raise InputError(
                    f"memory: {writer} writes {value!r} over {other!r}, which {maker} has written",
                    hint="another place for one of them",
                )
            self.overwritten[other] = writer
        here[value] = writer

    def read(self, value: str, reader: str) -> None:
        if value not in self.made_of:
            self.made_of[value] = self.find(value, reader)
        for written in self.made_of[value]:
            if written in self.overwritten:
                raise InputError(
                    f"memory: {reader} reads {value!r} after {self.overwritten[written]} has "
                    "overwritten it",
                    hint=f"a buffer of its own for {written!r}",
                )

    def find(self, value: str, reader: str) -> tuple[str, ...]:
        """The written values that a value is made of: itself, or those that fill its bytes."""
        base, place = self.base(value), self.places[value]
        here = self.written.get(place.storage, {})
        if base in here:
            return (base,)
        parts = [
            other
            for other in here
            if other not in self.overwritten and place.meets(self.places[other])
        ]
        if not place.is_filled_by([self.places[part] for part in parts]):
            raise InputError(
                f"memory: {reader} reads {value!r}, of which not all has been written before",
                hint="a program order in which all parts come before the whole",
            )
        return tuple(parts)
