"""Schedule of products of bytes in blocks with weights in blocks: dot products, scaled by block.

    for m: for n: for kb:  sums = -zero * total
    for m: for n: for kb: for kg: for ku:  sums += x[m, k] * w[k, n]            bytes, sums of i32
    for m: for n: for kb:  y[m, n] += sums * (left_scale * scale)
    ->
    parallel nt, mt:
        y_acc[1][4] = 0
        for kb:                                     a block of rows
            acc[1][4] = -zero * total
            for kg:                                 64 bytes of a vector: 128 numbers of four bits
                acc = dot(acc, 4 bytes of x, lower halves)
                acc = dot(acc, the next 4, upper halves)
            y_acc += acc * (left_scale * scale)
        y[..] = activation(y_acc + bias + residual)

The three statements share the loops over tiles and blocks, so that sums never leave registers.
Weights are packed four bytes of a column together, as tiles read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.dialects import affine

from explorer.kernels.loops.nest import (
    LoopNest,
    accesses_in,
    extent_of,
    is_store,
    name_of,
    perfect_chain,
)
from explorer.kernels.printing.languages import language_named
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.partition import Piece, column_pieces, row_pieces
from explorer.kernels.schedules.plain import finish_statements
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import MAX_UPDATES, fuse_around, split_or_keep
from explorer.kernels.steps.distribute import distribute, localize
from explorer.kernels.steps.dot import PRODUCTS, dot
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.pack import Pack
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import cut, merge, reorder, split
from explorer.kernels.steps.vectorize import vectorize

SUMS, SCALED = "sums", "scaled"
PARTS = ("start", "add", "scale")
"""What a tile goes through for every block, one after another."""
MAX_ROWS = 4
REGISTERS_OF_SUM = 4
"""Of each vector of sums in a tile: its own, that of results, and as many for what they read."""
WHY_ROWS = "numbers that are unpacked serve all rows of a tile"
WHY_VECTORS = "sums that do not wait for each other, as many as the registers hold"


def is_product_of_byte_blocks(nest: LoopNest, packs: Mapping[str, Pack], machine: Machine) -> bool:
    """Statements as `MatMulBlocksOp` writes them, on row-major buffers."""
    return language_named(machine.language).has_dots and not packs and len(_statements(nest)) == 3


def _statements(nest: LoopNest) -> list[affine.ForOp]:
    """Those over blocks: what sums begin with, the products, and what is made of sums."""
    chains = {top: perfect_chain(top) for top in nest.statements()}
    return [top for top, chain in chains.items() if any(name_of(i).endswith("kb") for i in chain)]


def schedule_byte_blocks(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions b.. m n kb, and kg ku of the products."""
    nest = schedule.nest
    statements = _statements(nest)
    result = next(nest.name_of_buffer(a.memref) for a in accesses_in(statements[-1]) if is_store(a))
    layouts = _weights(nest, statements)
    chains = [[name_of(loop) for loop in perfect_chain(top)] for top in statements]
    rows, columns = extent_of(nest.loop("m")), extent_of(nest.loop("n"))
    lanes = machine.vector_floats
    blocks = max(columns // lanes, 1)
    tile_rows = choices.number(
        "rows", min(rows, MAX_ROWS), range(1, min(rows, MAX_UPDATES) + 1), WHY_ROWS
    )
    most = MAX_UPDATES // tile_rows
    held = max(1, machine.registers // (REGISTERS_OF_SUM * tile_rows))
    best = min(blocks, held, most)
    vectors = choices.number("vectors", best, range(1, min(blocks, most) + 1), WHY_VECTORS)
    depth = chains[1].index("n") + 1
    for level in range(depth):
        schedule.apply(merge, loops=" ".join(chain[level] for chain in chains))
    *batch, m, n = chains[0][:depth]  # a merged loop has the first one's name
    pieces = row_pieces(rows, tile_rows), column_pieces(columns, vectors, lanes)
    _cut_into_tiles(schedule, pieces, columns, [m, n, *batch])
    tiles = [
        _tile(schedule, row, column, [m, n, *batch], [chain[depth] for chain in chains], result)
        for row, column in product(*pieces)
    ]
    homes = " ".join(tile.home for tile in tiles)
    schedule.apply(localize, buffer=SUMS, at=homes)
    fuse_around(schedule, result, choices)
    for name, is_bytes in layouts.items():
        schedule.pack(name, _in_tiles(vectors if columns >= lanes else 1, lanes, is_bytes))
    for tile in tiles:
        for lane in tile.products:
            schedule.apply(dot, lanes=lane, products=lane.replace("lane_add", "ku"))
    for name in [lane for tile in tiles for lane in tile.lanes]:
        schedule.apply(vectorize, loop=name)
    unrolled = [name for tile in tiles for name in tile.unrolled]
    if unrolled:
        schedule.apply(unroll, loops=" ".join(unrolled))
    schedule.apply(parallel, loops=" ".join(name for tile in tiles for name in tile.leading))
    finish_statements(schedule, machine)


def _weights(nest: LoopNest, statements: Sequence[affine.ForOp]) -> dict[str, bool]:
    """The matrices of the weight: whether they are what is multiplied."""
    found = {}
    for top in statements:
        for access in accesses_in(top):
            name = nest.name_of_buffer(access.memref)
            if nest.roles[name] == "weight" and not is_store(access):
                found[name] = top is statements[1]
    return found


def _in_tiles(vectors: int, lanes: int, is_bytes: bool) -> Pack:
    """[tile of columns, row, vector, lane] of a matrix (rows, columns); of bytes
    [tile of columns, four rows, vector, lane, row]."""
    together = PRODUCTS if is_bytes else 1
    inner = [(1, lanes, vectors), (1, 1, lanes)] if vectors > 1 else [(1, 1, lanes)]
    ends = [(0, 1, together)] if is_bytes else []
    return [(1, vectors * lanes, None), (0, together, None), *inner, *ends]


def _cut_into_tiles(
    schedule: Schedule,
    pieces: tuple[list[Piece], list[Piece]],
    columns: int,
    loops: list[str],
) -> None:
    """One nest for each piece of the rows and of the columns, columns outermost."""
    row_parts, column_parts = pieces
    m, n, *batch = loops
    if len(row_parts) > 1:
        schedule.apply(reorder, order=" ".join([m, n, *batch]))
        schedule.apply(cut, loop=m, at=row_parts[0].extent, suffix=row_parts[1].suffix)
    for row in row_parts:
        s = row.suffix
        schedule.apply(reorder, order=" ".join(name + s for name in (n, m, *batch)))
        end = columns
        for column in column_parts[:0:-1]:
            end -= column.extent
            schedule.apply(cut, loop=n + s, at=end, suffix=column.suffix)


@dataclass(frozen=True)
class _Tile:
    """Names of the loops of a piece of the result, once it is tiled."""

    leading: list[str]
    home: str
    """Over blocks: every iteration has sums of its own."""
    unrolled: list[str]
    lanes: list[str]
    products: list[str]
    """Of lanes, those that become dot products."""


def _tile(
    schedule: Schedule,
    row: Piece,
    column: Piece,
    loops: list[str],
    blocks: list[str],
    result: str,
) -> _Tile:
    """Tiles of a piece; blocks: the loops over blocks of the three statements."""
    s = row.suffix + column.suffix
    m, n, *batch = (name + s for name in loops)
    mt, rows = split_or_keep(schedule, m, row.extent, row.tile, f"row_tile{s}", f"row{s}")
    if column.width > 1:
        into = f"tile{s} vector{s} lane{s}"
        schedule.apply(split, loop=n, into=into, factors=(column.tile, column.width))
        n, *columns = into.split()
    else:
        columns = []
    leading, tile = [n, *batch, *mt], [*rows, *columns]
    schedule.apply(reorder, order=" ".join([*leading, *tile]))
    homes = [name + s for name in blocks]
    parts: list[list[str]] = [[], [], []]
    before = homes
    for loop in reversed(tile):
        stem = loop.removesuffix(s) if s else loop
        into = [f"{stem}_{part}{s}" for part in PARTS]
        schedule.apply(distribute, loop=loop, before=" ".join(before[1:]), into=" ".join(into))
        for names, name in zip(parts, into, strict=True):
            names.insert(0, name)
        before = into
    for names, home, place in zip(parts, homes, range(3), strict=True):
        kg, ku = ([f"kg{s}"], [f"ku{s}"]) if place == 1 else ([], [])
        schedule.apply(reorder, order=" ".join([home, *kg, *names, *ku]))
    schedule.apply(merge, loops=" ".join(homes))
    schedule.apply(accumulate, at=f"kg{s}", buffer=SUMS)
    schedule.apply(accumulate, at=homes[0], buffer=result, name=SCALED)
    lanes = [f"lane_{part}{s}" for part in PARTS] if columns else []
    unrolled = [name for names in parts for name in names if name not in lanes]
    return _Tile(leading, homes[0], unrolled, lanes, lanes[1:2])
