"""Schedules of integer products: rows of sums, for the compiler of C to put into vectors.

    for n: for o: for i: for j: for c: for p: for q:  sums[n,o,i,j] += (x - zx) * (w - zw)
    ->
    parallel n, ot, i:
        for jt:
            acc[4][32] = bias                        4 channels, 32 neighbouring pixels of a row
            for c, p, q:                             the reduction
                for ov: for jr: acc[ov][jr] += ..    one weight times a row of narrow pixels
            y[..] = requantized(acc)

Pixels of a row (columns of a matrix) lie side by side in memory, so that the innermost loop reads
and widens them in vectors; several channels (rows of a matrix) share what was read.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.kernels.loops.nest import (
    LoopNest,
    accesses_in,
    element_name,
    extent_of,
    is_store,
    name_of,
    perfect_chain,
)
from explorer.kernels.schedules.choices import Choices, divisors
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.plain import contract_scratch, finish_statements, pack_arguments
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.steps.fuse import fuse_consumer, fuse_producer
from explorer.kernels.steps.mark import unroll
from explorer.kernels.steps.pack import Pack
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import reorder, split

SUMS = "i32"
LONGEST_ROW = 64
"""Sums side by side: 4 vectors of 512 bits."""
MAX_SUMS = 256
"""Of a tile: more do not stay in registers."""
MAX_CHANNELS = 8

WHY_ROW = "neighbouring pixels are read and widened in vectors"
WHY_CHANNELS = "channels that share the pixels that were read"


def is_integer_product(nest: LoopNest, packs: Mapping[str, Pack]) -> bool:
    """A main statement that sums products in i32 along rows, on plain buffers of its own."""
    mains = nest.statements("main")
    if len(mains) != 1 or packs:
        return False
    stores = [a for a in accesses_in(mains[0]) if is_store(a)]
    if len(stores) != 1 or element_name(stores[0].memref) != SUMS:
        return False
    names = [name_of(loop) for loop in perfect_chain(mains[0])]
    return row_loop(names) is not None and len(reductions(names)) > 0


def row_loop(names: list[str]) -> str | None:
    """The loop along which elements lie side by side, in the operand that is read most."""
    if "j" in names:
        return "j"
    return "n" if {"m", "n"} <= set(names) and reductions(names) else None


def channel_loop(names: list[str]) -> str:
    """The loop whose iterations read the same row."""
    return "o" if "o" in names else "m"


def reductions(names: list[str]) -> list[str]:
    if "j" in names:
        return [name for name in names if name in ("c", "r", "p", "q")]
    return [name for name in names if name in ("k", "kg", "ku")]


def schedule_integers(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Convolutions (n [g] o [h] i j c p q) and products of matrices (b.. m n k)."""
    nest = schedule.nest
    (main,) = nest.statements("main")
    names = [name_of(loop) for loop in perfect_chain(main)]
    store = next(a for a in accesses_in(main) if is_store(a))
    buffer = nest.name_of_buffer(store.memref)
    row, channel, reduced = row_loop(names), channel_loop(names), reductions(names)
    assert row is not None
    length, shared = _tile(nest, choices, row, channel, names)
    keep_offsets(schedule)
    pack_arguments(schedule, packs)
    inside = []
    outer = [name for name in names if name not in reduced]
    if channel in names and shared > 1:
        outer[outer.index(channel)] = f"{channel}t"
        schedule.apply(split, loop=channel, into=f"{channel}t {channel}v", factors=(shared,))
        inside.append(f"{channel}v")
    if length < extent_of(nest.loop(row)):
        outer[outer.index(row)] = f"{row}t"
        schedule.apply(split, loop=row, into=f"{row}t {row}r", factors=(length,))
        inside.append(f"{row}r")
    else:
        outer.remove(row)
        inside.append(row)
    schedule.apply(reorder, order=" ".join([*outer, *reduced, *inside]))
    schedule.apply(accumulate, at=reduced[0], buffer=buffer)
    if nest.statements("init"):
        schedule.attempt(fuse_producer, statement="init", buffer=buffer)
    if nest.statements("epilogue"):
        schedule.attempt(fuse_consumer, statement="epilogue", buffer=buffer)
    contract_scratch(schedule)
    if len(inside) > 1:
        schedule.apply(unroll, loops=inside[0])
    finish_statements(schedule, machine)


def keep_offsets(schedule: Schedule) -> None:
    """The sums over what a filter's zero point is multiplied with, each in a register."""
    nest = schedule.nest
    for top in [t for stage in nest.stages() if _is_plain(stage) for t in nest.statements(stage)]:
        names = [name_of(loop) for loop in perfect_chain(top)]
        reduced = [name for name in names if name.split("_")[-1] in ("p", "q", "c", "k")]
        if reduced:
            schedule.apply(accumulate, at=reduced[0], buffer="offsets")


def _is_plain(stage: str) -> bool:
    """Of the second such statement on stages have numbers."""
    return stage.rstrip("0123456789") == "plain"


def _tile(
    nest: LoopNest, choices: Choices, row: str, channel: str, names: list[str]
) -> tuple[int, int]:
    """Sums in a row, and rows that are taken together.

    A row that only long pieces divide is taken whole.
    """
    extent = extent_of(nest.loop(row))
    legal = [d for d in divisors(extent) if d <= MAX_SUMS] or [1]
    fitting = [d for d in legal if d <= LONGEST_ROW]
    best = fitting[-1] if fitting[-1] >= min(16, extent) else legal[-1]
    length = choices.number("row", best, legal, WHY_ROW)
    most = min(MAX_CHANNELS, MAX_SUMS // length)
    shared = [d for d in divisors(extent_of(nest.loop(channel))) if d <= most]
    default = max(d for d in shared if d <= 4)
    if "c" not in names and "k" not in names:
        shared, default = [1], 1  # depthwise: every channel reads a row of its own
    return length, choices.number("channels", default, shared, WHY_CHANNELS)
