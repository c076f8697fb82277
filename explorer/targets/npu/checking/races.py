"""Accesses of two queues to one place, one of them a write, that no token orders.

Of every place and queue the last write and the last read are kept. An access that comes later has
to know of them: its clock says how many instructions of that queue have ended before it begins
(Flanagan and Freund, "FastTrack", 2009).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from explorer.targets.npu.checking.accesses import Access
from explorer.targets.npu.checking.order import Clock, Order
from explorer.targets.npu.machine import CONTENTS, KEPT_AS, Machine


@dataclass(frozen=True)
class Race:
    """Two instructions, the later one in the order that was looked at first."""

    number: int
    other: int
    unit: int
    """The first place that both touch."""
    writes: bool
    other_writes: bool


class Places:
    """Who touched which place of one memory last."""

    def __init__(self, units: int, order: Order) -> None:
        count = len(order.members)
        self._order = order
        # Positions count from 1, 0 is nobody.
        self._written = np.zeros((count, units), np.int32)
        self._read = np.zeros((count, units), np.int32)
        self._content = np.zeros(units, np.int8)

    def touch(
        self, number: int, units: np.ndarray, *, reads: bool, writes: bool, clock: Clock,
        content: int = 0,
    ) -> Race | None:  # fmt: skip
        """Notes an access and tells the first race with one before it; `content`: of a write."""
        queue = self._order.queues[number]
        found = None
        for other in range(len(self._written)):
            if other == queue or found:
                continue
            found = self._race(number, units, other, self._written, clock, writes, True)
            if writes and not found:
                found = self._race(number, units, other, self._read, clock, writes, False)
        position = self._order.positions[number] + 1
        if writes:
            self._written[queue, units] = position
            self._content[units] = content
        if reads:
            self._read[queue, units] = position
        return found

    def unwritten(self, units: np.ndarray) -> int | None:
        """The first place that nobody has written so far."""
        missing = np.flatnonzero(~self._written[:, units].any(axis=0))
        return int(units[missing[0]]) if len(missing) else None

    def of_another(self, units: np.ndarray, content: int) -> tuple[int, int] | None:
        """The first place that was last written as another content, and as which."""
        wrong = np.flatnonzero(self._content[units] != content)
        return (int(units[wrong[0]]), int(self._content[units[wrong[0]]])) if len(wrong) else None

    def _race(
        self,
        number: int,
        units: np.ndarray,
        other: int,
        touched: np.ndarray,
        clock: Clock,
        writes: bool,
        other_writes: bool,
    ) -> Race | None:
        late = np.flatnonzero(touched[other, units] > clock[other])
        if not len(late):
            return None
        unit = int(units[late[0]])
        by = self._order.members[other][int(touched[other, unit]) - 1]
        return Race(number, by, unit, writes, other_writes)


class Scratchpads:
    """The places of all scratchpads, in units that all contents of one are whole multiples of."""

    def __init__(self, machine: Machine, order: Order) -> None:
        self._machine = machine
        self._unit_bytes = [
            math.gcd(*(space.element_bytes for space in machine.spaces if space.memory == index))
            or 1
            for index in range(len(machine.scratchpads))
        ]
        self._places = [
            Places(-(-(memory.size_bytes or 0) // unit), order)
            for memory, unit in zip(machine.scratchpads, self._unit_bytes, strict=True)
        ]

    def touch(self, number: int, access: Access, clock: Clock) -> tuple[Race, int] | None:
        """The first race of an access, and the element of its content."""
        each, units = self._units(access)
        places = self._places[self._machine.by_content[access.content].memory]
        race = places.touch(number, units, reads=access.reads, writes=access.writes, clock=clock,
                            content=_kept(access.content))  # fmt: skip
        return (race, race.unit // each) if race else None

    def unwritten(self, access: Access) -> int | None:
        """The first element that is read and that nobody has written so far."""
        if not access.reads:
            return None
        each, units = self._units(access)
        unit = self._places[self._machine.by_content[access.content].memory].unwritten(units)
        return None if unit is None else unit // each

    def overwritten(self, access: Access) -> tuple[int, str] | None:
        """The first element that is read and that holds another content, and which one."""
        if not access.reads:
            return None
        each, units = self._units(access)
        places = self._places[self._machine.by_content[access.content].memory]
        found = places.of_another(units, _kept(access.content))
        return (found[0] // each, CONTENTS[found[1]]) if found else None

    def share(self, one: Access, other: Access) -> bool:
        """Whether two accesses have a place in common."""
        spaces = self._machine.by_content
        if spaces[one.content].memory != spaces[other.content].memory:
            return False
        return bool(np.intersect1d(self._units(one)[1], self._units(other)[1]).size)

    def _units(self, access: Access) -> tuple[int, np.ndarray]:
        space = self._machine.by_content[access.content]
        each = space.element_bytes // self._unit_bytes[space.memory]
        if each == 1:
            return 1, access.elements
        return each, np.add.outer(access.elements * each, np.arange(each)).reshape(-1)


def _kept(content: str) -> int:
    """What lies in the scratchpad."""
    return CONTENTS.index(KEPT_AS.get(content, content))


class GlobalMemory:
    """Places of global memory: the pieces between the ends of all rows of a program."""

    def __init__(self, rows: dict[int, np.ndarray], order: Order) -> None:
        ends = [part.reshape(-1) for part in rows.values()]
        self._ends = np.unique(np.concatenate([*ends, np.zeros(1, np.int64)]))
        self._places = Places(len(self._ends), order)

    def touch(
        self, number: int, rows: np.ndarray, *, writes: bool, clock: Clock
    ) -> tuple[Race, int] | None:
        """The first race of a transfer, and the byte."""
        if not len(rows):
            return None
        first = np.searchsorted(self._ends, rows[:, 0])
        counts = np.searchsorted(self._ends, rows[:, 1]) - first
        # Of every row the units from its first one on, one behind the other.
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        units = np.unique(np.repeat(first, counts) + within)
        race = self._places.touch(number, units, reads=not writes, writes=writes, clock=clock)
        return (race, int(self._ends[race.unit])) if race else None
