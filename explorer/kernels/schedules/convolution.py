"""Schedules of convolutions with a blocked output: direct, in groups, first layer, depthwise.

    for n: for o: for i: for j: for c: for p: for q:  y[n,o,i,j] += x[n,c,i+p,j+q] * w[o,c,p,q]
    ->
    parallel n, ot, i:  for jt:
        acc[14][2] = bias                        registers: 14 pixels x 2 vectors of 16 channels
        for cb, p, q, ci:                        reduction; w is packed in just this order
            acc[jp][ov] += broadcast x * w[..]   unrolled over jp and ov
        y[..] = activation(acc + residual)

Widths that the tile doesn't divide leave a tail: a second nest with fewer pixels. Short rows are
taken two or more at a time (`rows`), and an odd last row is a second nest, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import affine

from explorer.ir.structure import walk_inside
from explorer.kernels.nest import (
    LoopNest,
    accesses_in,
    element_name,
    extent_of,
    is_store,
    name_of,
    perfect_chain,
    shape_of,
)
from explorer.kernels.schedules.choices import Choices, divisors
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.plain import finish_statements, pack_arguments
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import MOST_UPDATES, fuse_around, split_or_keep
from explorer.kernels.schedules.tiles import Tile, convolution_tile, explain_tile
from explorer.kernels.steps.mark import parallel, unroll
from explorer.kernels.steps.pack import Pack, block_of
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import cut, reorder, split
from explorer.kernels.steps.vectorize import vectorize


@dataclass(frozen=True)
class Operands:
    """Names of the buffers of the main statement."""

    source: str
    weight: str
    result: str


def operands_of(nest: LoopNest) -> Operands | None:
    """The operands of a main statement `y += x * w`; None if it is something else."""
    mains = nest.statements("main")
    if len(mains) != 1:
        return None
    accesses = accesses_in(mains[0])
    stores = [a for a in accesses if is_store(a)]
    if len(stores) != 1:
        return None
    result = nest.name_of_buffer(stores[0].memref)
    read = {nest.name_of_buffer(a.memref) for a in accesses} - {result}
    weights = [name for name in read if nest.roles[name] == "weight"]
    if len(read) != 2 or len(weights) != 1:
        return None
    (source,) = read - set(weights)
    return Operands(source, weights[0], result)


def is_blocked_convolution(nest: LoopNest, packs: Mapping[str, Pack], dimensions: str) -> bool:
    """Whether the main statement iterates over just `dimensions` into a blocked float32 output."""
    operands = operands_of(nest)
    if operands is None or not block_of(packs.get(operands.result)):
        return False
    (main,) = nest.statements("main")
    if {name_of(loop) for loop in perfect_chain(main)} != set(dimensions.split()):
        return False
    types = {element_name(a.memref) for a in accesses_in(main)}
    return types == {"f32"}


def schedule_convolution(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions n [g] o i j c p q; the input is blocked, or row-major with few channels."""
    nest = schedule.nest
    operands = operands_of(nest)
    assert operands is not None
    block = block_of(packs[operands.result])
    source_block = block_of(packs.get(operands.source))
    blocks = _blocks(nest, block)
    tile, channel_unroll = _choose_tile(nest, machine, choices, blocks, source_block)
    vectors, pixels, rows = tile.vectors, tile.pixels, tile.rows

    lanes = _split_channels(schedule, vectors, block)
    reduction = "c p q"
    if source_block:
        reduction = _split_source(schedule, source_block, channel_unroll)
    tails = _tile(schedule, reduction, lanes, pixels, rows)
    first = reduction.split()[0]
    for suffix in tails:
        schedule.apply(accumulate, at=first + suffix, buffer=operands.result)
    fuse_around(schedule, operands.result, choices)
    pack_arguments(schedule, packs)
    schedule.pack(operands.weight, _weight_pack(vectors, block, source_block))
    _vectorize_and_mark(schedule, tails, "ip jp j ov" + (" cu" if channel_unroll > 1 else ""))
    finish_statements(schedule, machine)


