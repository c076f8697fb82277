"""Steps that restructure loops: split, cut, reorder, merge.

split j into jt jp=14      for j in 56            ->   for jt in 4: for jp in 14   (j = 14 jt + jp)
cut j at 42                for j in 55            ->   for j in 42; for j_tail in 13
reorder c j                for j: for c: body     ->   for c: for j: body
merge i2 into i            for i: A; for i2: B    ->   for i: A; B
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import affine
from xdsl.ir import Operation

from explorer.ir.structure import walk_inside
from explorer.kernels.loops.nest import (
    AffineAccess,
    LinearForm,
    LoopNest,
    accesses_in,
    append,
    body_of,
    bounds_of,
    enclosing_loops,
    extent_of,
    index_form,
    index_of,
    is_store,
    name_of,
    nest_loops,
    new_loop,
    perfect_chain,
    rename,
    set_upper_bound,
    substitute_index,
)
from explorer.kernels.steps.dependences import by_buffer, reordering_conflict, separated


def split(nest: LoopNest, loop: str, into: str, factors: Sequence[int]) -> None:
    """Splits a loop into several nested ones; the order of iterations stays.

    `into` names the new loops, the outermost first; `factors` are the extents of all but the
    outermost. Illegal if their product doesn't divide the extent (cut first), or if the index is
    used as a number.
    """
    names = into.split()
    if len(names) != len(factors) + 1:
        raise nest.error("split", f"{len(names)} loops need {len(names) - 1} factors")
    inner_extent = prod(factors)
    for old in nest.loops(loop, "split"):
        _require_start_at_zero(nest, "split", old)
        extent = extent_of(old)
        if extent % inner_extent:
            raise nest.error(
                "split",
                f"{inner_extent} does not divide the {extent} iterations of {loop}; "
                f"cut {loop} at {extent // inner_extent * inner_extent} first",
            )
        operations = body_of(old)
        outer, *inner = [
            new_loop(e, name, old)
            for e, name in zip([extent // inner_extent, *factors], names, strict=True)
        ]
        form = _mixed_radix([outer, *inner], factors)
        try:
            substitute_index(index_of(old), form)
        except ValueError as reason:
            raise nest.error("split", str(reason)) from reason
        for op in operations:
            op.detach()
        nest_loops([outer, *inner], operations)
        _replace(old, outer)
    nest.changed()


def _mixed_radix(loops: Sequence[affine.ForOp], factors: Sequence[int]) -> LinearForm:
    """outer * (product of factors) + ... + innermost."""
    form = LinearForm()
    for position, loop in enumerate(loops):
        form = form + index_form(loop).scaled(prod(factors[position:]))
    return form


def cut(nest: LoopNest, loop: str, at: int, suffix: str = "_tail") -> None:
    """Cuts a loop into [0, at) and a second nest for [at, extent).

    The loops of the second nest get `suffix` behind their names. Legal for any loop; illegal if
    `at` is outside the loop.
    """
    for first in nest.loops(loop, "cut"):
        _require_start_at_zero(nest, "cut", first)
        extent = extent_of(first)
        if not 0 < at < extent:
            raise nest.error("cut", f"{at} is not inside the {extent} iterations of {loop}")
        for use in index_of(first).uses:
            if not isinstance(use.operation, AffineAccess):
                raise nest.error("cut", f"index {loop} is used as a number by {use.operation.name}")
        second = first.clone()
        parent = first.parent
        assert parent is not None
        parent.insert_op_after(second, first)
        set_upper_bound(first, at)
        set_upper_bound(second, extent - at)
        substitute_index(index_of(second), index_form(second) + LinearForm({}, at))
        for op in walk_inside(second):
            if isinstance(op, affine.ForOp):
                rename(op, name_of(op) + suffix)
    nest.changed()


def reorder(nest: LoopNest, order: str) -> None:
    """Puts the loops of a perfect nest into another order.

    `order` names them, the outermost first; loops of the nest that are not named keep their
    places. Illegal if the loops aren't nested perfectly, or if it would change the order of
    dependent iterations that are not an associative reduction.
    """
    names = order.split()
    tops = [
        loop
        for loop in nest.loops(names[0], "reorder")
        if set(names) <= {name_of(inner) for inner in _whole_chain(loop)}
    ]
    if not tops:
        for name in names:
            nest.loops(name, "reorder")
        raise nest.error("reorder", f"the loops {order} are not nested perfectly in one another")
    for member in tops:
        chain = _whole_chain(member)
        places = [k for k, loop in enumerate(chain) if name_of(loop) in names]
        by_name = {name_of(chain[k]): chain[k] for k in places}
        chain = chain[places[0] : places[-1] + 1]
        places = [k - places[0] for k in places]
        target = list(chain)
        for place, name in zip(places, names, strict=True):
            target[place] = by_name[name]
        if target == chain:
            continue
        conflict = reordering_conflict(chain, target)
        if conflict is not None:
            raise nest.error(
                "reorder",
                f"the order {order} changes the order of dependent iterations that update "
                f"{nest.name_of_buffer(conflict)}",
            )
        _rebuild(chain, target)
    nest.changed()


def merge(nest: LoopNest, loops: str) -> None:
    """Joins neighbouring loops of equal extents into the first of them.

    Illegal if they aren't neighbours, or if a later body needs what another iteration of an
    earlier one makes.
    """
    names = loops.split()
    first = nest.loop(names[0], "merge")
    for name in names[1:]:
        second = nest.loop(name, "merge")
        if first.next_op is not second:
            raise nest.error("merge", f"{name} does not follow {name_of(first)} directly")
        if bounds_of(first) is None or bounds_of(first) != bounds_of(second):
            raise nest.error("merge", f"{name_of(first)} and {name} have different extents")
        _require_same_iteration(nest, first, second)
        try:
            substitute_index(index_of(second), index_form(first))
        except ValueError as reason:
            raise nest.error("merge", str(reason)) from reason
        operations = body_of(second)
        for op in operations:
            op.detach()
        append(first, operations)
        second.detach()
        second.erase()
    nest.changed()


def _require_same_iteration(nest: LoopNest, first: affine.ForOp, second: affine.ForOp) -> None:
    fixed = {index_of(loop) for loop in enclosing_loops(first)}
    here, there = by_buffer(accesses_in(first)), by_buffer(accesses_in(second))
    for buffer in here:
        group = [*here[buffer], *there.get(buffer, [])]
        if buffer not in there or not any(is_store(a) for a in group):
            continue
        indices = {a: index_of(first) for a in here[buffer]}
        indices.update({a: index_of(second) for a in there[buffer]})
        if not separated(group, indices, fixed):
            raise nest.error(
                "merge",
                f"{name_of(second)} needs elements of {nest.name_of_buffer(buffer)} that other "
                f"iterations of {name_of(first)} write",
            )


def _require_start_at_zero(nest: LoopNest, step: str, loop: affine.ForOp) -> None:
    bounds = bounds_of(loop)
    if bounds is None or bounds[0] != 0:
        raise nest.error(step, f"loop {name_of(loop)} does not run from 0 to a constant")


def _whole_chain(loop: affine.ForOp) -> list[affine.ForOp]:
    """The perfect nest around and inside a loop."""
    top = loop
    parent = top.parent_op()
    while isinstance(parent, affine.ForOp) and len(body_of(parent)) == 1:
        top, parent = parent, parent.parent_op()
    return perfect_chain(top)


def _rebuild(chain: Sequence[affine.ForOp], target: Sequence[affine.ForOp]) -> None:
    """Nests the loops of `chain` in the order `target`, at the same place with the same body."""
    operations = body_of(chain[-1])
    for op in operations:
        op.detach()
    block, following = chain[0].parent, chain[0].next_op
    assert block is not None and following is not None
    for loop in chain:
        loop.detach()
    block.insert_op_before(nest_loops(target, operations), following)


def _replace(old: affine.ForOp, new: Operation) -> None:
    block = old.parent
    assert block is not None
    block.insert_op_before(new, old)
    block.detach_op(old)
    old.erase()
