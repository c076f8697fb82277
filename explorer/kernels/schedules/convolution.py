"""Schedules of convolutions with a blocked output: direct, in groups, first layer, depthwise.

    for n: for o: for i: for j: for c: for p: for q:  y[n,o,i,j] += x[n,c,i+p,j+q] * w[o,c,p,q]
    ->
    parallel n, ot, i:  for jt:
        acc[14][2] = 0                           registers: 14 pixels x 2 vectors of 16 channels
        for cb, p, q, ci:                        reduction; w is packed in just this order
            acc[jp][ov] += broadcast x * w[..]   unrolled over jp and ov
        y[..] = activation(acc + bias + residual)

Widths that the tile doesn't divide leave a tail: a second nest with fewer pixels. Short rows are
taken two or more at a time (`rows`), and an odd last row is a second nest, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.kernels.cost.tiles import BLOCK_AHEAD, TILE_AHEAD, Tile
from explorer.kernels.loops.nest import (
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
from explorer.kernels.schedules.plane import (
    choose_depthwise_tile,
    choose_plane_distance,
    choose_plane_order,
    choose_plane_prefetch,
    choose_plane_tile,
    mark_plane,
    points_of,
    split_channels,
    tile_plane,
    vectorize_lanes,
    window_of,
)
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.schedules.tiled_steps import MAX_UPDATES, fuse_around, hold_vectors
from explorer.kernels.steps.mark import unroll
from explorer.kernels.steps.pack import Pack, block_of, blocked_pack
from explorer.kernels.steps.prefetch import prefetch
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import split

PACKED = "packed"
"""What a kernel packs itself before it multiplies with it."""


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
    weights = [name for name in read if nest.roles[name] == "weight" or name == PACKED]
    if len(read) != 2 or len(weights) != 1:
        return None
    (source,) = read - set(weights)
    return Operands(source, weights[0], result)


def result_block(nest: LoopNest, packs: Mapping[str, Pack]) -> int:
    """Channels per block of the output; 0 where it is no blocked tensor."""
    outputs = [name for name, role in nest.roles.items() if role == "output"]
    return block_of(packs.get(outputs[0])) if len(outputs) == 1 else 0


def with_sums(nest: LoopNest, packs: Mapping[str, Pack], result: str) -> dict[str, Pack]:
    """The layouts, and that of sums in a buffer of their own, which are blocked as the output is:
    they have one where what follows them has no vector form."""
    if nest.roles.get(result) != "scratch":
        return dict(packs)
    return {**packs, result: tuple(blocked_pack(result_block(nest, packs)))}


def is_blocked_convolution(nest: LoopNest, packs: Mapping[str, Pack], dimensions: str) -> bool:
    """Whether the main statement iterates over just `dimensions` into a blocked float32 output."""
    operands = operands_of(nest)
    if operands is None or not result_block(nest, packs):
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
    block = result_block(nest, packs)
    source_block = block_of(packs.get(operands.source))
    blocks = _blocks(nest, block)
    tile, channel_unroll = _choose_tile(nest, machine, choices, blocks, source_block)
    order = choose_plane_order(nest, machine, choices, tile, blocks)
    ahead: Sequence[str] = ()
    channels = _extent(nest, "c")
    if 0 < source_block < channels:  # there is a next block
        ahead = choose_plane_prefetch(nest, machine, choices, tile, blocks, order)
    distance = BLOCK_AHEAD
    if "inputs" in ahead:
        distance = choose_plane_distance(nest, machine, choices, tile, blocks)
    vectors = tile.vectors

    lanes = split_channels(schedule, vectors, block)
    reduction = "c p q"
    if source_block:
        reduction = _split_source(schedule, source_block, channel_unroll)
    width = _extent(nest, "j")
    tails = tile_plane(schedule, reduction, lanes, tile, order)
    first = reduction.split()[0]
    for suffix in tails:
        schedule.apply(accumulate, at=first + suffix, buffer=operands.result)
    for suffix, points in zip(tails, points_of(tile, width), strict=False):
        at = reduction.split()[-1] + suffix
        hold_vectors(schedule, machine, at, operands.weight, points, vectors)
    fuse_around(schedule, operands.result, choices, machine)
    pack_arguments(schedule, with_sums(nest, packs, operands.result))
    schedule.pack(operands.weight, _weight_pack(vectors, block, source_block))
    vectorize_lanes(schedule, tails)
    mark_plane(schedule, tails, "ip i jp j ov" + (" cu" if channel_unroll > 1 else ""))
    if "inputs" in ahead:
        for suffix in tails:
            at = f"cb{suffix}"
            further = "jt" if distance == TILE_AHEAD and not suffix else at
            schedule.attempt(prefetch, at=at, buffer=operands.source, ahead=further)
    if "weights" in ahead:
        schedule.attempt(prefetch, at="cb", buffer=operands.weight, ahead="ot")
    finish_statements(schedule, machine)


def _choose_tile(
    nest: LoopNest, machine: Machine, choices: Choices, blocks: int, source_block: int
) -> tuple[Tile, int]:
    """The register tile, and how many input channels are taken per step of the reduction."""
    tile = choose_plane_tile(nest, machine, choices, blocks, can_hold=machine.can_hold)
    most = MAX_UPDATES // (tile.vectors * tile.pixels * tile.rows)
    unroll_by = 1
    if source_block:
        together = min(source_block, _extent(nest, "c"))
        legal = [d for d in divisors(together) if d <= most]
        unroll_by = choices.number("channel_unroll", 1, legal, "more only makes the body longer")
    return tile, unroll_by


def schedule_depthwise(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Dimensions n o i j p q; input and output are blocked alike."""
    nest = schedule.nest
    operands = operands_of(nest)
    assert operands is not None
    block = result_block(nest, packs)
    window = window_of(nest, MAX_UPDATES)
    tile = choose_depthwise_tile(nest, machine, choices, window)
    lanes = split_channels(schedule, 1, block)
    tails = tile_plane(schedule, "p q", lanes, tile)
    for suffix in tails:
        schedule.apply(accumulate, at="p" + suffix, buffer=operands.result)
    fuse_around(schedule, operands.result, choices)
    pack_arguments(schedule, with_sums(nest, packs, operands.result))
    rank = len(shape_of(nest.buffer(operands.weight)))
    middle = [(d, 1, None) for d in range(1, rank)]
    schedule.pack(operands.weight, [(0, block, None), *middle, (0, 1, block)])
    vectorize_lanes(schedule, tails)
    mark_plane(schedule, tails, "ip i jp j")
    if window.is_written_out(tile.points, machine.costs):
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


def _weight_pack(vectors: int, block: int, source_block: int) -> Pack:
    """Weights in the order in which the tile reads them."""
    tile = [(0, vectors * block, None)]
    lanes = [(0, block, vectors), (0, 1, block)] if vectors > 1 else [(0, 1, block)]
    if not source_block:
        return [*tile, (1, 1, None), (2, 1, None), (3, 1, None), *lanes]
    return [
        *tile, (1, source_block, None), (2, 1, None), (3, 1, None), (1, 1, source_block), *lanes
    ]  # fmt: skip