def _choose_tile(
    nest: LoopNest, machine: Machine, choices: Choices, blocks: int, source_block: int
) -> tuple[Tile, int]:
    """The register tile, and how many input channels are taken per step of the reduction.

    The program grows with the updates that a tile writes out: that is what limits it. A tile
    that needs more registers than there are is legal, and slow.
    """
    height, width = _extent(nest, "i"), _extent(nest, "j")
    best = convolution_tile(height, width, blocks, machine.registers)
    why = explain_tile(best, machine.registers)
    most = MOST_UPDATES
    legal = [d for d in divisors(blocks) if d <= most]
    vectors = choices.number("vectors", best.vectors, legal, why)
    most //= vectors
    fitting = min(best.pixels, most)
    pixels = choices.number("pixels", fitting, range(1, min(width, most) + 1), why)
    most //= pixels
    rows_legal = range(1, min(height, most) + 1) if pixels == width else range(1, 2)
    fitting = min(best.rows, most) if pixels == best.pixels else 1
    why_rows = why if pixels == width else "only whole rows are taken together"
    rows = choices.number("rows", fitting, rows_legal, why_rows)
    most //= rows
    unroll_by = 1
    if source_block:
        together = min(source_block, _extent(nest, "c"))
        legal = [d for d in divisors(together) if d <= most]
        unroll_by = choices.number("channel_unroll", 1, legal, "more only makes the body longer")
    return Tile(pixels, vectors, rows), unroll_by


