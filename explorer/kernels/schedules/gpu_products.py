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
from math import gcd, prod

from explorer.kernels.nest import (
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
from explorer.kernels.schedules.choices import Choices, divisors
from explorer.kernels.schedules.convolution import operands_of
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.matmul import MatrixOperands
from explorer.kernels.schedules.plain import contract_scratch, finish_statements, pack_arguments
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import fuse_around
from explorer.kernels.steps.groups import (
    LOCAL_BYTES,
    group,
    item_chain,
    items,
    local_bytes,
    stage,
)
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.pack import Pack, block_of
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import cut, reorder, split
from explorer.kernels.steps.vectorize import vectorize

LANES = 4
"""Floats per access: 16 bytes, the widest that a work-item reads at once."""

LARGEST_GROUP = 256
WHY_GROUP = "work-items that share a tile in local memory"
WHY_MICRO = "sums in registers of a work-item: each value from local memory is used so often"
WHY_DEPTH = "what is summed between two barriers: its tiles fit into local memory"


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

    vectors = choices.number("vectors", _best(quads, 2), _small(quads, 4), WHY_MICRO)
    quad_items = choices.number(
        "channel_items", _best(quads // vectors, 8), _small(quads // vectors, 32), WHY_GROUP
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
    depths = [d * lanes for d in divisors(channels // lanes)]
    depths = [d for d in depths if 4 * d * floats <= LOCAL_BYTES] or [lanes]
    fitting = [d for d in depths if d * window <= 72 and 4 * d * floats <= LOCAL_BYTES // 2]
    depth = choices.number("depth", max(fitting, default=depths[0]), depths, WHY_DEPTH)

    suffixes: list[str] = []
    for t in _cut(schedule, "j", "n o i c p q", "", (tile_width, column_items, 1), "_tail"):
        suffixes += _cut(schedule, "i", "n o j c p q", t, (row_items, 1), "_low")
    leading: list[str] = []
    for s in suffixes:
        leading += _tile_convolution(
            schedule, s, (vectors, quad_items), (row_items, column_items, pixels), depth, lanes
        )
        schedule.apply(accumulate, at=f"ct{s}", buffer=operands.result)
    fuse_around(schedule, operands.result, choices)
    pack_arguments(schedule, packs)
    weight_pack = [(0, tile, None), (1, 1, None), (2, 1, None), (3, 1, None), (0, 1, tile)]
    schedule.pack(operands.weight, weight_pack)
    for s in suffixes:
        for buffer in (operands.weight, operands.source):
            schedule.apply(stage, buffer=buffer, at=f"ct{s}", name=f"{buffer}{s}_copy")
    _finish(
        schedule,
        machine,
        [f"{buffer}{s}_copy" for s in suffixes for buffer in (operands.weight, operands.source)],
        leading,
        [f"{name}{s}" for s in suffixes for name in ("oi", "ii", "jt")],
        [f"ol{s}" for s in suffixes],
        [f"{name}{s}" for s in suffixes for name in ("jp", "ov", "ci")],
    )


def _pixels_read(nest: LoopNest, source: str, rows: int, columns: int) -> int:
    """Elements of one input channel that a tile of rows x columns outputs reads."""
    (access,) = [
        a for a in accesses_in(nest.statements("main")[0]) if a.memref is nest.buffers[source]
    ]
    count = 1
    for name, window, extent in (("i", "p", rows), ("j", "q", columns)):
        index, tap = index_of(nest.loop(name)), index_of(nest.loop(window))
        form = next(f for f in subscripts(access) if f is not None and index in f.terms)
        reach = form.terms.get(tap, 0) * (extent_of(nest.loop(window)) - 1)
        step = gcd(form.terms[index], form.terms.get(tap, 0))
        count *= ((extent - 1) * form.terms[index] + reach) // step + 1
    return count


def _tile_convolution(
    schedule: Schedule,
    s: str,
    channel_tile: tuple[int, int],
    pixel_tile: tuple[int, int, int],
    depth: int,
    lanes: int,
) -> list[str]:
    """Splits one nest into groups, items and registers; returns the loops over groups."""
    nest = schedule.nest
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
    schedule.apply(reorder, order=_suffixed(order, s))
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
    depths = [d for d in divisors(depth) if d <= max(1, min(64, most))]
    part = choices.number("depth", max(d for d in depths if d <= 16), depths, WHY_DEPTH)

    batch = " ".join(operands.batch)
    pieces: list[tuple[str, tuple[int, int], tuple[int, int, int]]] = []
    row_sizes = (tile_rows, row_items, 1)
    column_sizes = (tile_columns, column_items * lanes, lanes, 1)
    for low in _cut(schedule, "m", f"{batch} n k", "", row_sizes, "_low"):
        row_tile = _row_tile(extent_of(nest.loop("m" + low)), row_items, row_registers)
        for s in _cut(schedule, "n", f"{batch} m k", low, column_sizes, "_tail"):
            width = extent_of(nest.loop("n" + s))
            pieces.append((s, row_tile, _column_tile(width, column_items, vectors, lanes)))
    leading: list[str] = []
    for s, row_tile, column_tile in pieces:
        schedule.apply(split, loop=f"m{s}", into=f"mt{s} mi{s} mp{s}", factors=row_tile)
        schedule.apply(
            split,
            loop=f"n{s}",
            into=f"nt{s} nv{s} ni{s} nl{s}",
            factors=(column_tile[1], column_tile[0], column_tile[2]),
        )
        schedule.apply(split, loop=f"k{s}", into=f"kt{s} kk{s}", factors=(part,))
        order = f"{batch} mt nt kt mi ni kk mp nv nl"
        schedule.apply(reorder, order=_suffixed(order, s))
        schedule.apply(accumulate, at=f"kt{s}", buffer=operands.result)
        leading += _suffixed(f"{batch} mt nt", s).split()
    fuse_around(schedule, operands.result, choices)
    if nest.roles[operands.right] == "weight":
        schedule.pack(operands.right, _rows_of_columns(nest, operands.right))
    suffixes = [s for s, _, _ in pieces]
    copies: list[str] = []
    for s in suffixes:
        for buffer in (operands.right, operands.left):
            order = _columns_last(nest, buffer, s) if buffer == operands.right else ()
            name = f"{buffer}{s}_copy"
            if not schedule.attempt(stage, buffer=buffer, at=f"kt{s}", order=order, name=name):
                copies.append(name)
    _finish(
        schedule,
        machine,
        copies,
        leading,
        [f"{name}{s}" for s in suffixes for name in ("mi", "ni")],
        [f"nl{s}" for s, _, tile in pieces if tile[2] > 1],
        [f"{name}{s}" for s in suffixes for name in ("mp", "nv")],
    )


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
    (access,) = [a for a in accesses_in(nest.loop(f"kt{s}")) if a.memref is nest.buffers[right]]
    columns = {index_of(nest.loop(f"{name}{s}")) for name in ("nv", "ni", "nl")}
    inner = {*columns, index_of(nest.loop(f"kk{s}"))}
    forms = [set(form.terms) for form in subscripts(access) if form is not None]
    moving = [bool(terms & columns) for terms in forms if terms & inner]
    return (1, 0) if moving == [True, False] else ()


def _finish(
    schedule: Schedule,
    machine: Machine,
    copies: list[str],
    leading: list[str],
    over_items: list[str],
    lanes: list[str],
    written_out: list[str],
) -> None:
    """Vectors, items, groups; then the statements that are left (halos, separate epilogues)."""
    nest = schedule.nest
    for name in copies:
        _divide_copy(schedule, name)
    for name in lanes:
        schedule.apply(vectorize, loop=name)
    schedule.apply(unroll, loops=" ".join(written_out))
    schedule.apply(items, loops=" ".join(over_items))
    schedule.apply(parallel, loops=" ".join(leading))
    chains = [item_chain(loop) for name in over_items for loop in nest.loops(name)]
    schedule.apply(group, items=max(prod(map(extent_of, chain)) for chain in chains))
    finish_statements(schedule, machine)
    contract_scratch(schedule)
    taken = local_bytes(nest)
    if taken > LOCAL_BYTES:
        raise nest.error("stage", f"tiles of {taken} bytes; local memory has {LOCAL_BYTES}")


def _divide_copy(schedule: Schedule, name: str) -> None:
    """A copy into local memory: all items together, by vectors where both sides are contiguous."""
    nest = schedule.nest
    chain = perfect_chain(nest.loop(f"{name}_0"))
    kept = [name_of(loop) for loop in chain]
    last, extent = kept[-1], extent_of(chain[-1])
    if extent % LANES == 0 and (extent > LANES or len(chain) > 1):
        if extent > LANES:
            into = f"{last}_step {last}_lane"
            schedule.apply(split, loop=last, into=into, factors=(LANES,))
            kept[-1:] = [f"{last}_step", f"{last}_lane"]
        if not schedule.attempt(vectorize, loop=kept[-1]):
            kept.pop()
    schedule.apply(items, loops=" ".join(kept))


def _cut(
    schedule: Schedule, loop: str, others: str, suffix: str, sizes: Sequence[int], tail: str
) -> list[str]:
    """Cuts a nest into multiples of each size: what one leaves goes to the next, the last is 1.

    Returns the suffixes of the names of its parts.
    """
    parts: list[str] = []
    for size in sizes:
        extent = extent_of(schedule.nest.loop(loop + suffix))
        end = extent - extent % size
        if not end:
            continue
        parts.append(suffix)
        if end == extent:
            break
        schedule.apply(reorder, order=_suffixed(f"{loop} {others}", suffix))
        schedule.apply(cut, loop=loop + suffix, at=end, suffix=tail)
        suffix += tail
    return parts


def _small(number: int, limit: int) -> list[int]:
    return [d for d in divisors(max(number, 1)) if d <= limit]


def _best(number: int, limit: int) -> int:
    return max(_small(number, limit))


def _suffixed(names: str, suffix: str) -> str:
    return " ".join(name + suffix for name in names.split())
