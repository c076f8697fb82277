"""Schedules of convolutions and matrix products for GPUs: tiles in local memory, implicit GEMM.

    parallel n, og, ig, jg:                      a work-group: 32 channels x 8 x 16 pixels
        acc[jp][ov] = bias                       a work-item: 2 x 2 vectors of four channels
        for ct:                                  a few input channels at a time
            {item}: w_tile[c, p, q, o] = w       16-byte loads that neighbours make side by side
            {item}: x_tile[c, i, j, ci] = x      every input is read once for all p and q
            {item oi ii jt}: for c, p, q, ci: acc[jp][ov] += x_tile * w_tile
        y[..] = activation(acc + residual)

The layout is NCHW4c: a pixel's four channels are 16 bytes at a multiple of 16, whatever stride,
padding or row width a convolution has, so that all copies and stores are whole vectors. Row-major
planes would make every shifted row unaligned. Products of matrices stay row-major, as tokens are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

from explorer.kernels.loops.nest import (
    LinearForm,
    LoopNest,
    accesses_in,
    element_name,
    enclosing_loops,
    extent_of,
    index_of,
    name_of,
    perfect_chain,
    subscripts,
)
from explorer.kernels.schedules.choices import Choices, divisors
from explorer.kernels.schedules.convolution import operands_of
from explorer.kernels.schedules.gpu.tiles import (
    LANES,
    LARGEST_GROUP,
    WHY_DEPTH,
    WHY_GROUP,
    WHY_MICRO,
    TiledLoops,
    best_divisor,
    choose_pipeline,
    cut_pieces,
    finish_groups,
    small_divisors,
    suffixed,
)
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.matmul import MatrixOperands
from explorer.kernels.schedules.plain import pack_arguments
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import fuse_around
from explorer.kernels.steps.groups import LOCAL_BYTES, stage
from explorer.kernels.steps.pack import Pack, block_of
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import cut, reorder, split

REST = "_rest"
"""Behind the names of loops over the part of a depth that whole tiles leave."""


def schedule_convolution_groups(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions n o i j c p q; the output is blocked by four, the input too or it is row-major."""
    nest = schedule.nest
    operands = operands_of(nest)
    assert operands is not None
    height, width = extent_of(nest.loop("i")), extent_of(nest.loop("j"))
    quads = extent_of(nest.loop("o")) // LANES
    channels = extent_of(nest.loop("c"))
    window = extent_of(nest.loop("p")) * extent_of(nest.loop("q"))
    source_block = block_of(packs.get(operands.source))

    vectors = choices.number("vectors", best_divisor(quads, 2), small_divisors(quads, 4), WHY_MICRO)
    quad_items = choices.number(
        "channel_items",
        best_divisor(quads // vectors, 8),
        small_divisors(quads // vectors, 32),
        WHY_GROUP,
    )
    pixels = choices.number("pixels", min(4, width), range(1, min(8, width) + 1), WHY_MICRO)
    columns = width // pixels
    most = LARGEST_GROUP // quad_items
    column_items = choices.number(
        "column_items", min(columns, 16, most), range(1, min(columns, most) + 1), WHY_GROUP
    )
    most //= column_items
    row_items = choices.number(
        "row_items", min(height, most, 8), range(1, min(height, most) + 1), WHY_GROUP
    )
    lanes = source_block if source_block and channels % source_block == 0 else 1
    tile_width = pixels * column_items
    tile = quad_items * vectors * LANES
    floats = window * tile + _pixels_read(nest, operands.source, row_items, tile_width)
    by_rows = 4 * lanes * floats > LOCAL_BYTES
    if by_rows:  # one row of a large window at a time
        window = extent_of(nest.loop("q"))
        floats = window * tile + _pixels_read(nest, operands.source, row_items, tile_width, "q")
    depths = [d * lanes for d in divisors(channels // lanes)]
    depths = [d for d in depths if 4 * d * floats <= LOCAL_BYTES] or [lanes]
    fitting = [d for d in depths if d * window <= 72 and 4 * d * floats <= LOCAL_BYTES // 2]
    depth = choices.number("depth", max(fitting, default=depths[0]), depths, WHY_DEPTH)
    kept = -(-depth * floats // (quad_items * row_items * column_items))
    tiles = extent_of(nest.loop("p")) if by_rows else channels // depth
    pipelined = choose_pipeline(choices, tiles, kept)
    staged_at = "p" if by_rows else "ct"

    suffixes: list[str] = []
    for t in cut_pieces(schedule, "j", "n o i c p q", "", (tile_width, column_items, 1), "_tail"):
        suffixes += cut_pieces(schedule, "i", "n o j c p q", t, (row_items, 1), "_low")
    leading: list[str] = []
    for s in suffixes:
        leading += _tile_convolution(
            schedule,
            s,
            (vectors, quad_items),
            (row_items, column_items, pixels),
            (depth, lanes),
            by_rows,
        )
        schedule.apply(accumulate, at=f"ct{s}", buffer=operands.result)
    fuse_around(schedule, operands.result, choices)
    pack_arguments(schedule, packs)
    weight_pack = [(0, tile, None), (1, 1, None), (2, 1, None), (3, 1, None), (0, 1, tile)]
    schedule.pack(operands.weight, weight_pack)
    for s in suffixes:
        for buffer in (operands.weight, operands.source):
            schedule.apply(stage, buffer=buffer, at=f"{staged_at}{s}", name=f"{buffer}{s}_copy")
    staged = (operands.weight, operands.source)
    loops = TiledLoops(
        copies=[f"{buffer}{s}_copy" for s in suffixes for buffer in staged],
        leading=leading,
        over_items=[f"{name}{s}" for s in suffixes for name in ("oi", "ii", "jt")],
        lanes=[f"ol{s}" for s in suffixes],
        written_out=[f"{name}{s}" for s in suffixes for name in ("jp", "ov", "ci")],
        pipelined=[f"{staged_at}{s}" for s in suffixes] if pipelined else [],
    )
    finish_groups(schedule, machine, loops)


def _pixels_read(nest: LoopNest, source: str, rows: int, columns: int, windows: str = "p q") -> int:
    """Elements of one input channel that a tile of rows x columns outputs reads.

    `windows`: the loops over taps that move while the tile stays.
    """
    (access,) = [
        a for a in accesses_in(nest.statements("main")[0]) if a.memref is nest.buffers[source]
    ]
    count = 1
    for name, window, extent in (("i", "p", rows), ("j", "q", columns)):
        index, tap = index_of(nest.loop(name)), index_of(nest.loop(window))
        form = next(f for f in subscripts(access) if f is not None and index in f.terms)
        tap_step = form.terms.get(tap, 0) if window in windows.split() else 0
        reach = tap_step * (extent_of(nest.loop(window)) - 1)
        step = gcd(form.terms[index], tap_step)
        count *= ((extent - 1) * form.terms[index] + reach) // step + 1
    return count


def _tile_convolution(
    schedule: Schedule,
    s: str,
    channel_tile: tuple[int, int],
    pixel_tile: tuple[int, int, int],
    channels: tuple[int, int],
    by_rows: bool,
) -> list[str]:
    """Splits one nest into groups, items and registers; returns the loops over groups.

    `channels`: how many of the input a tile has, and how many of them lie side by side.
    """
    nest = schedule.nest
    depth, lanes = channels
    vectors, quad_items = channel_tile
    row_items, column_items, pixels = pixel_tile
    width, height = extent_of(nest.loop("j" + s)), extent_of(nest.loop("i" + s))
    if width < column_items * pixels:  # what whole tiles leave of a row
        column_items = min(column_items, width)
        pixels = width // column_items
    row_items = min(row_items, height)
    schedule.apply(
        split,
        loop="o" + s,
        into=f"og{s} ov{s} oi{s} ol{s}",
        factors=(vectors, quad_items, LANES),
    )
    schedule.apply(split, loop="i" + s, into=f"ig{s} ii{s}", factors=(row_items,))
    schedule.apply(split, loop="j" + s, into=f"jg{s} jt{s} jp{s}", factors=(column_items, pixels))
    schedule.apply(split, loop="c" + s, into=f"ct{s} cc{s} ci{s}", factors=(depth // lanes, lanes))
    order = "n og ig jg ct oi ii jt cc p q ci jp ov ol"
    if by_rows:
        order = "n og ig jg ct p oi ii jt cc q ci jp ov ol"
    schedule.apply(reorder, order=suffixed(order, s))
    return [f"{name}{s}" for name in ("n", "og", "ig", "jg")]


def schedule_matmul_groups(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions b.. m n k, row-major; see `group_operands` for what is required."""
    nest = schedule.nest
    operands = group_operands(nest, packs)
    assert operands is not None
    rows, columns = extent_of(nest.loop("m")), extent_of(nest.loop("n"))
    depth = extent_of(nest.loop("k"))
    lanes = LANES if columns >= LANES else 1
    quads = columns // lanes
    vectors = choices.number(
        "vectors", 2 if quads >= 32 else 1, range(1, min(4, quads) + 1), WHY_MICRO
    )
    column_items = choices.number(
        "column_items",
        min(16, quads // vectors),
        range(1, min(64, quads // vectors) + 1),
        WHY_GROUP,
    )
    row_registers = choices.number(
        "rows", min(8 if rows >= 128 else 4, rows), range(1, min(8, rows) + 1), WHY_MICRO
    )
    most = min(rows // row_registers, LARGEST_GROUP // column_items)
    row_items = choices.number("row_items", min(16, most), range(1, most + 1), WHY_GROUP)
    tile_rows, tile_columns = row_items * row_registers, column_items * vectors * lanes
    most = LOCAL_BYTES // 4 // 2 // (tile_rows + tile_columns)
    legal = range(1, max(1, min(64, most, depth)) + 1)
    part = choices.number("depth", _own_depth(depth, min(16, legal[-1])), legal, WHY_DEPTH)
    kept = -(-part * (tile_rows + tile_columns) // (row_items * column_items))
    pipelined = choose_pipeline(choices, depth // part, kept)

    batch = " ".join(operands.batch)
    pieces: list[tuple[str, tuple[int, int], tuple[int, int, int]]] = []
    row_sizes = (tile_rows, row_items, 1)
    column_sizes = (tile_columns, column_items * lanes, lanes, 1)
    for low in cut_pieces(schedule, "m", f"{batch} n k", "", row_sizes, "_low"):
        row_tile = _row_tile(extent_of(nest.loop("m" + low)), row_items, row_registers)
        for s in cut_pieces(schedule, "n", f"{batch} m k", low, column_sizes, "_tail"):
            width = extent_of(nest.loop("n" + s))
            pieces.append((s, row_tile, _column_tile(width, column_items, vectors, lanes)))
    leading: list[str] = []
    suffixes: list[str] = []
    lanes_of: list[str] = []
    for s, row_tile, column_tile in pieces:
        found, parts = tile_product(schedule, operands, s, row_tile, column_tile, part)
        leading += found
        suffixes += parts
        lanes_of += [f"nl{t}" for t in parts if column_tile[2] > 1]
    fuse_around(schedule, operands.result, choices)
    if nest.roles[operands.right] == "weight":
        schedule.pack(operands.right, _rows_of_columns(nest, operands.right))
    copies: list[str] = []
    for s in suffixes:
        copies += stage_product(schedule, operands, s)
    loops = TiledLoops(
        copies=copies,
        leading=leading,
        over_items=[f"{name}{s}" for s in suffixes for name in ("mi", "ni")],
        lanes=lanes_of,
        written_out=[f"{name}{s}" for s in suffixes for name in ("mp", "nv")],
        pipelined=[f"kt{s}" for s in suffixes if not s.endswith(REST)] if pipelined else [],
    )
    finish_groups(schedule, machine, loops)


def _own_depth(depth: int, most: int) -> int:
    """What is summed between two barriers: a divisor, unless all of them are small."""
    best = max(d for d in divisors(depth) if d <= most)
    return best if 2 * best >= most else most


def tile_product(
    schedule: Schedule,
    operands: MatrixOperands,
    s: str,
    row_tile: tuple[int, int],
    column_tile: tuple[int, int, int],
    part: int,
) -> tuple[list[str], list[str]]:
    """Splits one nest of a product into groups, items and registers.

    `row_tile`: items, rows of each; `column_tile`: items, vectors of each, floats per vector;
    `part`: what is summed between two barriers. Returns the loops over groups, and the suffixes of
    the loops inside: where `part` does not divide the depth, what it leaves has loops of its own.
    """
    batch = " ".join(operands.batch)
    schedule.apply(split, loop=f"m{s}", into=f"mt{s} mi{s} mp{s}", factors=row_tile)
    schedule.apply(
        split,
        loop=f"n{s}",
        into=f"nt{s} nv{s} ni{s} nl{s}",
        factors=(column_tile[1], column_tile[0], column_tile[2]),
    )
    parts = split_depth(schedule, s, f"{batch} mt nt", "mi ni mp nv nl", part)
    for t in parts:
        schedule.apply(reorder, order=suffixed("kt mi ni kk mp nv nl", t))
    schedule.apply(accumulate, at=" ".join(f"kt{t}" for t in parts), buffer=operands.result)
    return suffixed(f"{batch} mt nt", s).split(), parts


def split_depth(
    schedule: Schedule, s: str, outer: str, inner: str, part: int, last: int = 1
) -> list[str]:
    """Splits the depth k of a nest into kt and kk, between the loops `outer` and `inner`.

    kk has `part` iterations, and if `last` is more than one, so many of them are a loop ki. What
    whole parts leave becomes a second loop kt with one iteration. Returns the suffixes of both.
    """
    depth = extent_of(schedule.nest.loop(f"k{s}"))
    rest = depth % part
    schedule.apply(reorder, order=suffixed(f"{outer} k {inner}", s))
    found = [(s, part)]
    if rest:
        schedule.apply(cut, loop=f"k{s}", at=depth - rest, suffix=REST)
        found.append((s + REST, rest))
    for t, width in found:
        factors = (width // last, last) if width % last == 0 else (width, 1)
        names = "kt kk ki" if last > 1 else "kt kk"
        into = suffixed(names, t)
        schedule.apply(split, loop=f"k{t}", into=into, factors=factors[: len(names.split()) - 1])
    return [t for t, _ in found]


def stage_product(schedule: Schedule, operands: MatrixOperands, s: str) -> list[str]:
    """Both operands of one nest in local memory, columns innermost; the names of the copies."""
    copies: list[str] = []
    for buffer in (operands.right, operands.left):
        order: tuple[int, ...] = ()
        if buffer == operands.right:
            order = _columns_last(schedule.nest, buffer, s)
        name = f"{buffer}{s}_copy"
        if not schedule.attempt(stage, buffer=buffer, at=f"kt{s}", order=order, name=name):
            copies.append(name)
    return copies


def _row_tile(height: int, row_items: int, registers: int) -> tuple[int, int]:
    """(items, rows of each) for whole tiles or for what they leave."""
    if height >= row_items * registers:
        return row_items, registers
    row_items = min(row_items, height)
    return row_items, height // row_items


def _column_tile(width: int, column_items: int, vectors: int, lanes: int) -> tuple[int, int, int]:
    """(items, vectors of each, floats per vector) for whole tiles or for what they leave."""
    if width >= column_items * vectors * lanes:
        return column_items, vectors, lanes
    lanes = lanes if width % lanes == 0 else 1
    column_items = min(column_items, width // lanes)
    return column_items, width // lanes // column_items, lanes


def group_operands(nest: LoopNest, packs: Mapping[str, Pack]) -> MatrixOperands | None:
    """The operands of a float32 product whose tiles can be staged; None otherwise.

    All three are row-major; the result has n innermost. The right operand may have k innermost:
    it is turned round on its way into local memory.
    """
    mains = nest.statements("main")
    if len(mains) != 1:
        return None
    names = [name_of(loop) for loop in perfect_chain(mains[0])]
    batch = tuple(name for name in names if name not in ("m", "n", "k"))
    if not {"m", "n", "k"} <= set(names) or any(not name.startswith("b") for name in batch):
        return None
    if extent_of(nest.loop("k")) == 1:
        return None
    m, n, k = (index_of(nest.loop(name)) for name in "mnk")
    found: dict[tuple[bool, bool, bool], str] = {}
    for access in accesses_in(mains[0]):
        forms = [form for form in subscripts(access) if form is not None]
        name = nest.name_of_buffer(access.memref)
        if element_name(access.memref) != "f32" or len(forms) != len(subscripts(access)):
            return None
        if block_of(packs.get(name)) or not _is_one_index_each(forms):
            return None
        used = {index for form in forms for index in form.terms}
        if n in used and m in used and forms[-1] != LinearForm({n: 1}, forms[-1].constant):
            return None
        if found.setdefault((m in used, n in used, k in used), name) != name:
            return None
    left, right = found.get((True, False, True)), found.get((False, True, True))
    result = found.get((True, True, False))
    if left is None or right is None or result is None or len(found) != 3:
        return None
    return MatrixOperands(left, right, result, batch)


def _is_one_index_each(forms: list[LinearForm]) -> bool:
    return all(len(form.terms) <= 1 and set(form.terms.values()) <= {1} for form in forms)


def _rows_of_columns(nest: LoopNest, weight: str) -> Pack:
    """The weight as [batch.., k, n], whichever of them comes first as stored."""
    forms = subscripts(nest.accesses(weight)[0])
    hints = [[i.name_hint or "" for i in form.terms] if form else [] for form in forms]
    column = next(d for d, names in enumerate(hints) if any(h.startswith("n") for h in names))
    others = [d for d in range(len(forms)) if d != column]
    return [(d, 1, None) for d in (*others, column)]


def _columns_last(nest: LoopNest, right: str, s: str) -> tuple[int, ...]:
    """The order of a staged tile's dimensions that puts the columns last; () if they are."""
    return innermost_last(nest, right, f"kt{s}", tuple(f"{name}{s}" for name in ("nv", "ni", "nl")))


def innermost_last(nest: LoopNest, buffer: str, at: str, names: Sequence[str]) -> tuple[int, ...]:
    """The order of dimensions with which what loop `at` reads has those of loops `names` last."""
    (access,) = [a for a in accesses_in(nest.loop(at)) if a.memref is nest.buffers[buffer]]
    around = enclosing_loops(access)
    inside = around[around.index(nest.loop(at)) + 1 :]
    inner = {index_of(loop) for loop in inside}
    wanted = {index_of(loop) for loop in inside if name_of(loop) in names}
    forms = [set(form.terms) for form in subscripts(access) if form is not None]
    moving = [bool(terms & wanted) for terms in forms if terms & inner]
    return (1, 0) if moving == [True, False] else ()
