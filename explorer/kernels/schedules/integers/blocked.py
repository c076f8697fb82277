"""Schedules of integer convolutions with a blocked output: sums of bytes in dot products.

    for n: for o: for i: for j: for c: for p: for q:  sums[n,o,i,j] += x * w      x: ui8, w: i8
    ->
    parallel n, ot, i:  for jt:
        acc[14][2] = bias                            14 pixels x 2 vectors of 16 sums (i32)
        for cb, p, q, cg:                            the reduction, in groups of 4 channels
            acc[jp][ov] = dot(acc, 4 bytes of x, 64 of w)
        y[..] = requantized(acc)                     bytes again, 16 at a time

Four channels of a pixel lie side by side in blocked tensors: they are multiplied at once with the
filters of 16 output channels, which are packed for that. Without dot products (OpenCL) a channel
at a time is widened and multiplied. Depthwise filters have nothing to sum up over channels: every
vector of channels is widened and filtered by itself.

Where the core has tiles of bytes (AMX), a convolution that fills them is a matrix of pixels times
one of filters (`instruction`): taps are around blocks of channels then, and filters of a vector lie
one behind the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from explorer.kernels.cost.tiles import Tile
from explorer.kernels.loops.nest import (
    LoopNest,
    accesses_in,
    element_name,
    extent_of,
    name_of,
    perfect_chain,
    shape_of,
)
from explorer.kernels.printing.languages import language_named
from explorer.kernels.schedules.choices import Choices, divisors
from explorer.kernels.schedules.convolution import (
    Operands,
    operands_of,
    result_block,
    with_sums,
)
from explorer.kernels.schedules.integers.kinds import keep_offsets
from explorer.kernels.schedules.integers.matrix_instructions import (
    plane_tile_of,
    why_plane_tiles,
)
from explorer.kernels.schedules.integers.split_signs import for_split_signs
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.plain import finish_statements, pack_arguments
from explorer.kernels.schedules.plane import (
    choose_depthwise_tile,
    choose_plane_tile,
    mark_plane,
    split_channels,
    tile_plane,
    vectorize_lanes,
    window_of,
)
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import MAX_UPDATES, fuse_around
from explorer.kernels.steps.dot import PRODUCTS, SPLITS_SIGNS, dot
from explorer.kernels.steps.matrix_tiles import MATRIX, matrix_tiles
from explorer.kernels.steps.pack import Pack, block_of
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import split

BYTES = ("ui8", "i8")
SUMS = "i32"
DENSE = "n o i j c p q"
DEPTHWISE = "n o i j p q"


def is_blocked_integer_convolution(
    nest: LoopNest, packs: Mapping[str, Pack], dimensions: str
) -> bool:
    """Products of bytes that are summed up over just `dimensions` into a blocked result."""
    operands = operands_of(nest)
    if operands is None or not result_block(nest, packs):
        return False
    (main,) = nest.statements("main")
    if {name_of(loop) for loop in perfect_chain(main)} != set(dimensions.split()):
        return False
    kinds = {nest.name_of_buffer(a.memref): element_name(a.memref) for a in accesses_in(main)}
    is_bytes = kinds[operands.source] in BYTES and kinds[operands.weight] == "i8"
    source_block = block_of(packs.get(operands.source))
    block = result_block(nest, packs)
    is_fed = source_block == block if dimensions == DEPTHWISE else source_block >= PRODUCTS
    return is_bytes and kinds[operands.result] == SUMS and is_fed


def schedule_integer_convolution(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions n o i j c p q; input and output are blocked, perhaps by different numbers."""
    nest = schedule.nest
    operands = operands_of(nest)
    assert operands is not None
    block, source_block = result_block(nest, packs), block_of(packs[operands.source])
    uses_dot = language_named(machine.language).has_dots
    blocks = extent_of(nest.loop("o")) // block
    narrow = for_split_signs if SPLITS_SIGNS in nest.function.attributes else None
    products = PRODUCTS if uses_dot else 1
    # A piece of a row has more than one group of products, or a matrix instruction is mostly idle.
    fills_pieces = uses_dot and not narrow and source_block > PRODUCTS
    plane = plane_tile_of(extent_of(nest.loop("j")), blocks) if fills_pieces else None
    if plane is not None:
        depth = prod(extent_of(nest.loop(name)) for name in "cpq")
        why = why_plane_tiles(machine, plane, depth)
        wanted = MATRIX if why else "dot"
        reason = why or "no matrix instruction fits"
        if choices.word("instruction", wanted, ("dot", MATRIX), reason) == MATRIX:
            _schedule_matrix(schedule, machine, packs, choices, plane, why)
            return
    tile = choose_plane_tile(nest, machine, choices, blocks, products, narrow=narrow)
    lanes = split_channels(schedule, tile.vectors, block)
    if uses_dot:
        groups = source_block // PRODUCTS
        into, factors = ("cb cg cu", (groups, PRODUCTS)) if groups > 1 else ("cb cu", (PRODUCTS,))
        schedule.apply(split, loop="c", into=into, factors=factors)
        reduction, lanes = "cb p q cg" if groups > 1 else "cb p q", f"{lanes} cu"
    else:
        schedule.apply(split, loop="c", into="cb ci", factors=(source_block,))
        reduction = "cb p q ci"
    tails = tile_plane(schedule, reduction, lanes, tile)
    weights = _dot_filters if uses_dot else _single_filters
    layout = weights(tile.vectors, block, source_block)
    _finish(schedule, machine, packs, choices, operands, "cb", tails, layout, uses_dot)


