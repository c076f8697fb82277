"""Schedule of convolutions in row-major layout: vectors of pixels, tiles of output channels.

    for n: for g: for o: for i: for j: for c: for p: for q:
        y[n, 34g+o, i, j] += x[n, 34g+c, i+p, j+q] * w[34g+o, c, p, q]
    ->
    parallel n, g, i, jt, ot:
        acc[8][3] = 0                            registers: 8 channels x 3 vectors of 16 pixels
        for c, p, q:
            acc[op][jv] += broadcast w[..] * x[.. j: 16]
        y[..] = activation(acc + bias)

For what blocks of channels do not fit: groups that would cut through them, and few output channels,
of which a block would be mostly empty. Channels and pixels that the tile does not divide become
nests of their own: pixels in whole vectors first, then in vectors of 8 and 4, then one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from explorer.kernels.cost.rules import FLOAT_BYTES
from explorer.kernels.cost.tiles import Work, choose, explain
from explorer.kernels.loops.nest import (
    LoopNest,
    accesses_in,
    bounds_of,
    element_name,
    extent_of,
    index_of,
    is_store,
    name_of,
    perfect_chain,
    subscripts,
)
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.partition import NARROWEST_VECTOR, Piece, column_pieces, row_pieces
from explorer.kernels.schedules.plain import finish_statements, pack_arguments
from explorer.kernels.schedules.rows import is_contiguous
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import (
    MAX_UPDATES,
    fuse_around,
    hold_vectors,
    split_or_keep,
)
from explorer.kernels.steps.dependences import determined_indices
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.pack import Pack, is_identity
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import cut, reorder, split
from explorer.kernels.steps.vectorize import vectorize

CHANNEL, PIXEL = "o", "j"


@dataclass(frozen=True)
class PixelLoops:
    """The loops of the main statement besides o and j, each part from the outermost inwards."""

    source: str
    result: str
    outer: tuple[str, ...]
    reduced: tuple[str, ...]


def pixel_loops(nest: LoopNest, packs: Mapping[str, Pack]) -> PixelLoops | None:
    """The loops of a float32 convolution that can be tiled so; None for anything else.

    All buffers must be row-major, pixels contiguous in input and result (a stride of 1), and the
    input must be the same for all channels o.
    """
    mains = nest.statements("main")
    if len(mains) != 1 or any(not is_identity(layout) for layout in packs.values()):
        return None
    chain = perfect_chain(mains[0])
    loops = {name_of(loop): loop for loop in chain}
    if not {CHANNEL, PIXEL} <= set(loops) or any(bounds_of(loop) is None for loop in chain):
        return None
    accesses = accesses_in(mains[0])
    stores = [a for a in accesses if is_store(a)]
    if len(stores) != 1 or {element_name(a.memref) for a in accesses} != {"f32"}:
        return None
    pixel, channel = loops[PIXEL], index_of(loops[CHANNEL])
    sources = [a for a in accesses if nest.roles[nest.name_of_buffer(a.memref)] == "input"]
    forms = [form for a in sources for form in subscripts(a)]
    if len(sources) != 1 or any(form is None or channel in form.terms for form in forms):
        return None
    if extent_of(pixel) < NARROWEST_VECTOR or not is_contiguous(pixel, accesses):
        return None
    determined = determined_indices(subscripts(stores[0]))
    kept = [name for name, loop in loops.items() if index_of(loop) in determined]
    reduced = tuple(name for name in loops if name not in kept)
    if not reduced or not {CHANNEL, PIXEL} <= set(kept):
        return None
    outer = tuple(name for name in kept if name not in (CHANNEL, PIXEL))
    source, result = (nest.name_of_buffer(a.memref) for a in (sources[0], stores[0]))
    return PixelLoops(source, result, outer, reduced)


def schedule_pixels(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions n [g] o i j c p q, see `pixel_loops` for what is required."""
    nest = schedule.nest
    loops = pixel_loops(nest, packs)
    assert loops is not None
    channels, pixels = extent_of(nest.loop(CHANNEL)), extent_of(nest.loop(PIXEL))
    lanes = machine.vector_floats
    blocks = max(pixels // lanes, 1)
    steps = prod(extent_of(nest.loop(name)) for name in loops.reduced)
    row = FLOAT_BYTES * steps
    work = Work(
        height=1,
        width=channels,
        blocks=blocks,
        steps=steps,
        divides=False,
        point_stride_bytes=row,
        point_bytes=row,
        can_hold=machine.can_hold,
    )
    best = choose(work, machine.costs)
    why = explain(best, work, machine.costs)
    legal = range(1, min(channels, MAX_UPDATES) + 1)
    tile_channels = choices.number("channels", best.pixels, legal, why)
    legal = range(1, min(blocks, MAX_UPDATES // tile_channels) + 1)
    vectors = choices.number("vectors", min(best.vectors, legal[-1]), legal, why)
    rows = row_pieces(channels, tile_channels)
    columns = column_pieces(pixels, vectors, lanes)
    _cut(schedule, loops, rows, columns)
    unrolled: list[str] = []
    for row in rows:
        for column in columns:
            unrolled += _tile(schedule, loops, row, column)
            if column.width > 1:
                at = loops.reduced[-1] + row.suffix + column.suffix
                hold_vectors(schedule, machine, at, loops.source, row.tile, column.tile)
    fuse_around(schedule, loops.result, choices)
    pack_arguments(schedule, packs)
    for row in rows:
        for column in columns:
            if column.width > 1:
                schedule.apply(vectorize, loop=f"ji{row.suffix}{column.suffix}")
    schedule.apply(unroll, loops=" ".join(name for name in unrolled if nest.has(name)))
    leading: list[str] = []
    for top in nest.statements("main"):
        for loop in perfect_chain(top):
            stem = name_of(loop).split("_")[0]
            if stem in (*loops.outer, "jt", "ot"):
                leading.append(name_of(loop))
    schedule.apply(parallel, loops=" ".join(leading))
    finish_statements(schedule, machine)


def _cut(schedule: Schedule, loops: PixelLoops, rows: list[Piece], columns: list[Piece]) -> None:
    """One nest for each piece of the channels times each piece of the pixels."""
    outer, reduced = " ".join(loops.outer), " ".join(loops.reduced)
    if len(rows) > 1:
        order = f"{CHANNEL} {outer} {PIXEL} {reduced}"
        schedule.apply(reorder, order=order)
        schedule.apply(cut, loop=CHANNEL, at=rows[0].extent, suffix=rows[1].suffix)
    if len(columns) == 1:
        return
    for row in rows:
        order = f"{PIXEL} {outer} {CHANNEL} {reduced}"
        schedule.apply(reorder, order=_suffixed(order, row.suffix))
        end = extent_of(schedule.nest.loop(PIXEL + row.suffix))
        for column in columns[:0:-1]:
            end -= column.extent
            schedule.apply(cut, loop=PIXEL + row.suffix, at=end, suffix=column.suffix)


def _tile(schedule: Schedule, loops: PixelLoops, row: Piece, column: Piece) -> list[str]:
    """Puts one piece's tile inside of its reduction; returns the loops to write out."""
    s = row.suffix + column.suffix
    outer = _suffixed(" ".join(loops.outer), s).split()
    reduced = _suffixed(" ".join(loops.reduced), s)
    tiles, inside = split_or_keep(schedule, CHANNEL + s, row.extent, row.tile, f"ot{s}", f"op{s}")
    count = column.extent // (column.tile * column.width)
    if column.width == 1:
        pixel_tiles, pixel_inside = [], [f"{PIXEL}{s}"]
    else:
        names, factors = [f"jt{s}", f"jv{s}", f"ji{s}"], (column.tile, column.width)
        schedule.apply(split, loop=PIXEL + s, into=" ".join(names), factors=factors)
        pixel_tiles, pixel_inside = names[:1], names[1:]
        if count == 1 and not outer:
            outer, pixel_tiles = pixel_tiles, []
    order = [*outer, *pixel_tiles, *tiles, reduced, *inside, *pixel_inside]
    schedule.apply(reorder, order=" ".join(order))
    schedule.apply(accumulate, at=reduced.split()[0], buffer=loops.result)
    return [name for name in [*inside, *pixel_inside] if not name.startswith("ji")]


def _suffixed(names: str, suffix: str) -> str:
    return " ".join(name + suffix for name in names.split())
