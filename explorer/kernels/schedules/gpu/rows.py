"""Schedule of softmax, normalizations and reductions of rows for GPUs: a work-group per row.

    for m: t[m] = -inf                      parallel m:
    for m: for d: t[m] = max(t[m], x[m,d])      {item d_lane}: part[d_lane] = -inf
    for m: for d: y[m,d] = exp(x - t[m])   ->   {item d_lane}: for d_step: part = max(part, x[..])
                                                {item}: part[i] = max(part[i], part[i + 64]) ..
                                                {item d}: y[m, d] = exp(x[m, d] - t[m])

Neighbouring items read neighbouring elements. What a statement computes once per row is done by
one item; the partial results lie in local memory and are combined by a tree. What is left of a row
behind whole groups is added by one item.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import affine

from explorer.kernels.loops.nest import (
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
from explorer.kernels.schedules.choices import Choices
from explorer.kernels.schedules.machine import Machine
from explorer.kernels.schedules.schedule import Schedule
from explorer.kernels.steps.dependences import reduction_operation
from explorer.kernels.steps.groups import group, items, single, tree
from explorer.kernels.steps.mark import parallel
from explorer.kernels.steps.pack import Pack
from explorer.kernels.steps.registers import rfactor
from explorer.kernels.steps.restructure import cut, merge, reorder, split
from explorer.kernels.steps.vectorize import COMBINING_KINDS

MIN_LANES = 64
"""Elements of a row that make a work-group worth it."""

GROUPS = (32, 64, 128, 256)
WHY_ITEMS = "work-items per row: every one takes several elements, a tree combines their results"


@dataclass(frozen=True)
class RowStatements:
    """The statements of a kernel whose outer loops run over the same rows."""

    rows: tuple[tuple[str, ...], ...]
    """Of each statement the loops over rows, the outermost first."""
    lanes: tuple[str, ...]
    """Of each statement the loop along its row; empty where it computes one value per row."""
    reduces: tuple[str, ...]
    """Of each statement the buffer that it reduces its row into; empty for others."""


def find_rows(nest: LoopNest) -> RowStatements | None:
    """The statements by rows, if at least one of them reduces long rows of floats; else None."""
    chains = [perfect_chain(top) for top in nest.statements()]
    if not chains or any(bounds_of(loop) is None for chain in chains for loop in chain):
        return None
    depth = min(map(len, chains))
    extents = [[extent_of(loop) for loop in chain[:depth]] for chain in chains]
    if any(found != extents[0] for found in extents):
        return None
    lanes: list[str] = []
    reduces: list[str] = []
    for chain in chains:
        if len(chain) > depth + 1 or any(isinstance(op, affine.ForOp) for op in _inside(chain)):
            return None
        if len(chain) == depth:
            lanes.append("")
            reduces.append("")
            continue
        buffer = _reduced(nest, chain[-1])
        if buffer is None:
            return None
        lanes.append(name_of(chain[-1]))
        reduces.append(buffer)
    long = [nest.loop(lane) for lane, buffer in zip(lanes, reduces, strict=True) if buffer]
    if not long or min(map(extent_of, long)) < MIN_LANES:
        return None
    return RowStatements(
        tuple(tuple(name_of(loop) for loop in chain[:depth]) for chain in chains),
        tuple(lanes),
        tuple(reduces),
    )


def _inside(chain: list[affine.ForOp]) -> list:
    return list(chain[-1].body.block.ops)


def _reduced(nest: LoopNest, lane: affine.ForOp) -> str | None:
    """The buffer that a loop along a row reduces into, "" for a pointwise one, None for others."""
    stores = [access for access in accesses_in(lane) if is_store(access)]
    if len(stores) != 1 or not isinstance(stores[0], affine.StoreOp):
        return None
    forms = subscripts(stores[0])
    if any(form is None for form in forms):
        return None
    if any(index_of(lane) in form.terms for form in forms if form is not None):
        return ""
    updated = [a for a in accesses_in(lane) if a.memref is stores[0].memref]
    if element_name(stores[0].memref) != "f32":
        return None
    if type(reduction_operation(updated)) not in COMBINING_KINDS:
        return None
    return nest.name_of_buffer(stores[0].memref)


def schedule_row_groups(
    schedule: Schedule, machine: Machine, packs: Mapping[str, Pack], choices: Choices
) -> None:
    """Row-major statements found by `find_rows`."""
    nest = schedule.nest
    found = find_rows(nest)
    assert found is not None
    longest = max(extent_of(nest.loop(lane)) for lane in found.lanes if lane)
    shortest = min(
        extent_of(nest.loop(lane))
        for lane, buffer in zip(found.lanes, found.reduces, strict=True)
        if buffer
    )
    legal = [size for size in GROUPS if size <= shortest]
    own = max(size for size in legal if 2 * size <= longest or size == legal[0])
    size = choices.number("group", own, legal, WHY_ITEMS)
    for lane, buffer in zip(found.lanes, found.reduces, strict=True):
        if buffer and extent_of(nest.loop(lane)) % size:
            schedule.apply(cut, loop=lane, at=extent_of(nest.loop(lane)) // size * size)
    for position in range(len(found.rows[0])):
        names = list(dict.fromkeys(rows[position] for rows in found.rows))
        schedule.apply(merge, loops=" ".join(names))
    row = found.rows[0][-1]
    over_items: list[str] = []
    for lane, buffer in zip(found.lanes, found.reduces, strict=True):
        if not lane:
            continue
        if not buffer:
            over_items.append(lane)
            continue
        over_items += _reduce(schedule, lane, buffer, size)
    before = set(nest.index)
    schedule.apply(single, within=row, name="once")
    over_items += [name for name in nest.index if name not in before]
    schedule.apply(items, loops=" ".join(over_items))
    schedule.apply(parallel, loops=" ".join(found.rows[0]))
    schedule.apply(group, items=size)


def _reduce(schedule: Schedule, lane: str, buffer: str, size: int) -> list[str]:
    """Partial results per item and a tree; returns the loops over items."""
    nest = schedule.nest
    tail = f"{lane}_tail"
    own, step = f"{lane}_item", f"{lane}_step"
    schedule.apply(split, loop=lane, into=f"{step} {own}", factors=(size,))
    schedule.apply(rfactor, outer=step, inner=own, buffer=buffer)
    schedule.apply(reorder, order=f"{own} {step}")
    schedule.apply(tree, loop=f"{own}_sum")
    found = [own, f"{own}_sum_last"]
    width = size // 2
    while width:
        found.append(f"{own}_sum_{width}")
        width //= 2
    if nest.has(tail):
        schedule.apply(
            split, loop=tail, into=f"{tail}_once {tail}_all", factors=(extent_of(nest.loop(tail)),)
        )
        found.append(f"{tail}_once")
    return found
