"""Schedule of matrix products for GPUs with matrix instructions: halves in, float32 sums.

    parallel b.., mt, nt:                          a work-group: 64 x 64 sums
        acc = bias                                 a warp: 32 x 32, an item 2 x 4 x (2 x 2) of them
        for kt:
            {item}: x_tile[m, k] = half(x)         rounded on their way into local memory
            {item}: w_tile[n, k] = half(w)         columns of w are rows of the tile
            {item wm wn il jl}: for kk: {mma mp np ih jh ki}: acc += x_tile * w_tile
        y = activation(acc + residual)

Products of halves are exact in float32, so that a sum's error is that of the rounded operands: at
most 2^-10 of the sum of the products' absolute values (both operands rounded to 11 bits), and the
usual rounding of the sums. What whole tiles leave of rows and columns is computed in float32 by the
tiles of `groups`.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.kernels.loops.nest import (
    LoopNest,
    extent_of,
    subscripts,
)
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.gpu.products import (
    REST,
    group_operands,
    innermost_last,
    split_depth,
    stage_product,
    tile_product,
)
from explorer.kernels.schedules.gpu.tiles import (
    LANES,
    WHY_DEPTH,
    TiledLoops,
    choose_pipeline,
    cut_pieces,
    finish_groups,
    narrow_weight,
    suffixed,
)
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.matmul import MatrixOperands
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import fuse_around
from explorer.kernels.steps.groups import LOCAL_BYTES, stage
from explorer.kernels.steps.pack import Pack
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import reorder, split
from explorer.kernels.steps.tensor_cores import COLUMNS, DEPTH, REGISTERS, ROWS, WARP

PAD = 8
"""Halves behind a row of a tile: with them, the 8 rows that a warp loads a fragment from begin in
different banks of local memory (32 banks of 4 bytes; rows of 16, 32 or 64 halves)."""

MAX_WARPS = 8
WHY_WARPS = "warps of a group share its tiles"
WHY_TILES = "tiles of sums in registers of a warp: each fragment is used so often"


def is_matrix_product(nest: LoopNest, packs: Mapping[str, Pack]) -> bool:
    """Whether at least one instruction has a whole tile."""
    if group_operands(nest, packs) is None:
        return False
    rows, columns, depth = (extent_of(nest.loop(name)) for name in "mnk")
    return rows >= ROWS and columns >= COLUMNS and depth >= DEPTH


def schedule_tensor_cores(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions b.. m n k, row-major; see `is_matrix_product` for what is required."""
    nest = schedule.nest
    operands = group_operands(nest, packs)
    assert operands is not None
    rows, columns, depth = (extent_of(nest.loop(name)) for name in "mnk")
    row_tiles = _choose(choices, "row_tiles", rows // ROWS, 2, 4, WHY_TILES)
    column_tiles = _choose(choices, "column_tiles", columns // COLUMNS, 4, 8, WHY_TILES)
    row_warps = _choose(choices, "row_warps", rows // ROWS // row_tiles, 2, 4, WHY_WARPS)
    most = MAX_WARPS // row_warps
    column_warps = _choose(
        choices, "column_warps", columns // COLUMNS // column_tiles, 2, most, WHY_WARPS
    )
    tile_rows = row_warps * row_tiles * ROWS
    tile_columns = column_warps * column_tiles * COLUMNS
    depths = [d for d in (16, 32, 48, 64) if d <= depth]
    depths = [d for d in depths if 2 * (d + PAD) * (tile_rows + tile_columns) <= LOCAL_BYTES]
    own = min(depths, key=lambda d: (depth % d > 0, abs(d - 32)))
    part = choices.number("depth", own, depths, WHY_DEPTH)
    items = 32 * row_warps * column_warps
    kept = -(-part * (tile_rows + tile_columns) // items)
    pipelined = choose_pipeline(choices, depth // part, kept)

    batch = " ".join(operands.batch)
    matrices: list[str] = []
    others: list[tuple[str, bool]] = []
    leading: list[str] = []
    for low in cut_pieces(schedule, "m", f"{batch} n k", "", (tile_rows, 4, 1), "_low"):
        height = extent_of(nest.loop("m" + low))
        is_whole = height >= tile_rows
        width = tile_columns if is_whole else 16 * LANES
        for s in cut_pieces(schedule, "n", f"{batch} m k", low, (width, LANES, 1), "_tail"):
            if is_whole and extent_of(nest.loop("n" + s)) >= tile_columns:
                warps, tiles = (row_warps, column_warps), (row_tiles, column_tiles)
                found, parts = _tile_for_warps(schedule, operands, s, warps, tiles, part)
                leading += found
                matrices += parts
                continue
            row_tile, column_tile = _rest_tiles(height, extent_of(nest.loop("n" + s)), width)
            found, parts = tile_product(schedule, operands, s, row_tile, column_tile, part)
            leading += found
            others += [(t, column_tile[2] > 1) for t in parts]
    fuse_around(schedule, operands.result, choices)
    narrow_weight(schedule, machine, operands.right, choices, ("mixed",))
    if nest.roles[operands.right] == "weight":
        schedule.pack(operands.right, _columns_of_rows(nest, operands.right))
    copies: list[str] = []
    for s in matrices:
        copies += _stage_halves(schedule, operands, s)
    for s, _ in others:
        copies += stage_product(schedule, operands, s)
    everywhere = [*matrices, *(s for s, _ in others)]
    whole = [s for s in everywhere if not s.endswith(REST)]
    loops = TiledLoops(
        copies=copies,
        leading=leading,
        over_items=[
            *(name for s in matrices for name in suffixed("wm wn il jl", s).split()),
            *(name for s, _ in others for name in suffixed("mi ni", s).split()),
        ],
        lanes=[f"nl{s}" for s, has_lanes in others if has_lanes],
        written_out=[
            *(name for s in matrices for name in suffixed("mp np ih jh", s).split()),
            *(name for s, _ in others for name in suffixed("mp nv", s).split()),
        ],
        pipelined=[f"kt{s}" for s in whole] if pipelined else [],
        matrices=[f"mp{s}" for s in matrices if _is_whole_depth(nest, s)],
        matrices_by=machine.tensor_cores,
    )
    finish_groups(schedule, machine, loops)


def _is_whole_depth(nest: LoopNest, s: str) -> bool:
    """Whether a nest's depth is in whole instructions; a rest of it may not be."""
    return extent_of(nest.loop(f"ki{s}")) == DEPTH


def _choose(choices: Choices, name: str, available: int, own: int, most: int, why: str) -> int:
    """Any number up to what there is; by itself the largest power of two up to `own`."""
    best = own
    while best > max(available, 1):
        best //= 2
    return choices.number(name, min(best, most), range(1, max(1, min(most, available)) + 1), why)


def _tile_for_warps(
    schedule: Schedule,
    operands: MatrixOperands,
    s: str,
    warps: tuple[int, int],
    tiles: tuple[int, int],
    part: int,
) -> tuple[list[str], list[str]]:
    """Splits a nest into groups, warps, tiles and fragments, and returns what `tile_product` does.

    A rest of the depth that is no whole instruction is added by the same items, one by one.
    """
    high, pair = REGISTERS
    rows, pairs = WARP
    row_factors = (warps[0], tiles[0], high, rows)
    column_factors = (warps[1], tiles[1], pairs, pair)
    schedule.apply(split, loop=f"m{s}", into=suffixed("mt wm mp ih il", s), factors=row_factors)
    schedule.apply(split, loop=f"n{s}", into=suffixed("nt wn np jl jh", s), factors=column_factors)
    batch = " ".join(operands.batch)
    inner = "wm wn il jl mp np ih jh"
    parts = split_depth(schedule, s, f"{batch} mt nt", inner, part, DEPTH)
    for t in parts:
        schedule.apply(reorder, order=suffixed("kt wm wn il jl kk mp np ih jh ki", t))
    schedule.apply(accumulate, at=" ".join(f"kt{t}" for t in parts), buffer=operands.result)
    return suffixed(f"{batch} mt nt", s).split(), parts


def _rest_tiles(
    height: int, width: int, tile_width: int
) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """The tiles of what whole ones leave: at most 64 rows or columns, or the width of a group."""
    lanes = LANES if width % LANES == 0 else 1
    columns = min(width, tile_width) // lanes
    column_items = max(d for d in range(1, min(16, columns) + 1) if columns % d == 0)
    registers = 4 if height % 4 == 0 else 1
    rows = height // registers
    row_items = max(d for d in range(1, min(16, rows) + 1) if rows % d == 0)
    return (row_items, registers), (column_items, 1, lanes)


def _stage_halves(schedule: Schedule, operands: MatrixOperands, s: str) -> list[str]:
    """Both operands of one nest as tiles of halves, the depth innermost; names of the copies."""
    copies: list[str] = []
    for buffer in (operands.right, operands.left):
        name = f"{buffer}{s}_copy"
        order = innermost_last(schedule.nest, buffer, f"kt{s}", (f"ki{s}", f"kk{s}"))
        arguments = {"order": order, "name": name, "element": "f16", "pad": PAD}
        schedule.apply(stage, buffer=buffer, at=f"kt{s}", **arguments)
        copies.append(name)
    return copies


def _columns_of_rows(nest: LoopNest, weight: str) -> Pack:
    """The weight as [batch.., n, k], whichever of them comes first as stored."""
    forms = subscripts(nest.accesses(weight)[0])
    hints = [[i.name_hint or "" for i in form.terms] if form else [] for form in forms]
    depth = next(d for d, names in enumerate(hints) if any(h.startswith("k") for h in names))
    others = [d for d in range(len(forms)) if d != depth]
    return [(d, 1, None) for d in (*others, depth)]
