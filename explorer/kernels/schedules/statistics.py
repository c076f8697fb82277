"""Schedule of kernels that work row by row: softmax, layer norm, RMS norm.

    for i: m[i] = -inf                              parallel i:
    for i: for j: m[i] = max(m[i], x[i, j])           m = max over whole vectors of x
    for i: t[i] = 0                                   t = 0
    for i: for j: y[i, j] = exp(x[i, j] - m[i])  ->   for j: y = exp(x - m);  t += y
    for i: for j: t[i] = t[i] + y[i, j]
    for i: r[i] = 1 / t[i]                            r = 1 / t
    for i: for j: y[i, j] = y[i, j] * r[i]            for j: y = y * r

All statements share the loops over rows, so that a row is read from memory once and stays in the
first-level cache; statements over the same columns share their loop where that is legal. Sums and
maxima have one partial result per lane. Columns that whole vectors leave over are done in vectors
of 8 and 4, and only the last ones one by one. Rows are the tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import affine

from explorer.kernels.loops.lowering import innermost_operations
from explorer.kernels.loops.nest import (
    LoopNest,
    accesses_in,
    body_of,
    bounds_of,
    element_name,
    extent_of,
    index_of,
    is_store,
    name_of,
    perfect_chain,
    subscripts,
)
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.partition import NARROWEST_VECTOR, Piece, column_pieces
from explorer.kernels.schedules.rows import is_contiguous
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.steps.dependences import by_buffer, reduction_operation
from explorer.kernels.steps.mark import parallel
from explorer.kernels.steps.pack import Pack, is_identity
from explorer.kernels.steps.registers import rfactor
from explorer.kernels.steps.restructure import cut, merge, split
from explorer.kernels.steps.vectorize import can_vectorize, vectorize

MIN_PARALLEL_ELEMENTS = 4096
"""Elements from which on rows are tasks; fewer are done before another thread has woken up."""


@dataclass(frozen=True)
class RowStatistics:
    """The loops of a kernel whose statements all run over the same rows."""

    rows: tuple[tuple[str, ...], ...]
    """By level, the outermost first: the names of all statements' loops over rows."""
    columns: int


def find_row_statistics(nest: LoopNest, packs: Mapping[str, Pack]) -> RowStatistics | None:
    """The loops over rows, if every statement is of f32 and has those and at most one more.

    At least one statement must reduce the columns, which have to be contiguous.
    """
    if any(not is_identity(layout) for layout in packs.values()):
        return None
    chains = [perfect_chain(top) for top in nest.statements()]
    depth = min((len(chain) for chain in chains), default=0)
    if not chains or max(map(len, chains)) != depth + 1:
        return None
    if any(bounds_of(loop) is None for chain in chains for loop in chain):
        return None
    extents = {tuple(extent_of(loop) for loop in chain[:depth]) for chain in chains}
    inner = [chain[depth] for chain in chains if len(chain) > depth]
    columns = {extent_of(loop) for loop in inner}
    if len(extents) != 1 or len(columns) != 1 or columns == {1}:
        return None
    if not any(_reduced_buffers(loop) for loop in inner):
        return None
    for chain in chains:
        accesses = accesses_in(chain[0])
        operations = innermost_operations(chain[0])
        if any(element_name(a.memref) != "f32" or None in subscripts(a) for a in accesses):
            return None
        if len(chain) == depth:
            continue
        kept = [a for a in accesses if index_of(chain[depth]) in _indices(a)]
        if not is_contiguous(chain[depth], kept) or not all(map(can_vectorize, operations)):
            return None
    rows = tuple(tuple(name_of(chain[level]) for chain in chains) for level in range(depth))
    return RowStatistics(rows, columns.pop())


def schedule_statistics(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Rows merged and parallel, columns in vectors; see `find_row_statistics`."""
    nest = schedule.nest
    found = find_row_statistics(nest, packs)
    assert found is not None
    for names in found.rows:
        if len(names) > 1:
            schedule.apply(merge, loops=" ".join(names))
    row = nest.loop(found.rows[-1][0])
    loops = [name_of(op) for op in body_of(row) if isinstance(op, affine.ForOp)]
    pieces = column_pieces(found.columns, 1, machine.vector_floats)
    for name in merge_columns(schedule, loops):
        vectorize_columns(schedule, name, pieces)
    rows = prod(extent_of(nest.loop(names[0])) for names in found.rows)
    if rows * found.columns >= MIN_PARALLEL_ELEMENTS:
        schedule.apply(parallel, loops=" ".join(names[0] for names in found.rows))


def merge_columns(schedule: Schedule, loops: Sequence[str]) -> list[str]:
    """Neighbouring loops over columns become one where no iteration needs another's result.

    Returns the names of those that are left.
    """
    kept = [loops[0]]
    for name in loops[1:]:
        is_next = schedule.nest.loop(kept[-1]).next_op is schedule.nest.loop(name)
        if not is_next or schedule.attempt(merge, loops=f"{kept[-1]} {name}"):
            kept.append(name)
    return kept


def vectorize_columns(schedule: Schedule, name: str, pieces: Sequence[Piece]) -> None:
    """One loop over columns in whole vectors, its last columns in narrower ones."""
    nest = schedule.nest
    end = sum(piece.extent for piece in pieces)
    for piece in pieces[:0:-1]:
        end -= piece.extent
        schedule.apply(cut, loop=name, at=end, suffix=piece.suffix)
    for piece in pieces:
        if piece.width < NARROWEST_VECTOR:
            continue
        loop = name + piece.suffix
        if piece.extent == piece.width:
            schedule.apply(vectorize, loop=loop)
            continue
        into = f"{loop}_step {loop}_vector"
        schedule.apply(split, loop=loop, into=into, factors=(piece.width,))
        step, lane = into.split()
        sums = _reduced_buffers(nest.loop(lane))
        for buffer in sums:
            schedule.apply(rfactor, outer=step, inner=lane, buffer=nest.name_of_buffer(buffer))
        schedule.apply(vectorize, loop=lane)
        if sums:
            schedule.apply(vectorize, loop=f"{lane}_sum")


def _reduced_buffers(loop: affine.ForOp) -> list:
    """Buffers that a loop only updates, by an associative operation, at one element."""
    groups = by_buffer(accesses_in(loop)).items()
    return [
        buffer
        for buffer, group in groups
        if reduction_operation(group) is not None
        and not any(index_of(loop) in _indices(a) for a in group if is_store(a))
    ]


def _indices(access) -> set:
    return {index for form in subscripts(access) if form is not None for index in form.terms}
