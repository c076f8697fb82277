"""Schedule of matrix products: y[b, m, n] += x[b, m, k] * w[b, k, n].

    parallel b, nt, mt:
        acc[8][3] = 0                            registers: 8 rows x 3 vectors of 16 columns
        for k:
            acc[mp][nv] += broadcast x[m, k] * w[k, n]
        y[..] = activation(acc + bias + residual)

Weights are packed so that one tile of columns is one contiguous stream. Columns that the tile
doesn't divide become nests of their own, first in whole vectors, then in vectors of 8 and 4, then
one by one. Rows that it leaves over follow in each tile of columns, while its weights are near.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from explorer.kernels.cost.rules import FLOAT_BYTES, LINE_BYTES
from explorer.kernels.cost.tiles import (
    CHANNELS_FIRST,
    Tile,
    Work,
    choose,
    choose_prefetch,
    explain,
)
from explorer.kernels.loops.nest import (
    LinearForm,
    LoopNest,
    accesses_in,
    element_name,
    extent_of,
    index_of,
    name_of,
    perfect_chain,
    subscripts,
)
from explorer.kernels.printing.languages import language_named
from explorer.kernels.schedules.choices import Choices, divisors
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.partition import Piece, column_pieces, row_pieces
from explorer.kernels.schedules.plain import finish_statements
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import (
    MAX_UPDATES,
    fuse_around,
    hold_vectors,
    split_or_keep,
)
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.pack import Pack, PackDimension, block_of
from explorer.kernels.steps.prefetch import prefetch
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import cut, reorder, split
from explorer.kernels.steps.vectorize import vectorize

ENOUGH_TASKS = 16
"""Tiles of columns that are tasks by themselves; where there are fewer, tiles of rows are tasks,
too, and rows that are left over a nest of their own."""
PACKED = "packed"
"""Name of the choice that a layout is shared by."""
STORED = ("f16", "i8")
"""Elements of a right side that are widened in registers."""
STORED_STEPS = 16
"""Of a sum after which what is stored in fewer bytes is asked for, where one tile has all columns:
one row of 64 halves is two lines, and a core works on 20 of them at a time."""
MAX_STEPS = 64
"""Of a sum between two lines of weights that are asked for."""


@dataclass(frozen=True)
class MatrixOperands:
    """Buffers of the main statement; `result` and `right` are those that n walks through."""

    left: str
    right: str
    result: str
    batch: tuple[str, ...]
    """Names of the batch loops, the outermost first."""


def matrix_operands(nest: LoopNest, packs: Mapping[str, Pack]) -> MatrixOperands | None:
    """The operands of a float32 product that can be tiled; None otherwise.

    The right one may be stored in fewer bytes (`STORED`) where it is no weight. The result must be
    row-major with n innermost, and the right operand must either be a weight (which is packed) or
    have n innermost, too.
    """
    mains = nest.statements("main")
    if len(mains) != 1:
        return None
    names = [name_of(loop) for loop in perfect_chain(mains[0])]
    if not {"m", "n", "k"} <= set(names):
        return None
    batch = tuple(name for name in names if name not in ("m", "n", "k"))
    if any(not name.startswith("b") for name in batch):
        return None
    if extent_of(nest.loop("k")) == 1:
        return None  # an outer product: nothing is summed that a register could hold
    accesses = accesses_in(mains[0])
    n, k, m = (index_of(nest.loop(name)) for name in "nkm")
    walked: dict[str, list[LinearForm]] = {}
    for access in accesses:
        forms = [form for form in subscripts(access) if form is not None]
        name = nest.name_of_buffer(access.memref)
        if len(forms) != len(subscripts(access)):
            return None
        if block_of(packs.get(name)):
            return None
        walked[name] = forms
    used = {name: {i for f in forms for i in f.terms} for name, forms in walked.items()}
    # A single row (a vector times a matrix) has no subscript of its own.
    rows = {m} if extent_of(nest.loop("m")) > 1 else set()
    right = [name for name, indices in used.items() if {n, k} <= indices]
    left = [name for name, indices in used.items() if {k, *rows} <= indices and n not in indices]
    result = [name for name, indices in used.items() if {n, *rows} <= indices and k not in indices]
    if not len(right) == len(left) == len(result) == 1 or len(walked) != 3:
        return None
    stored = [element_name(nest.buffer(name)) for name in (*left, *right, *result)]
    is_narrow = stored[1] in STORED and nest.roles[right[0]] != "weight"
    if stored != ["f32", stored[1] if is_narrow else "f32", "f32"]:
        return None
    contiguous = [result[0]] if nest.roles[right[0]] == "weight" else [result[0], right[0]]
    for name in contiguous:
        *outer, last = walked[name]
        if last.terms.get(n) != 1 or any(n in form.terms for form in outer):
            return None
    return MatrixOperands(left[0], right[0], result[0], batch)


def schedule_matmul(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions b.. m n k; see `matrix_operands` for what is required."""
    nest = schedule.nest
    operands = matrix_operands(nest, packs)
    assert operands is not None
    rows, columns = extent_of(nest.loop("m")), extent_of(nest.loop("n"))
    depth = extent_of(nest.loop("k"))
    lanes = machine.vector_floats
    blocks = columns // lanes
    row = FLOAT_BYTES * depth
    work = Work(
        height=1,
        width=rows,
        blocks=blocks,
        steps=depth,
        divides=False,
        point_stride_bytes=row,
        point_bytes=row,
        can_hold=machine.can_hold,
    )
    best = choose(work, machine.costs)
    why = explain(best, work, machine.costs)
    most = MAX_UPDATES
    legal = range(1, min(rows, most) + 1)
    tile_rows = choices.number("rows", best.pixels, legal, why)
    most //= tile_rows
    legal = range(1, min(max(blocks, 1), most) + 1)
    vectors = choices.number("vectors", min(best.vectors, most), legal, why)
    most //= vectors
    unrolls = [d for d in divisors(depth) if d <= min(8, most)]
    depth_unroll = choices.number("reduction_unroll", 1, unrolls, "more only makes the body longer")
    is_weight = nest.roles[operands.right] == "weight"
    packed = _choose_packed(choices, vectors, blocks) if is_weight else vectors
    row_parts = row_pieces(rows, tile_rows)
    column_parts = column_pieces(columns, vectors, lanes, packed)
    ahead = 0
    if is_weight and depth_unroll == 1 and packed == vectors:
        ahead = _choose_prefetch(machine, choices, work, row_parts[0], column_parts[0])
    is_stored = not is_weight and element_name(nest.buffer(operands.right)) in STORED
    first = column_parts[0]
    is_one_tile = first.extent == first.tile * first.width
    together = STORED_STEPS if is_stored and is_one_tile and depth % STORED_STEPS == 0 else 0

    _cut_columns(schedule, operands.batch, column_parts)
    parts = [
        part
        for column in column_parts
        for part in _cut_rows(schedule, operands.batch, row_parts, column, packed)
    ]
    for part in parts:
        names, factor = ("ko", "ku"), depth_unroll
        if ahead > 1 and not part.suffix:
            names, factor = ("ko", "ki"), ahead
        if together and not part.suffix:
            names, factor = ("ko", "ki"), together
        reduction = _put_inside_sum(schedule, part, names, factor)
        schedule.apply(accumulate, at=reduction[0], buffer=operands.result)
        if part.column.width > 1 and not is_stored:
            points, tile_vectors = part.row.tile, part.column.tile
            at = reduction[-1]
            hold_vectors(schedule, machine, at, operands.right, points, tile_vectors)
    fuse_around(schedule, operands.result, choices, machine)
    if is_weight:
        together = packed if blocks else 1
        schedule.pack(operands.right, weight_pack(nest, operands.right, together, lanes))
    for name in [name for part in parts for name in part.lanes]:
        schedule.apply(vectorize, loop=name)
    written_out = [name for part in parts for name in part.inside]
    if depth_unroll > 1:
        written_out += [f"ku{part.suffix}" for part in parts]
    if written_out:
        schedule.apply(unroll, loops=" ".join(written_out))
    leading = dict.fromkeys(name for part in parts for name in part.leading)
    if leading:
        schedule.apply(parallel, loops=" ".join(leading))
    if ahead:
        at = "ko" if ahead > 1 else "k"
        schedule.attempt(prefetch, at=at, buffer=operands.right, ahead="nt")
    if is_stored:
        at, outer = ("ki", "ko") if together else ("k", "nt")
        schedule.attempt(prefetch, at=at, buffer=operands.right, ahead=outer)
    finish_statements(schedule, machine)


