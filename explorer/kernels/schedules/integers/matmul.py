"""Schedule of integer matrix products, and of bfloat16: dot products of bytes, or of pairs.

    for m: for n: for k:  sums[m,n] += x[m,k] * w[k,n]                       x: ui8, w: i8
    ->
    parallel nt, mt:
        acc[6][4] = bias                             6 rows x 4 vectors of 16 sums (i32)
        for kg:                                      groups of 4 of the reduction
            acc[mp][nv] = dot(acc, 4 bytes of x, 64 of w)
        y[..] = requantized(acc)

Four neighbours of a row of x are multiplied at once with four rows of 16 columns of w, which are
packed for that: constants before, what is computed by a statement of the kernel. Rows and columns
that tiles do not divide are nests of their own, with narrower vectors at the end. Fewer than four
columns are no vector: each is summed up along the row. Of bfloat16 it is two neighbours instead of
four, and sums are f32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from explorer.kernels.cost.tiles import Work, choose, explain
from explorer.kernels.loops.nest import (
    LoopNest,
    accesses_in,
    element_name,
    extent_of,
    name_of,
    perfect_chain,
    shape_of,
)
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.convolution import Operands, operands_of
from explorer.kernels.schedules.integers.kinds import keep_offsets
from explorer.kernels.schedules.integers.matrix_instructions import (
    instruction_for,
    matrix_tile_of,
    why_matrix_tiles,
)
from explorer.kernels.schedules.integers.split_signs import for_split_signs
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.partition import (
    NARROWEST_VECTOR,
    Piece,
    column_pieces,
    row_pieces,
)
from explorer.kernels.schedules.plain import finish_statements
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import MAX_UPDATES, fuse_around, split_or_keep
from explorer.kernels.steps.dot import PAIR, PRODUCTS, SPLITS_SIGNS, dot
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.matrix_tiles import MATRIX, matrix_tiles
from explorer.kernels.steps.pack import Pack
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import cut, reorder, split
from explorer.kernels.steps.vectorize import vectorize

BYTES = ("ui8", "i8")
PAIRED = "bf16"
DEPTH_BYTES = 4
"""That a dot product reads of a row: four bytes, or two of bfloat16."""
WIDE_LANES, FEW_REGISTERS = 16, 15
"""Processors without vectors of 512 bits have 16 registers (SSE2, AVX2), one of which holds what
adds up pairs."""


def is_integer_matmul(nest: LoopNest, packs: Mapping[str, Pack]) -> bool:
    """Products of bytes, the right ones constant or packed, four by four, on row-major buffers; or
    of bfloat16, the right ones constant, two by two."""
    operands = operands_of(nest)
    if operands is None or packs:
        return False
    (main,) = nest.statements("main")
    names = [name_of(loop) for loop in perfect_chain(main)]
    kinds = {nest.name_of_buffer(a.memref): element_name(a.memref) for a in accesses_in(main)}
    source, weight, result = (
        kinds[name] for name in (operands.source, operands.weight, operands.result)
    )
    is_bytes = source in BYTES and (weight, result) == ("i8", "i32")
    is_paired = (source, weight, result) == (PAIRED, PAIRED, "f32")
    if not (is_bytes or is_paired) or not {"m", "n"} <= set(names):
        return False
    if is_packed_product(nest):
        return True
    if sorted(names) != ["k", "m", "n"]:
        return False
    depth, columns = extent_of(nest.loop("k")), extent_of(nest.loop("n"))
    together = products_of(nest, operands.weight)
    return shape_of(nest.buffer(operands.weight)) == (depth, columns) and depth % together == 0


def products_of(nest: LoopNest, weight: str) -> int:
    """That a dot product adds at once: four of bytes, or two of bfloat16."""
    return PAIR if element_name(nest.buffer(weight)) == PAIRED else PRODUCTS


def is_packed_product(nest: LoopNest) -> bool:
    """Whether the right operand is computed, and packed by a statement before."""
    (main,) = nest.statements("main")
    names = [name_of(loop) for loop in perfect_chain(main)]
    return names[-2:] == ["kg", "ku"]


def schedule_integer_matmul(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions m n k, the right operand is (k, n); or b.. m n kg ku, and it is packed."""
    nest = schedule.nest
    operands = operands_of(nest)
    assert operands is not None
    rows, columns = extent_of(nest.loop("m")), extent_of(nest.loop("n"))
    if columns < NARROWEST_VECTOR and _is_plain_sum(nest, operands):
        _schedule_few_columns(schedule, machine, operands, choices)
        return
    lanes = machine.vector_floats
    blocks = max(columns // lanes, 1)
    is_packed = is_packed_product(nest)
    (main,) = nest.statements("main")
    chain = [name_of(loop) for loop in perfect_chain(main)]
    summed = ["kg", "ku"] if is_packed else ["k"]
    batch = [name for name in chain if name not in ("m", "n", *summed)]
    together = products_of(nest, operands.weight)
    depth = prod(extent_of(loop) for loop in perfect_chain(main) if name_of(loop) in summed)
    work = Work(
        height=1,
        width=rows,
        blocks=blocks,
        steps=depth // together,
        divides=False,
        point_stride_bytes=depth * DEPTH_BYTES // together,
        point_bytes=depth * DEPTH_BYTES // together,
        vector_stride_bytes=lanes * depth * DEPTH_BYTES // together,
    )
    costs = machine.costs
    if lanes < WIDE_LANES:
        costs = replace(costs, core=replace(costs.core, vector_registers=FEW_REGISTERS))
    if SPLITS_SIGNS in nest.function.attributes:
        work, costs = for_split_signs(work, costs)
    best = choose(work, costs)
    why = explain(best, work, costs)
    instruction = instruction_for(machine, is_paired=together == PAIR)
    tiles_why = why_matrix_tiles(instruction, rows, blocks, depth)
    legal = ("dot",) if SPLITS_SIGNS in nest.function.attributes else ("dot", MATRIX)
    wanted = MATRIX if tiles_why and MATRIX in legal else "dot"
    by = choices.word("instruction", wanted, legal, tiles_why or "no matrix instruction fits")
    if by == MATRIX:
        best, why = matrix_tile_of(instruction, rows, blocks), tiles_why
    tile_rows = choices.number("rows", best.pixels, range(1, min(rows, MAX_UPDATES) + 1), why)
    most = MAX_UPDATES // tile_rows
    vectors = choices.number(
        "vectors", min(best.vectors, most), range(1, min(blocks, most) + 1), why
    )
    keep_offsets(schedule)
    loops = [*batch, *summed]
    tiles = _cut_into_tiles(schedule, row_pieces(rows, tile_rows), vectors, lanes, loops)
    leading: list[str] = []
    inside: list[str] = []
    by_matrix: list[str] = []
    for row, column in tiles:
        s = row.suffix + column.suffix
        if not is_packed:
            schedule.apply(split, loop="k" + s, into=f"kg{s} ku{s}", factors=(together,))
        mt, mp = split_or_keep(schedule, "m" + s, row.extent, row.tile, f"mt{s}", f"mp{s}")
        nt, nv, ni = _split_columns(schedule, column, s)
        tile = [*mp, *nv, *ni]
        around = [*nt, *(name + s for name in batch), *mt]
        schedule.apply(reorder, order=" ".join([*around, f"kg{s}", *tile, f"ku{s}"]))
        schedule.apply(accumulate, at=f"kg{s}", buffer=operands.result)
        leading.extend(around)
        is_matrix = by == MATRIX and bool(mp) and column.width == lanes and column.tile > 1
        if is_matrix:
            by_matrix.append(s)
        else:
            inside.extend([*mp, *nv])
    fuse_around(schedule, operands.result, choices)
    if not is_packed:
        layout = [(1, lanes, None), (0, together, None), (1, 1, lanes), (0, 1, together)]
        schedule.pack(operands.weight, layout)
    for row, column in tiles:
        s = row.suffix + column.suffix
        if column.width > 1:
            schedule.apply(dot, lanes=f"ni{s}", products=f"ku{s}")
            schedule.apply(vectorize, loop=f"ni{s}")
        if s in by_matrix:
            schedule.apply(matrix_tiles, loop=f"kg{s}")
    if inside:
        schedule.apply(unroll, loops=" ".join(inside))
    schedule.apply(parallel, loops=" ".join(leading))
    finish_statements(schedule, machine)


def _is_plain_sum(nest: LoopNest, operands: Operands) -> bool:
    """Of integers, in any order: sums of floats stay in theirs."""
    return element_name(nest.buffer(operands.result)) == "i32" and not is_packed_product(nest)


def _schedule_few_columns(
    schedule: Schedule, machine: Machine, operands: Operands, choices: Choices
) -> None:
    """Fewer columns than the narrowest vector has lanes: each is a sum over a whole row, of which
    the compiler of C makes vectors, where a column lies together."""
    keep_offsets(schedule)
    schedule.apply(reorder, order="n m k")
    schedule.apply(accumulate, at="k", buffer=operands.result)
    fuse_around(schedule, operands.result, choices)
    schedule.pack(operands.weight, [(1, 1, None), (0, 1, None)])
    schedule.apply(parallel, loops="n m")
    finish_statements(schedule, machine)


def _cut_into_tiles(
    schedule: Schedule, row_parts: list[Piece], vectors: int, lanes: int, others: list[str]
) -> list[tuple[Piece, Piece]]:
    """One nest for each piece of the rows and of the columns, n outermost."""
    columns = extent_of(schedule.nest.loop("n"))
    column_parts = column_pieces(columns, vectors, lanes)
    if len(row_parts) > 1:
        schedule.apply(reorder, order=" ".join(["m", "n", *others]))
        schedule.apply(cut, loop="m", at=row_parts[0].extent, suffix=row_parts[1].suffix)
    for row in row_parts:
        s = row.suffix
        schedule.apply(reorder, order=" ".join(name + s for name in ("n", "m", *others)))
        end = columns
        for column in column_parts[:0:-1]:
            end -= column.extent
            schedule.apply(cut, loop="n" + s, at=end, suffix=column.suffix)
    return [(row, column) for row in row_parts for column in column_parts]


def _split_columns(
    schedule: Schedule, column: Piece, s: str
) -> tuple[list[str], list[str], list[str]]:
    """(loop over tiles, over the vectors of a tile, over the lanes of a vector)."""
    if column.width == 1:
        return [f"n{s}"], [], []
    schedule.apply(
        split, loop=f"n{s}", into=f"nt{s} nv{s} ni{s}", factors=(column.tile, column.width)
    )
    return [f"nt{s}"], [f"nv{s}"], [f"ni{s}"]
