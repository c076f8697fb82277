"""Schedule of products with weights in blocks: numbers are unpacked into registers.

    y[m, n] += x[m, k] * (half[k, n] - zero[kb, n]) * scale[kb, n]
    ->
    parallel nt, mt:
        acc[4][2] = 0                            registers: 4 rows x 2 vectors of 8 columns
        for kb: for kp:                          the blocks, and the bytes of each
            bytes = w[kb, kp, ..]                8 bytes of a vector: 16 numbers of four bits
            acc[mp][nv] += x[m, k] * (low half - zero) * scale
            acc[mp][nv] += x[m, k + 1] * (high half - zero) * scale
        y[..] = activation(acc + bias + residual)

Like products of floats (`matmul.py`), but for the tile: what is unpacked serves all rows of it, so
that it is high rather than wide. Weights and what belongs to their blocks are packed in the order
in which tiles read them.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.kernels.loops.nest import (
    LoopNest,
    accesses_in,
    extent_of,
    is_store,
    name_of,
    perfect_chain,
)
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.matmul import split_columns, weight_pack
from explorer.kernels.schedules.pieces import Piece, column_pieces, row_pieces
from explorer.kernels.schedules.plain import finish_statements
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import MOST_UPDATES, fuse_around, split_or_keep
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.pack import Pack
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import cut, reorder
from explorer.kernels.steps.vectorize import vectorize

REDUCED = ("kb", "kp")
MOST_ROWS, MOST_VECTORS = 6, 4
FEW_ROWS = 2
WHY_ROWS = "what is unpacked serves all rows of a tile"
WHY_VECTORS = "sums that do not wait for each other; more of them where rows are few"


def is_unpacked_product(nest: LoopNest, packs: Mapping[str, Pack]) -> bool:
    """One statement of products of bytes, blocks and steps innermost, on row-major buffers."""
    mains = nest.statements("main")
    if len(mains) != 1 or packs:
        return False
    names = [name_of(loop) for loop in perfect_chain(mains[0])]
    batch = [name for name in names if name not in ("m", "n", *REDUCED)]
    return {"m", "n", *REDUCED} <= set(names) and all(name.startswith("b") for name in batch)


def schedule_unpacked(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions b.. m n kb kp."""
    nest = schedule.nest
    (main,) = nest.statements("main")
    names = [name_of(loop) for loop in perfect_chain(main)]
    batch = [name for name in names if name not in ("m", "n", *REDUCED)]
    result = next(nest.name_of_buffer(a.memref) for a in accesses_in(main) if is_store(a))
    parameters = _parameters(nest)
    rows, columns = extent_of(nest.loop("m")), extent_of(nest.loop("n"))
    lanes = machine.vector_floats
    blocks = max(columns // lanes, 1)
    tile_rows = choices.number(
        "rows", min(rows, MOST_ROWS), range(1, min(rows, MOST_UPDATES) + 1), WHY_ROWS
    )
    most = MOST_UPDATES // tile_rows
    best = min(blocks, MOST_VECTORS if tile_rows <= FEW_ROWS else 1, most)
    vectors = choices.number("vectors", best, range(1, min(blocks, most) + 1), WHY_VECTORS)
    tiles = _cut_into_tiles(schedule, row_pieces(rows, tile_rows), vectors, lanes, batch)
    leading: list[str] = []
    unrolled: list[str] = []
    vectorized: list[str] = []
    for row, column in tiles:
        s = row.suffix + column.suffix
        mt, mp = split_or_keep(schedule, "m" + s, row.extent, row.tile, f"mt{s}", f"mp{s}")
        nt, nv, ni = split_columns(schedule, column, s, bool(batch or mt))
        outer = [*nt, *(name + s for name in batch), *mt]
        reduced = [name + s for name in REDUCED]
        schedule.apply(reorder, order=" ".join([*outer, *reduced, *mp, *nv, *ni]))
        schedule.apply(accumulate, at=reduced[0], buffer=result)
        leading.extend(outer)
        unrolled.extend([*mp, *nv])
        vectorized.extend(ni)
    fuse_around(schedule, result, choices)
    tile_vectors = vectors if columns >= lanes else 1
    for name in parameters:
        schedule.pack(name, weight_pack(nest, name, tile_vectors, lanes))
    for name in vectorized:
        schedule.apply(vectorize, loop=name)
    if unrolled:
        schedule.apply(unroll, loops=" ".join(unrolled))
    if leading:
        schedule.apply(parallel, loops=" ".join(leading))
    finish_statements(schedule, machine)


def _parameters(nest: LoopNest) -> list[str]:
    """The matrices of the weight: bytes, scales, zero points."""
    (main,) = nest.statements("main")
    found = dict.fromkeys(
        nest.name_of_buffer(a.memref)
        for a in accesses_in(main)
        if not is_store(a) and nest.roles[nest.name_of_buffer(a.memref)] == "weight"
    )
    return list(found)


def _cut_into_tiles(
    schedule: Schedule, row_parts: list[Piece], vectors: int, lanes: int, batch: list[str]
) -> list[tuple[Piece, Piece]]:
    """One nest for each piece of the rows and of the columns."""
    columns = extent_of(schedule.nest.loop("n"))
    column_parts = column_pieces(columns, vectors, lanes)
    others = [*batch, *REDUCED]
    if len(row_parts) > 1:
        schedule.apply(reorder, order=" ".join(["m", "n", *others]))
        schedule.apply(cut, loop="m", at=row_parts[0].extent, suffix=row_parts[1].suffix)
    for row in row_parts:
        s = row.suffix
        if len(column_parts) > 1:
            order = " ".join(name + s for name in ("n", "m", *others))
            schedule.apply(reorder, order=order)
            end = columns
            for column in column_parts[:0:-1]:
                end -= column.extent
                schedule.apply(cut, loop="n" + s, at=end, suffix=column.suffix)
    return [(row, column) for row in row_parts for column in column_parts]
