"""Kernels that only some calls run: what they make is selected nowhere else.

    %n1 = launch(%n0, ..)                      a step that only calls with more than one have
    %h1 = launch(%runs, %n1, %n0)              y[i] = select(runs[0], n1[i], n0[i])

    func @step(.., %call_run: memref<1xi64>, ..) attributes {kernel.runs = 5}

A launch runs where the number of its call is above 0. `clipping.py` skips its loops otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from xdsl.dialects import affine, arith, func, memref
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from explorer.ir.sizes.symbols import Expression, smaller
from explorer.kernels.loops.extents import Bounds, Need, Needs
from explorer.kernels.loops.nest import accesses_of, is_store

RUNS = "kernel.runs"
Quantity = Callable[[SSAValue], Need]
"""Of a condition: a number that is above 0 in each call in which the condition may hold."""


def runs_of_kernel(kernel: func.FuncOp) -> int | None:
    """The argument with the number that is above 0 where the kernel runs."""
    attribute = kernel.attributes.get(RUNS)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def quantity_of(
    condition: SSAValue, mask_of: Callable[[SSAValue], Needs | None], bounds: Bounds
) -> Need:
    """None for a condition that may hold in every call.

    mask_of: of a buffer with a mask, the elements below which it is true.
    """
    owner = condition.owner
    if isinstance(owner, arith.AndIOp):
        return both(*(quantity_of(side, mask_of, bounds) for side in (owner.lhs, owner.rhs)))
    if not isinstance(owner, affine.LoadOp | memref.LoadOp):
        return None
    needs = [need for need in mask_of(owner.memref) or () if need is not None]
    return reduce(both, [need for need in needs if may_be_none(need, bounds)], None)


def may_be_none(size: Expression, bounds: Bounds) -> bool:
    """Whether the calls with the lowest sizes have no element of a size."""
    return size.value({name: low for name, (low, _) in bounds.ranges.items()}) < 1


def both(one: Need, other: Need) -> Need:
    """A number that is above 0 where both are."""
    if one is None or other is None:
        return other if one is None else one
    return smaller(one, other)


def used_if(argument: SSAValue, quantity: Quantity) -> Need:
    """A number that is above 0 in each call in which a kernel uses what it reads of an argument."""
    loads = [access for access in accesses_of(argument) if not is_store(access)]
    found = {_selected_if(load.results[0], quantity) for load in loads if load.results}
    return next(iter(found)) if len(found) == 1 and len(loads) > 0 else None


def _selected_if(value: SSAValue, quantity: Quantity) -> Need:
    """Where all that is computed from a value goes through the first choices of selects."""
    found: set[Need] = set()
    for use in value.uses:
        user = use.operation
        if isinstance(user, arith.SelectOp) and use.index == 1:
            found.add(quantity(user.cond))
        elif _is_pure(user):
            found.add(_selected_if(user.results[0], quantity))
        else:
            return None
    return next(iter(found)) if len(found) == 1 else None


def _is_pure(op: Operation) -> bool:
    """Whether an operation computes one number of its operands and does nothing else."""
    return len(op.results) == 1 and not op.regions and op.name.split(".")[0] in ("arith", "math")


def numbers_of_launches(
    known: Mapping[Operation, Need], launches: Sequence[Operation], always: Expression
) -> tuple[Expression, ...]:
    """By launch, the number that is above 0 where it runs; empty where all of them always do."""
    found = [known.get(launch) for launch in launches]
    if all(need is None for need in found):
        return ()
    return tuple(always if need is None else need for need in found)
