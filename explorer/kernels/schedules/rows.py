"""Schedule of reductions in row-major layout: vectors along a contiguous dimension of the result.

    for n, g, o, i, j: for c, p, q:  y[n, 4g+o, i, j] += x[n, 4g+c, i+p, j+q] * w[4g+o, c, p, q]
    ->
    parallel n, g, o_tile, i:  for j_step:
        acc[4] = 0                               registers: 4 channels x 16 pixels of a row
        for c, p, q:  acc[o] += x[.. j: 16] * broadcast w
        y[.. j: 16] = acc

Used for grouped convolutions and others that keep NCHW. A loop that one operand doesn't need (o)
is tiled, so that what the other one loads is used several times.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import affine

from explorer.kernels.loops.lowering import innermost_operations
from explorer.kernels.loops.nest import (
    Access,
    LoopNest,
    accesses_in,
    bounds_of,
    element_name,
    extent_of,
    index_of,
    is_store,
    name_of,
    perfect_chain,
    subscripts,
)
from explorer.kernels.schedules.choices import divisors
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.partition import NARROWEST_VECTOR, Piece, column_pieces
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.steps.dependences import determined_indices, reduction_operation
from explorer.kernels.steps.fuse import fuse_consumer, fuse_producer
from explorer.kernels.steps.mark import unroll
from explorer.kernels.steps.registers import accumulate
from explorer.kernels.steps.restructure import cut, reorder, split
from explorer.kernels.steps.vectorize import can_vectorize, vectorize

LARGEST_TILE = 8
"""Sums in registers; enough to hide the latency of additions."""


@dataclass(frozen=True)
class RowReduction:
    """The loops of a main statement by their part in the schedule."""

    buffer: str
    outer: tuple[str, ...]
    tiled: str
    """A loop of `outer` that is split for the register tile; empty if there is none."""
    lane: str
    reduced: tuple[str, ...]


def find_row_reduction(nest: LoopNest) -> RowReduction | None:
    """The parts of a float32 reduction with a contiguous dimension in its result, or None."""
    mains = nest.statements("main")
    if len(mains) != 1:
        return None
    chain = perfect_chain(mains[0])
    accesses = accesses_in(mains[0])
    stores = [a for a in accesses if is_store(a)]
    if len(stores) != 1 or any(bounds_of(loop) is None for loop in chain):
        return None
    operations = [op for op in chain[-1].body.block.ops if not isinstance(op, affine.YieldOp)]
    if not all(can_vectorize(op) for op in operations):
        return None
    result = stores[0].memref
    updated = [a for a in accesses if a.memref is result]
    if {element_name(a.memref) for a in accesses} != {"f32"}:
        return None
    if reduction_operation(updated) is None:
        return None
    determined = determined_indices(subscripts(stores[0]))
    reduced = [loop for loop in chain if index_of(loop) not in determined]
    kept = [loop for loop in chain if loop not in reduced]
    lanes = [
        loop
        for loop in kept
        if extent_of(loop) >= NARROWEST_VECTOR and is_contiguous(loop, accesses)
    ]
    if not reduced or not lanes or any(name_of(loop).endswith("_lane") for loop in chain):
        return None
    lane = lanes[-1]
    outer = [loop for loop in kept if loop is not lane]
    loads = [a for a in accesses if a not in updated]
    tiled = [
        loop
        for loop in outer
        if tile_extent(extent_of(loop)) > 1
        and any(index_of(loop) not in _indices(load) for load in loads)
    ]
    return RowReduction(
        buffer=nest.name_of_buffer(result),
        outer=tuple(name_of(loop) for loop in outer),
        tiled=name_of(tiled[-1]) if tiled else "",
        lane=name_of(lane),
        reduced=tuple(name_of(loop) for loop in reduced),
    )


def schedule_rows(schedule: Schedule, machine: Machine, reduction: RowReduction) -> None:
    """Tiles, cuts and vectorizes a main statement found by `find_row_reduction`."""
    nest = schedule.nest
    outer, tile = list(reduction.outer), ""
    if reduction.tiled:
        extent = extent_of(nest.loop(reduction.tiled))
        tile = f"{reduction.tiled}_in"
        names = f"{reduction.tiled}_tile {tile}"
        factor = tile_extent(extent)
        if factor == extent:
            tile = reduction.tiled
            outer.remove(tile)
        else:
            schedule.apply(split, loop=reduction.tiled, into=names, factors=(factor,))
            outer[outer.index(reduction.tiled)] = f"{reduction.tiled}_tile"
    inside = [*reduction.reduced, tile] if tile else list(reduction.reduced)
    schedule.apply(reorder, order=" ".join([*outer, reduction.lane, *inside]))
    columns = extent_of(nest.loop(reduction.lane))
    pieces = column_pieces(columns, 1, machine.vector_floats)
    for piece in pieces[:0:-1]:
        columns -= piece.extent
        schedule.apply(cut, loop=reduction.lane, at=columns, suffix=piece.suffix)
    # Register arrays stand inside of a loop: without an outer one, every piece gets its own.
    stepped = [p for p in pieces if p.width > 1 and (p.extent > p.width or not outer)]
    for piece in pieces:
        _tile_piece(schedule, reduction, piece, inside, piece in stepped)
    if nest.statements("init"):
        schedule.attempt(fuse_producer, statement="init", buffer=reduction.buffer)
    epilogues = nest.statements("epilogue")
    if epilogues and all(can_vectorize(op) for op in innermost_operations(epilogues[0])):
        schedule.attempt(fuse_consumer, statement="epilogue", buffer=reduction.buffer)
    for piece in pieces:
        if piece.width > 1:
            lane = reduction.lane + piece.suffix
            schedule.attempt(vectorize, loop=f"{lane}_vector" if piece in stepped else lane)
    if tile:
        schedule.apply(unroll, loops=" ".join(tile + piece.suffix for piece in pieces))


def tile_extent(extent: int) -> int:
    """Iterations of a loop that are kept in registers at once."""
    return max(d for d in divisors(extent) if d <= LARGEST_TILE)


def is_contiguous(loop: affine.ForOp, accesses: list[Access]) -> bool:
    """Every access follows the loop in its last subscript only, or not at all; stores follow."""
    index = index_of(loop)
    for access in accesses:
        forms = subscripts(access)
        if any(form is None for form in forms):
            return False
        coefficients = [form.terms.get(index, 0) for form in forms if form is not None]
        if any(coefficients[:-1]) or (coefficients and coefficients[-1] not in (0, 1)):
            return False
        if is_store(access) and (not coefficients or coefficients[-1] != 1):
            return False
    return True


def _tile_piece(
    schedule: Schedule, reduction: RowReduction, piece: Piece, inside: list[str], is_stepped: bool
) -> None:
    lane, suffix = reduction.lane + piece.suffix, piece.suffix
    within = [name + suffix for name in inside]
    if piece.width > 1:
        if is_stepped:
            names = f"{lane}_step {lane}_vector"
            schedule.apply(split, loop=lane, into=names, factors=(piece.width,))
            lane = f"{lane}_vector"
        schedule.apply(reorder, order=" ".join([*within, lane]))
    schedule.apply(accumulate, at=reduction.reduced[0] + suffix, buffer=reduction.buffer)


def _indices(access: Access) -> set:
    return {index for form in subscripts(access) if form is not None for index in form.terms}
