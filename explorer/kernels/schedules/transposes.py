"""Schedule of transposed copies: a block of rows at a time, so that every cache line is used whole.

    for c, i, j:  y[c, i, j] = x[c, j, i]
    ->
    parallel c, j_block:  for i:  for j_row in 16:  y[c, i, 16 j_block + j_row] = x[.., i]

The textbook's loop reads one number of a line and comes back for the next one when the line has
left the cache. Sixteen lines stay there while `i` walks along them, and what is stored is a whole
line of the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from explorer.kernels.nest import (
    Access,
    LoopNest,
    accesses_in,
    bounds_of,
    extent_of,
    index_of,
    is_store,
    name_of,
    perfect_chain,
    subscripts,
)
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.steps.mark import parallel
from explorer.kernels.steps.pack import Pack, is_identity
from explorer.kernels.steps.restructure import cut, reorder, split

ROWS = 16
"""Rows at a time: as many numbers as a cache line has."""


@dataclass(frozen=True)
class Transposition:
    """Loops of a copy by what they walk along."""

    others: tuple[str, ...]
    read: str
    """Neighbouring elements of what is read."""
    written: str
    """Neighbouring elements of the result."""


def find_transposition(nest: LoopNest, packs: Mapping[str, Pack]) -> Transposition | None:
    """The loops of a kernel of one statement whose result turns rows into columns; else None."""
    tops = nest.statements()
    if len(tops) != 1 or any(not is_identity(layout) for layout in packs.values()):
        return None
    chain = perfect_chain(tops[0])
    accesses = accesses_in(tops[0])
    stores = [access for access in accesses if is_store(access)]
    if len(stores) != 1 or any(bounds_of(loop) is None for loop in chain):
        return None
    if any(None in subscripts(access) for access in accesses):
        return None
    loads = [access for access in accesses if access.memref is not stores[0].memref]
    if len(loads) + 1 != len(accesses):
        return None
    written = [loop for loop in chain if _walks(stores[0], index_of(loop))]
    read = [
        loop
        for load in loads
        for loop in chain
        if _walks(load, index_of(loop)) and not any(_walks(load, index_of(w)) for w in written)
    ]
    if len(written) != 1 or not read or extent_of(written[0]) <= ROWS:
        return None
    across = index_of(written[0])
    if not any(across in form.terms for load in loads for form in _forms(load)):
        return None
    others = [loop for loop in chain if loop is not written[0] and loop is not read[0]]
    return Transposition(
        tuple(name_of(loop) for loop in others), name_of(read[0]), name_of(written[0])
    )


def schedule_transposition(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Blocks of rows; see `find_transposition`."""
    nest = schedule.nest
    found = find_transposition(nest, packs)
    assert found is not None
    extent = extent_of(nest.loop(found.written))
    why = "a line of the result, from as many lines that stay in the cache"
    rows = choices.number("rows", ROWS, range(2, extent), why)
    written, others = found.written, list(found.others)
    schedule.apply(reorder, order=" ".join([written, *others, found.read]))
    left = extent % rows
    if left:
        schedule.apply(cut, loop=written, at=extent - left, suffix="_last")
        order = [*others, found.read, written]
        schedule.apply(reorder, order=" ".join(f"{name}_last" for name in order))
    block, row = f"{written}_block", f"{written}_row"
    schedule.apply(split, loop=written, into=f"{block} {row}", factors=(rows,))
    schedule.apply(reorder, order=" ".join([*others, block, found.read, row]))
    schedule.apply(parallel, loops=" ".join([*others, block]))
    if left and others:
        schedule.apply(parallel, loops=" ".join(f"{name}_last" for name in others))


def _forms(access: Access) -> list:
    return [form for form in subscripts(access) if form is not None]


def _walks(access: Access, index: SSAValue) -> bool:
    """Whether a loop goes from one element of a buffer to its neighbour."""
    forms = _forms(access)
    return bool(forms) and forms[-1].terms.get(index) == 1
