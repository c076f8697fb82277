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
from itertools import product

from xdsl.dialects import affine

from explorer.kernels.loops.nest import (
    LoopNest,
    accesses_in,
    extent_of,
    is_store,
    name_of,
    perfect_chain,
    stage_of,
)
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.matmul import split_columns
from explorer.kernels.schedules.partition import Piece, column_pieces, row_pieces
from explorer.kernels.schedules.plain import finish_statements
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import MAX_UPDATES, fuse_around, split_or_keep
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.pack import Pack
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import cut, reorder
from explorer.kernels.steps.vectorize import vectorize

REDUCED = ("kb", "kp")
MAX_ROWS, MAX_VECTORS = 8, 4
FEW_ROWS = 2
WHY_ROWS = "what is unpacked serves all rows of a tile"
WHY_VECTORS = "sums that do not wait for each other; more of them where rows are few"


def is_unpacked_product(nest: LoopNest, packs: Mapping[str, Pack]) -> bool:
    """Statements of products of bytes, blocks and steps innermost, on row-major buffers."""
    mains = _mains(nest)
    return bool(mains) and not packs and all(_prefix(main) is not None for main in mains)


def _mains(nest: LoopNest) -> list[affine.ForOp]:
    """Those of the whole blocks, and up to two of a last one that is cut off."""
    return [top for top in nest.statements() if stage_of(top).startswith("main")]


def _prefix(main: affine.ForOp) -> str | None:
    """What all loops of a statement begin with, where it is not the first of its stage; None where
    they are not b.. m n kb kp."""
    names = [name_of(loop) for loop in perfect_chain(main)]
    prefix = names[-1].removesuffix("kp")
    bare = [name.removeprefix(prefix) for name in names]
    others = [name for name in bare if name not in ("m", "n", *REDUCED)]
    is_one = {"m", "n", *REDUCED} <= set(bare) and all(name.startswith("b") for name in others)
    return prefix if is_one else None


def schedule_unpacked(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions b.. m n kb kp of the whole blocks, and others for a last one that is cut off."""
    nest = schedule.nest
    mains = _mains(nest)
    prefixes = [_prefix(main) or "" for main in mains]
    stores = (a for main in mains for a in accesses_in(main) if is_store(a))
    result = next(nest.name_of_buffer(a.memref) for a in stores)
    parameters = _parameters(nest)
    rows, columns = extent_of(nest.loop("m")), extent_of(nest.loop("n"))
    names = [name_of(loop) for loop in perfect_chain(mains[0])]
    batch = [name for name in names if name not in ("m", "n", *REDUCED)]
    lanes = machine.vector_floats
    blocks = max(columns // lanes, 1)
    tile_rows = choices.number(
        "rows", min(rows, MAX_ROWS), range(1, min(rows, MAX_UPDATES) + 1), WHY_ROWS
    )
    most = MAX_UPDATES // tile_rows
    best = min(blocks, MAX_VECTORS if tile_rows <= FEW_ROWS else 1, most)
    vectors = choices.number("vectors", best, range(1, min(blocks, most) + 1), WHY_VECTORS)
    leading: list[str] = []
    unrolled: list[str] = []
    vectorized: list[str] = []
    pieces = row_pieces(rows, tile_rows), column_pieces(columns, vectors, lanes)
    for p in prefixes:
        _cut_into_tiles(schedule, *pieces, columns, [p + name for name in batch], p)
        for row, column in product(*pieces):
            s = row.suffix + column.suffix
            m = f"{p}m{s}"
            mt, mp = split_or_keep(schedule, m, row.extent, row.tile, f"{p}mt{s}", f"{p}mp{s}")
            nt, nv, ni = split_columns(schedule, column, s, bool(batch or mt), p)
            outer = [*nt, *(p + name + s for name in batch), *mt]
            reduced = [p + name + s for name in REDUCED]
            schedule.apply(reorder, order=" ".join([*outer, *reduced, *mp, *nv, *ni]))
            schedule.apply(accumulate, at=reduced[0], buffer=result)
            leading.extend(outer)
            unrolled.extend([*mp, *nv])
            vectorized.extend(ni)
    if len(mains) == 1:  # sums of several statements are whole behind the last one only
        fuse_around(schedule, result, choices)
    tile_vectors = vectors if columns >= lanes else 1
    for name in parameters:
        schedule.pack(name, _in_tiles(tile_vectors, lanes))
    for name in vectorized:
        schedule.apply(vectorize, loop=name)
    if unrolled:
        schedule.apply(unroll, loops=" ".join(unrolled))
    if leading:
        schedule.apply(parallel, loops=" ".join(leading))
    finish_statements(schedule, machine)


def _parameters(nest: LoopNest) -> list[str]:
    """The matrices of the weight: bytes, scales, zero points."""
    found = [
        nest.name_of_buffer(access.memref)
        for main in _mains(nest)
        for access in accesses_in(main)
        if not is_store(access)
    ]
    return [name for name in dict.fromkeys(found) if nest.roles[name] == "weight"]


def _in_tiles(vectors: int, lanes: int) -> Pack:
    """[tile of columns, row, vector, lane] of a matrix (rows, columns)."""
    inner = [(1, lanes, vectors), (1, 1, lanes)] if vectors > 1 else [(1, 1, lanes)]
    return [(1, vectors * lanes, None), (0, 1, None), *inner]


def _cut_into_tiles(
    schedule: Schedule,
    row_parts: list[Piece],
    column_parts: list[Piece],
    columns: int,
    batch: list[str],
    prefix: str,
) -> None:
    """One nest for each piece of a statement's rows and of its columns."""
    others = [*batch, *(prefix + name for name in REDUCED)]
    m, n = f"{prefix}m", f"{prefix}n"
    if len(row_parts) > 1:
        schedule.apply(reorder, order=" ".join([m, n, *others]))
        schedule.apply(cut, loop=m, at=row_parts[0].extent, suffix=row_parts[1].suffix)
    for row in row_parts if len(column_parts) > 1 else ():
        s = row.suffix
        schedule.apply(reorder, order=" ".join(name + s for name in (n, m, *others)))
        end = columns
        for column in column_parts[:0:-1]:
            end -= column.extent
            schedule.apply(cut, loop=n + s, at=end, suffix=column.suffix)
