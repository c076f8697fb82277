"""Schedule of transposed copies: a block of rows at a time, so that every cache line is used whole.

    for c, i, j:  y[c, i, j] = x[c, j, i]
    ->
    parallel c, j_block:  for i:  for j_row in 16:  y[c, i, 16 j_block + j_row] = x[.., i]

The textbook's loop reads one number of a line and comes back for the next one when the line has
left the cache. Sixteen lines stay there while `i` walks along them, and what is stored is a whole
line of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import affine
from xdsl.ir import SSAValue

from explorer.kernels.loops.nest import (
    Access,
    LinearForm,
    LoopNest,
    accesses_in,
    body_of,
    bounds_of,
    element_name,
    extent_of,
    index_of,
    is_store,
    kind_of,
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
from explorer.kernels.steps.transpose import transpose

ROWS = 16
"""Rows at a time: as many numbers as a cache line has."""
SIDES = (8, 4)
"""Of tiles that are turned in registers. Those of 16 are no faster where a core shuffles two
vectors of 8 at once but one of 16, and their code is three times as long."""


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


# -- tiles in registers ----------------------------------------------------------------------------
def transpose_tiles(schedule: Schedule, machine: Machine) -> None:
    """Copies that turn neighbours into rows get square tiles that are turned in registers.

    for c in 16:                     for j_tile in 2:
      for j in 44:                     transposed tile of 16 x 16
        y[c, j] = x[j, c]     ->     the last 12 of j likewise, in tiles of 8 and of 4

    A tile is as wide as a vector or narrower; fewer than 4 numbers that are left stay as they are.
    """
    if machine.processor == "gpu":
        return
    for top in schedule.nest.statements():
        chain = [name_of(loop) for loop in perfect_chain(top)]
        if any(len(schedule.nest.loops(name)) != 1 for name in chain):
            continue
        turned = _turned_copy(top)
        if turned is not None:
            _tile(schedule, machine.vector_floats, chain, *turned)


def _turned_copy(top: affine.ForOp) -> tuple[str, str] | None:
    """Loops along the neighbours of what is read and of what is written, if they differ."""
    chain = perfect_chain(top)
    body = body_of(chain[-1])
    if len(body) != 2 or any(bounds_of(loop) is None or kind_of(loop) for loop in chain):
        return None
    load, store = body
    if not isinstance(load, affine.LoadOp) or not isinstance(store, affine.StoreOp):
        return None
    if store.value is not load.result or load.memref is store.memref:
        return None
    if any(element_name(access.memref) != "f32" for access in (load, store)):
        return None
    if any(None in subscripts(access) for access in (load, store)):
        return None
    read = [loop for loop in chain if _is_row(load, index_of(loop))]
    written = [loop for loop in chain if _is_row(store, index_of(loop))]
    if len(read) != 1 or len(written) != 1 or read == written:
        return None
    if (
        index_of(written[0]) in _forms(load)[-1].terms
        or index_of(read[0]) in _forms(store)[-1].terms
    ):
        return None
    return name_of(read[0]), name_of(written[0])


def _is_row(access: Access, index: SSAValue) -> bool:
    """Whether neighbours lie along a loop, and nothing else does."""
    *outer, last = _forms(access) or [LinearForm()]
    return last.terms.get(index) == 1 and not any(index in form.terms for form in outer)


def _tile(schedule: Schedule, lanes: int, chain: Sequence[str], read: str, written: str) -> None:
    """Tiles of a copy, whose loops are `chain`; what is left at the edges gets smaller ones."""
    nest = schedule.nest
    fewest = min(extent_of(nest.loop(read)), extent_of(nest.loop(written)), lanes)
    side = next((side for side in SIDES if side <= fewest), 0)
    if not side:
        return
    for name, suffix in ((read, "_right"), (written, "_below")):
        left = extent_of(nest.loop(name)) % side
        if left:
            others = [other for other in chain if other != name]
            if schedule.attempt(reorder, order=" ".join([name, *others])):
                return
            schedule.apply(cut, loop=name, at=extent_of(nest.loop(name)) - left, suffix=suffix)
            rest = [f"{other}{suffix}" for other in chain]
            _tile(schedule, lanes, rest, f"{read}{suffix}", f"{written}{suffix}")
    tiles, sides = [], []
    for name in (written, read):
        if extent_of(nest.loop(name)) == side:
            sides.append(name)
            continue
        schedule.apply(split, loop=name, into=f"{name}_tile {name}_lane", factors=(side,))
        tiles.append(f"{name}_tile")
        sides.append(f"{name}_lane")
    # Loops of one iteration make no tasks: they stand behind the others.
    others = sorted(
        set(chain) - {read, written}, key=lambda n: (extent_of(nest.loop(n)) == 1, chain.index(n))
    )
    if schedule.attempt(reorder, order=" ".join([*others, *tiles, *sides])):
        return
    schedule.attempt(transpose, rows=sides[0], columns=sides[1])
