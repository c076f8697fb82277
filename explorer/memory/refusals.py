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
    buffers: Sequence[BufferLifetime], offsets: Sequence[int], ranks: Integers, fit: Fit
) -> Refusals:
    """The refused places of the largest buffers, each buffer's in the order of trying."""
    columns = Columns.of(buffers)
    starts = np.asarray(offsets, dtype=np.int64)
    by_size = sorted(range(len(buffers)), key=lambda i: (-buffers[i].size_bytes, int(ranks[i])))
    looked_at = [i for i in by_size[:MAX_BUFFERS] if buffers[i].size_bytes and ranks[i] >= 0]
    found: list[RefusedPlacement] = []
    for index in looked_at:
        before = np.flatnonzero(
            (ranks < ranks[index])
            & (columns.sizes > 0)
            & (columns.firsts < columns.lasts[index])
            & (columns.lasts > columns.firsts[index])
        )
        tries = (
            on_top(index, before, columns, starts, ranks)
            if fit == "lowest"
            else (gaps(index, before, columns, starts, fit))
        )
        for count, (offset, obstacle) in enumerate(tries):
            if count == MAX_PER_BUFFER:
                break
            start = int(starts[obstacle])
            end = min(offset + buffers[index].size_bytes, start + buffers[obstacle].size_bytes)
            overlap = end - max(offset, start)
            found.append(RefusedPlacement(buffers[index].id, offset, buffers[obstacle].id, overlap))
    return Refusals(tuple(found), max(0, len(buffers) - MAX_BUFFERS))


def gaps(
    index: int, before: Integers, columns: Columns, starts: Integers, fit: Fit
) -> Iterator[tuple[int, int]]:
    """(offset, obstacle) of every gap that is too small; first fit looks no further than it lies.

    A gap is as in `greedy.find_gap`: from the highest end of the neighbours before it to the start
    of the next one, which is the obstacle.
    """
    size, alignment = int(columns.sizes[index]), int(columns.alignments[index])
    floor = 0
    for near in before[np.argsort(starts[before], kind="stable")].tolist():
        room = int(starts[near]) - floor
        if fit == "first" and room >= size:
            return
        if 0 <= room < size:
            yield floor, near
        end = int(starts[near] + columns.sizes[near])
        floor = max(floor, end + -end % alignment)


def on_top(
    index: int, before: Integers, columns: Columns, starts: Integers, ranks: Integers
) -> Iterator[tuple[int, int]]:
    """(offset, obstacle) whenever a buffer was placed where this one would have gone next."""
    alignment = int(columns.alignments[index])
    floor = 0
    for near in before[np.argsort(ranks[before], kind="stable")].tolist():
        top = int(starts[near] + columns.sizes[near])
        if top > floor:
            yield floor, near
            floor = top + -top % alignment
