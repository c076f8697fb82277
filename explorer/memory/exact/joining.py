"""Buffers that fit together exactly are placed as one: what a perfect packing is made of.

    a: 24 bytes, steps 0-2                          one block of 24 bytes, steps 0-5:
    b: 16 bytes, steps 2-5    c: 8 bytes, 2-5   ->  a at 0, b at 0, c at 16

Where the buffers of one lifetime, or some of them, have together as many bytes as some that are
born when they die, both stacks take the same bytes and waste none. Such stacks become a block, and
blocks are joined again. Sums that are equal by accident cost freedom, so that what comes out is an
attempt among others. With sizes of many digits they are rare: a rectangle of steps and bytes that
was cut in two again and again is put together as it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from explorer.results.memory import BufferLifetime

MAX_STACK = 12
"""Buffers of one lifetime of which all subsets are tried."""
MAX_OF_MANY = 1
"""Where there are more, only so many together are tried, and all without so many."""
MAX_LEFT_OUT = 400
"""With more, nothing is left out of all: that takes time with the square of their number."""
MAX_COUNTED = 6
"""More buffers of a sum say no less: those are all of a lifetime, or nearly all."""

BITS_PER_BUFFER = 2.0
"""A sum of more buffers is one of more sums: so many bits of it say less."""
LEVELS = (12.0, 8.0, 4.0, 0.0, -math.inf)
"""How sure stacks are, in bits: what is surer is joined first, everywhere."""

Lifetime = tuple[int, int]
Subset = tuple[int, ...]


@dataclass(frozen=True)
class Block:
    """A buffer, or stacks that follow one another."""

    first: int
    last: int
    size_bytes: int
    stacks: tuple[Subset, ...] = ()
    """Numbers of blocks, each stack from its first byte upwards."""


class Joining:
    """Joins what fits; `blocks` has all that were ever made, `free` those that are in no other."""

    def __init__(self, buffers: Sequence[BufferLifetime]) -> None:
        self.blocks = [Block(b.first, b.last, b.size_bytes) for b in buffers]
        self.free: dict[Lifetime, list[int]] = {}
        self.ending: dict[int, dict[Lifetime, None]] = {}
        self.starting: dict[int, dict[Lifetime, None]] = {}
        self.sums: dict[Lifetime, dict[int, Subset]] = {}
        for number in range(len(self.blocks)):
            self._add(number)
        for level in LEVELS:
            self._join_all(level)

    def _join_all(self, level: float) -> None:
        """All stacks that are as sure as that."""
        waiting = dict.fromkeys(sorted(set(self.ending) & set(self.starting)))
        while waiting:
            step = next(iter(waiting))
            del waiting[step]
            while (pair := self._best_pair(step, level)) is not None:
                block = self._join(*pair)
                waiting |= dict.fromkeys((block.first, block.last))

    @property
    def numbers(self) -> list[int]:
        """Of the blocks that are in no other one."""
        return sorted(number for members in self.free.values() for number in members)

    def offsets(self, places: Mapping[int, int]) -> dict[int, int]:
        """The offsets of all that blocks at these places are made of."""
        found: dict[int, int] = {}
        open_blocks = list(places.items())
        while open_blocks:
            number, offset = open_blocks.pop()
            block = self.blocks[number]
            if not block.stacks:
                found[number] = offset
            for stack in block.stacks:
                start = offset
                for member in stack:
                    open_blocks.append((member, start))
                    start += self.blocks[member].size_bytes
        return found

    def _add(self, number: int) -> None:
        block = self.blocks[number]
        key = (block.first, block.last)
        self.free.setdefault(key, []).append(number)
        self.starting.setdefault(block.first, {})[key] = None
        self.ending.setdefault(block.last, {})[key] = None
        self.sums.pop(key, None)

    def _sums(self, key: Lifetime) -> dict[int, Subset]:
        """By sum the smallest subset of a lifetime that has it."""
        if key not in self.sums:
            members = self.free[key]
            sizes = {n: self.blocks[n].size_bytes for n in members}
            whole = sum(sizes.values())
            most = len(members) if len(members) <= MAX_STACK else MAX_OF_MANY
            found: dict[int, Subset] = {}
            for count in range(1, most + 1):
                for subset in combinations(members, count):
                    found.setdefault(sum(sizes[n] for n in subset), subset)
            if most < len(members):
                for count in range(most + 1 if len(members) <= MAX_LEFT_OUT else 1):
                    for left in combinations(members, count):
                        rest = tuple(n for n in members if n not in left)
                        found.setdefault(whole - sum(sizes[n] for n in left), rest)
            self.sums[key] = found
        return self.sums[key]

    def _best_pair(self, step: int, level: float) -> tuple[Subset, Subset] | None:
        """Stacks of equal sums, one of which ends where the other begins: those that are least
        likely to be equal by accident, where they are as sure as `level`."""
        before: dict[int, Subset] = {}
        for key in self.ending.get(step, {}):
            for total, subset in self._sums(key).items():
                if total not in before or len(subset) < len(before[total]):
                    before[total] = subset
        best: tuple[float, Subset, Subset] | None = None
        for key in self.starting.get(step, {}):
            for total, subset in self._sums(key).items():
                if total in before:
                    count = len(subset) + len(before[total])
                    sure = math.log2(max(total, 1)) - BITS_PER_BUFFER * min(count, MAX_COUNTED)
                    if sure >= level and (best is None or sure > best[0]):
                        best = (sure, before[total], subset)
        return None if best is None else best[1:]

    def _join(self, early: Subset, late: Subset) -> Block:
        for subset in (early, late):
            one = self.blocks[subset[0]]
            key = (one.first, one.last)
            members = self.free[key] = [n for n in self.free[key] if n not in subset]
            self.sums.pop(key, None)
            if not members:
                del self.free[key], self.starting[one.first][key], self.ending[one.last][key]
        size = sum(self.blocks[n].size_bytes for n in early)
        first, last = self.blocks[early[0]].first, self.blocks[late[0]].last
        block = Block(first, last, size, (early, late))
        self.blocks.append(block)
        self._add(len(self.blocks) - 1)
        return block


def joined_buffers(joining: Joining, alignment_bytes: int) -> list[BufferLifetime]:
    """The blocks as buffers, by the order of `numbers`."""
    found: list[BufferLifetime] = []
    for number in joining.numbers:
        block = joining.blocks[number]
        found.append(
            BufferLifetime(
                id=str(number),
                values=(),
                size_bytes=block.size_bytes,
                first=block.first,
                last=block.last,
                alignment_bytes=alignment_bytes,
            )
        )
    return found