def _schedule_matrix(
    schedule: Schedule,
    machine: Machine,
    packs: Mapping[str, Pack],
    choices: Choices,
    best: Tile,
    why: str,
) -> None:
    """Matrix instructions multiply the pixels of a row with filters.

    Taps are around blocks of channels, so that a row's bytes lie in pieces that follow each other
    as filters do.
    """
    nest = schedule.nest
    operands = operands_of(nest)
    assert operands is not None
    block, source_block = result_block(nest, packs), block_of(packs[operands.source])
    width, blocks = extent_of(nest.loop("j")), extent_of(nest.loop("o")) // block
    why = why or "as many pixels as a tile of AMX has rows"
    pixels = choices.number("pixels", best.pixels, range(2, min(width, MAX_UPDATES) + 1), why)
    most = MAX_UPDATES // pixels
    legal = [d for d in divisors(blocks) if 1 < d <= max(most, best.vectors)]
    vectors = choices.number("vectors", best.vectors, legal, why)
    lanes = split_channels(schedule, vectors, block)
    schedule.apply(split, loop="c", into="cb cg cu", factors=(source_block // PRODUCTS, PRODUCTS))
    tails = tile_plane(schedule, "p q cb cg", f"{lanes} cu", Tile(pixels, vectors))
    layout = _matrix_filters(vectors, block, source_block)
    _finish(schedule, machine, packs, choices, operands, "p", tails, layout, True, by=MATRIX)


def schedule_integer_depthwise(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions n o i j p q; input and output are blocked alike."""
    nest = schedule.nest
    operands = operands_of(nest)
    assert operands is not None
    block = result_block(nest, packs)
    taps = extent_of(nest.loop("p")) * extent_of(nest.loop("q"))
    most = max(1, MAX_UPDATES // taps)  # taps are always written out
    window = window_of(nest, MAX_UPDATES, needs_registers=False)
    tile = choose_depthwise_tile(nest, machine, choices, window, most)
    lanes = split_channels(schedule, 1, block)
    tails = tile_plane(schedule, "p q", lanes, tile)
    rank = len(shape_of(nest.buffer(operands.weight)))
    middle = [(d, 1, None) for d in range(1, rank)]
    layout: Pack = [(0, block, None), *middle, (0, 1, block)]
    _finish(schedule, machine, packs, choices, operands, "p", tails, layout, False)


def _finish(
    schedule: Schedule,
    machine: Machine,
    packs: Mapping[str, Pack],
    choices: Choices,
    operands: Operands,
    first: str,
    tails: list[str],
    filters: Pack,
    uses_dot: bool,
    by: str = "dot",
) -> None:
    """Sums in registers, what surrounds them fused, buffers packed, lanes in vectors."""
    nest = schedule.nest
    keep_offsets(schedule)
    for suffix in tails:
        schedule.apply(accumulate, at=first + suffix, buffer=operands.result)
    fuse_around(schedule, operands.result, choices)
    pack_arguments(schedule, with_sums(nest, packs, operands.result))
    schedule.pack(operands.weight, filters)
    for suffix in tails if uses_dot else ():
        schedule.apply(dot, lanes="oi" + suffix, products="cu" + suffix)
    vectorize_lanes(schedule, tails)
    if by == MATRIX:
        for suffix in tails:
            schedule.apply(matrix_tiles, loop="p" + suffix)
        mark_plane(schedule, tails, "ov")
    else:
        mark_plane(schedule, tails, "ip i jp j ov", ("p", "q") if first == "p" else ())
    finish_statements(schedule, machine)


def _dot_filters(vectors: int, block: int, source_block: int) -> Pack:
    """Filters in the order in which the tile reads them, 4 of each lane side by side."""
    groups = source_block // PRODUCTS
    lanes = [(0, block, vectors), (0, 1, block)] if vectors > 1 else [(0, 1, block)]
    inside = [(1, PRODUCTS, groups)] if groups > 1 else []
    return [
        (0, vectors * block, None), (1, source_block, None), (2, 1, None), (3, 1, None),
        *inside, *lanes, (1, 1, PRODUCTS),
    ]  # fmt: skip


def _matrix_filters(vectors: int, block: int, source_block: int) -> Pack:
    """Filters of one vector one behind the other, tap by tap, 4 of each lane side by side."""
    return [
        (0, vectors * block, None), (0, block, vectors), (2, 1, None), (3, 1, None),
        (1, source_block, None), (1, PRODUCTS, source_block // PRODUCTS),
        (0, 1, block), (1, 1, PRODUCTS),
    ]  # fmt: skip


def _single_filters(vectors: int, block: int, source_block: int) -> Pack:
    """The same for one channel at a time."""
    lanes = [(0, block, vectors), (0, 1, block)] if vectors > 1 else [(0, 1, block)]
    return [
        (0, vectors * block, None), (1, source_block, None), (2, 1, None), (3, 1, None),
        (1, 1, source_block), *lanes,
    ]  # fmt: skip