def schedule_depthwise(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions n o i j p q; input and output are blocked alike."""
    nest = schedule.nest
    operands = operands_of(nest)
    assert operands is not None
    block = block_of(packs[operands.result])
    width = _extent(nest, "j")
    taps = _extent(nest, "p") * _extent(nest, "q")
    best = convolution_tile(1, width, 1, max(8, machine.registers // 2))
    why = explain_tile(best, machine.registers // 2)
    legal = range(1, min(width, MOST_UPDATES) + 1)
    pixels = choices.number("pixels", best.pixels, legal, why)
    lanes = _split_channels(schedule, 1, block)
    tails = _tile(schedule, "p q", lanes, pixels, 1)
    for suffix in tails:
        schedule.apply(accumulate, at="p" + suffix, buffer=operands.result)
    fuse_around(schedule, operands.result, choices)
    pack_arguments(schedule, packs)
    rank = len(shape_of(nest.buffer(operands.weight)))
    middle = [(d, 1, None) for d in range(1, rank)]
    schedule.pack(operands.weight, [(0, block, None), *middle, (0, 1, block)])
    _vectorize_and_mark(schedule, tails, "jp j")
    if taps * pixels <= MOST_UPDATES:
        schedule.apply(unroll, loops=" ".join(f"p{s} q{s}" for s in tails))
    finish_statements(schedule, machine)


def _extent(nest: LoopNest, name: str) -> int:
    return extent_of(nest.loop(name))


def _blocks(nest: LoopNest, block: int) -> int:
    channels = _extent(nest, "o")
    if channels % block:
        raise nest.error("split", f"{channels} output channels are no multiple of {block}")
    return channels // block


def _split_source(schedule: Schedule, block: int, channel_unroll: int) -> str:
    """Splits c by the input's blocks and by `channel_unroll`; returns the loops of the reduction.

    A single block that is not full is read as far as there are channels.
    """
    channels = _extent(schedule.nest, "c")
    together = min(block, channels)
    parts = [("cb", channels // together)] if channels > together else []
    if channel_unroll > 1:
        parts += [("co", together // channel_unroll), ("cu", channel_unroll)]
    else:
        parts.append(("ci", together))
    if len(parts) == 1:
        return "p q c"
    names = [name for name, _ in parts]
    factors = tuple(extent for _, extent in parts[1:])
    schedule.apply(split, loop="c", into=" ".join(names), factors=factors)
    outer = "cb " if channels > together else ""
    return f"{outer}p q " + " ".join(name for name in names if name != "cb")


def _split_channels(schedule: Schedule, vectors: int, block: int) -> str:
    """Splits o; returns the loops of one tile of channels."""
    if vectors == 1:
        schedule.apply(split, loop="o", into="ot oi", factors=(block,))
        return "oi"
    schedule.apply(split, loop="o", into="ot ov oi", factors=(vectors, block))
    return "ov oi"


def _tile(schedule: Schedule, reduction: str, lanes: str, pixels: int, rows: int) -> list[str]:
    """Cuts and splits i and j, and puts the tile inside the reduction.

    Returns the suffixes of the nests' loop names: [""] or ["", "_tail"].
    """
    nest = schedule.nest
    outer = "n g ot" if nest.has("g") else "n ot"
    height, width = _extent(nest, "i"), _extent(nest, "j")
    row_tail, pixel_tail = height % rows, width % pixels
    tail_reduction = " ".join(f"{name}_tail" for name in reduction.split())
    tail_lanes = " ".join(f"{name}_tail" for name in lanes.split())
    if row_tail or pixel_tail:
        schedule.apply(reorder, order=f"{outer} i j {reduction} {lanes}")
        if row_tail:
            schedule.apply(cut, loop="i", at=height - row_tail)
        else:
            schedule.apply(cut, loop="j", at=width - pixel_tail)
    row_loops, tile = ["i"], []
    if rows > 1:
        row_loops, tile = split_or_keep(schedule, "i", height - row_tail, rows, "it", "ip")
    pixel_loops, pixel_tile = split_or_keep(schedule, "j", width - pixel_tail, pixels, "jt", "jp")
    inside = f"{reduction} {' '.join([*tile, *pixel_tile])} {lanes}"
    if row_tail:
        schedule.apply(reorder, order=" ".join(row_loops) + f" {inside}")
        schedule.apply(reorder, order=f"i_tail {tail_reduction} j_tail {tail_lanes}")
    elif pixel_tail:
        schedule.apply(reorder, order=" ".join([*pixel_loops, inside]))
        schedule.apply(reorder, order=f"{tail_reduction} j_tail {tail_lanes}")
    else:
        schedule.apply(reorder, order=" ".join([outer, *row_loops, *pixel_loops, inside]))
    return ["", "_tail"] if row_tail or pixel_tail else [""]


def _weight_pack(vectors: int, block: int, source_block: int) -> Pack:
    """Weights in the order in which the tile reads them."""
    tile = [(0, vectors * block, None)]
    lanes = [(0, block, vectors), (0, 1, block)] if vectors > 1 else [(0, 1, block)]
    if not source_block:
        return [*tile, (1, 1, None), (2, 1, None), (3, 1, None), *lanes]
    return [
        *tile, (1, source_block, None), (2, 1, None), (3, 1, None), (1, 1, source_block), *lanes
    ]  # fmt: skip


def _vectorize_and_mark(schedule: Schedule, tails: list[str], unrolled: str) -> None:
    nest = schedule.nest
    for suffix in tails:
        schedule.apply(vectorize, loop="oi" + suffix)
    inside = [name + suffix for suffix in tails for name in unrolled.split()]
    marked = [name for name in inside if nest.has(name) and _is_in_tile(nest, name)]
    if marked:
        schedule.apply(unroll, loops=" ".join(marked))
    leading: list[str] = []
    main = nest.statements("main")[0]
    for loop in perfect_chain(main):
        if name_of(loop) in ("n", "g", "ot", "i", "it"):
            leading.append(name_of(loop))
    schedule.apply(parallel, loops=" ".join(leading))


def _is_in_tile(nest: LoopNest, name: str) -> bool:
    """A loop over the pixels of one tile, not one over tiles (which holds a reduction)."""
    inside = [op for op in walk_inside(nest.loop(name)) if isinstance(op, affine.ForOp)]
    return all(name_of(op).removesuffix("_tail") in ("ip", "jp", "j", "ov", "cu") for op in inside)
