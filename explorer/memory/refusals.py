"""Why a buffer lies where it lies: the lower places that were tried, and what lay there already.

    a [0, 64) and c [96, 160) are placed; b of 64 bytes lives beside both
        byte 0     refused: 64 bytes of it are a's
        byte 64    refused: 32 bytes of it are c's
        byte 160   taken

Found after planning, from the offsets and the order in which the buffers were placed: the planner
itself stays as fast as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from explorer.memory.greedy import Columns, Fit, Integers, Key, Strategy
from explorer.results.memory import BufferLifetime, RefusedPlacement

MAX_BUFFERS = 256
"""Buffers, from the largest, whose refused places are recorded."""
MAX_PER_BUFFER = 8
"""Refused places of one buffer that are recorded, those that were tried first."""


@dataclass(frozen=True)
class Refusals:
    placements: tuple[RefusedPlacement, ...]
    left_out: int
    """Buffers that were not looked at."""


NO_REFUSALS = Refusals((), 0)


def ranks_of(
    columns: Columns,
    keys: Mapping[Key, Integers],
    strategy: Strategy,
    offsets: Sequence[int],
    fixed: Sequence[int] = (),
) -> Integers:
    """For every buffer how many were placed before it; `fixed` ones have their places first.

    Filling from the bottom up, each buffer lies at the lowest place that any has left, so that
    offsets rise in the order of placement and the strategy's order only breaks ties.
    """
    order = np.lexsort([keys[key] for key in reversed(strategy.keys)])
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    if strategy.fit == "lowest":
        ranks[np.lexsort((ranks, np.asarray(offsets)))] = np.arange(len(order))
    ranks[list(fixed)] = -1
    return ranks


def refused_placements(
    buffers: Sequence[BufferLifetime],
    columns: Columns,
    offsets: Sequence[int],
    ranks: Integers,
    fit: Fit,
) -> Refusals:
    """The refused places of the largest buffers, each buffer's in the order of trying."""
    order = ranks.tolist()
    by_size = sorted(range(len(buffers)), key=lambda i: (-buffers[i].size_bytes, order[i]))
    looked_at = [i for i in by_size[:MAX_BUFFERS] if buffers[i].size_bytes and order[i] >= 0]
    found: list[RefusedPlacement] = []
    for index in looked_at:
        before = [
            j
            for j in columns.living_with(index)
            if order[j] < order[index] and buffers[j].size_bytes
        ]
        tries = (
            on_top(index, before, buffers, offsets, order)
            if fit == "lowest"
            else gaps(index, before, buffers, offsets, fit)
        )
        for offset, obstacle in islice(tries, MAX_PER_BUFFER):
            start = offsets[obstacle]
            end = min(offset + buffers[index].size_bytes, start + buffers[obstacle].size_bytes)
            overlap = end - max(offset, start)
            found.append(RefusedPlacement(buffers[index].id, offset, buffers[obstacle].id, overlap))
    return Refusals(tuple(found), max(0, len(buffers) - MAX_BUFFERS))


def gaps(
    index: int,
    before: Sequence[int],
    buffers: Sequence[BufferLifetime],
    starts: Sequence[int],
    fit: Fit,
) -> Iterator[tuple[int, int]]:
    """(offset, obstacle) of every gap that is too small; first fit looks no further than it lies.

    A gap is as in `greedy.find_gap`: from the highest end of the neighbours before it to the start
    of the next one, which is the obstacle.
    """
    size, alignment = buffers[index].size_bytes, buffers[index].alignment_bytes
    floor = 0
    for near in sorted(before, key=starts.__getitem__):
        room = starts[near] - floor
        if fit == "first" and room >= size:
            return
        if 0 <= room < size:
            yield floor, near
        end = starts[near] + buffers[near].size_bytes
        floor = max(floor, end + -end % alignment)


def on_top(
    index: int,
    before: Sequence[int],
    buffers: Sequence[BufferLifetime],
    starts: Sequence[int],
    ranks: Sequence[int],
) -> Iterator[tuple[int, int]]:
    """(offset, obstacle) whenever a buffer was placed where this one would have gone next."""
    alignment = buffers[index].alignment_bytes
    floor = 0
    for near in sorted(before, key=ranks.__getitem__):
        top = starts[near] + buffers[near].size_bytes
        if top > floor:
            yield floor, near
            floor = top + -top % alignment