def _choose_packed(choices: Choices, vectors: int, blocks: int) -> int:
    """Vectors of columns that lie together in the packed weight: by itself those of a tile.

    Another function that reads the same weight may have another tile: it walks through several
    groups, or through a part of one. Only where it was decided, for it gives no speed.
    """
    if PACKED not in choices.given:
        return vectors
    legal = [n for n in range(1, max(blocks, 1) + 1) if n % vectors == 0 or vectors % n == 0]
    return choices.number(PACKED, vectors, legal, "a tile of columns is one contiguous stream")


def _choose_prefetch(
    machine: Machine, choices: Choices, work: Work, row: Piece, column: Piece
) -> int:
    """Steps of the sum after which a line of the next tile's weights is asked for; 0 where none is.

    All rows go through a tile of columns before the next one, whose weights may come meanwhile: a
    line now and then, for memory gives less in a cycle than a tile of rows uses.
    """
    tiles = column.extent // (column.tile * column.width)
    if not language_named(machine.language).has_prefetch or column.width == 1 or tiles == 1:
        return 0
    tile = Tile(row.tile, column.tile)
    asked, why = choose_prefetch(tile, work, machine.costs, CHANNELS_FIRST)
    lines = -(-column.tile * column.width * FLOAT_BYTES // LINE_BYTES)
    most = min(row.extent // row.tile // lines, MAX_STEPS)
    steps = max((d for d in divisors(work.steps) if d <= most), default=1)
    wanted = "weights" if steps > 1 and asked in ("weights", "both") else "none"
    return steps if choices.word("prefetch", wanted, ("none", "weights"), why) != "none" else 0


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Rows and columns with tiles of one size, by the names of their loops."""

    row: Piece
    column: Piece
    suffix: str
    outer: list[str]
    """Over tiles, which are to stand around the sum."""
    leading: list[str]
    """That may become tasks."""
    inside: list[str]
    """Over the rows and vectors of a tile."""
    lanes: list[str]


def _cut_columns(schedule: Schedule, batch: Sequence[str], columns: Sequence[Piece]) -> None:
    """A nest for each piece of the columns."""
    if len(columns) == 1:
        return
    schedule.apply(reorder, order=" ".join(["n", *batch, "m", "k"]))
    end = sum(column.extent for column in columns)
    for column in columns[:0:-1]:
        end -= column.extent
        schedule.apply(cut, loop="n", at=end, suffix=column.suffix)


def _cut_rows(
    schedule: Schedule, batch: Sequence[str], rows: Sequence[Piece], column: Piece, packed: int
) -> list[_Part]:
    """Tiles of rows, and what they leave over: behind them in each tile of columns, so that its
    weights are near, or a nest of its own where columns alone would be too few tasks."""
    c = column.suffix
    outer = [name + c for name in batch]
    tiles = column.extent // (column.tile * column.width)
    tasks = tiles * prod(extent_of(schedule.nest.loop(name)) for name in outer)
    if len(rows) > 1 and tasks >= ENOUGH_TASKS:
        nt, nv, ni = split_columns(schedule, column, c, bool(batch), packed=packed)
        leading = [*outer, *nt]
        schedule.apply(reorder, order=" ".join([*leading, f"m{c}", f"k{c}", *nv, *ni]))
        schedule.apply(cut, loop=f"m{c}", at=rows[0].extent, suffix=rows[1].suffix)
        return [_rows_inside(schedule, row, column, leading, nv, ni) for row in rows]
    if len(rows) > 1:
        schedule.apply(reorder, order=" ".join([f"m{c}", *outer, f"n{c}", f"k{c}"]))
        schedule.apply(cut, loop=f"m{c}", at=rows[0].extent, suffix=rows[1].suffix)
    parts: list[_Part] = []
    for row in rows:
        s = c + row.suffix
        mt, mp = split_or_keep(schedule, f"m{s}", row.extent, row.tile, f"mt{s}", f"mp{s}")
        nt, nv, ni = split_columns(schedule, column, s, bool(batch or mt), packed=packed)
        outer = [*(name + s for name in batch), *nt, *mt]
        parts.append(
            _Part(
                row=row,
                column=column,
                suffix=s,
                outer=outer,
                leading=outer,
                inside=[*mp, *nv],
                lanes=ni,
            )
        )
    return parts


def _rows_inside(
    schedule: Schedule,
    row: Piece,
    column: Piece,
    leading: list[str],
    vectors: list[str],
    lanes: list[str],
) -> _Part:
    """One piece of the rows of a tile of columns."""
    s = column.suffix + row.suffix
    mt, mp = split_or_keep(schedule, f"m{s}", row.extent, row.tile, f"mt{s}", f"mp{s}")
    inside = [*mp, *(name + row.suffix for name in vectors)]
    own_lanes = [name + row.suffix for name in lanes]
    return _Part(
        row=row, column=column, suffix=s, outer=mt, leading=leading, inside=inside, lanes=own_lanes
    )


def _put_inside_sum(
    schedule: Schedule, part: _Part, names: tuple[str, str], factor: int
) -> list[str]:
    """Puts a tile inside its sum, which `factor` splits; returns the loops of the sum."""
    reduction = [f"k{part.suffix}"]
    if factor > 1:
        (loop,), reduction = reduction, [name + part.suffix for name in names]
        schedule.apply(split, loop=loop, into=" ".join(reduction), factors=(factor,))
    order = [*part.outer, *reduction, *part.inside, *part.lanes]
    schedule.apply(reorder, order=" ".join(order))
    return reduction


def split_columns(
    schedule: Schedule,
    column: Piece,
    s: str,
    has_outer_loop: bool,
    prefix: str = "",
    packed: int = 0,
) -> tuple[list[str], list[str], list[str]]:
    """(loops over tiles, over the vectors of a tile, over the lanes of a vector).

    Loops of one iteration are left out, but the nest needs some loop around its register tile.
    prefix: of all loops of the statement. packed: vectors that lie together, where these are not
    those of a tile: then there is a loop more, over groups of tiles or over groups in a tile.
    """
    total, tile = column.extent // column.width, column.tile
    packed = packed if column.width > 1 and packed else tile
    wide = packed // tile if packed > tile and total > packed else 1
    narrow = packed if 1 < packed < tile else tile
    names = [f"{prefix}{name}{s}" for name in ("np", "nt", "ng", "nv", "ni")]
    extents = [total // tile // wide, wide, tile // narrow, narrow, column.width]
    if wide == 1:  # the tiles are those of the loop that is always there
        names[0], names[1] = names[1], names[0]
    kept = [
        (name, extent)
        for position, (name, extent) in enumerate(zip(names, extents, strict=True))
        if extent > 1 or (position == 0 and not has_outer_loop)
    ]
    if len(kept) > 1:
        into = " ".join(name for name, _ in kept)
        factors = tuple(extent for _, extent in kept[1:])
        schedule.apply(split, loop=f"{prefix}n{s}", into=into, factors=factors)
    found = [name for name, _ in kept] if len(kept) > 1 else [f"{prefix}n{s}"]
    if not kept:
        return [], found, []  # a single column: inside of the tile, so that other loops lead
    loops = {old: new for (old, _), new in zip(kept, found, strict=True)}
    held = [[loops[name]] if name in loops else [] for name in names]
    outer, inside, lane = held[0] + held[1], held[2] + held[3], held[4]
    return (outer, [*inside, *lane], []) if column.width == 1 else (outer, inside, lane)


def weight_pack(nest: LoopNest, weight: str, vectors: int, lanes: int) -> list[PackDimension]:
    """[batch.., tile of columns, k, vector, lane], whichever of k and n comes first as stored."""
    access = nest.accesses(weight)[0]
    forms = subscripts(access)
    rank = len(forms)
    hints = [[i.name_hint or "" for i in form.terms] if form else [] for form in forms]
    column = next(d for d in range(rank) if any(h.startswith("n") for h in hints[d]))
    depth = next(d for d in range(rank) if any(h.startswith("k") for h in hints[d]))
    batch = [(d, 1, None) for d in range(rank) if d not in (column, depth)]
    inner = [(column, lanes, vectors), (column, 1, lanes)] if vectors > 1 else [(column, 1, lanes)]
    return [*batch, (column, vectors * lanes, None), (depth, 1, None), *inner]
