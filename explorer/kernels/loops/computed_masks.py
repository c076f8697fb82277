"""Masks and numbers that a program computes from numbers of the call.

    %end = launch @add(%past_length, 1)                  past_length + 1
    %valid = launch @less([0, 1, .. 511], %end)          true in elements below past_length + 1

A comparison of counted elements with a number is true below that number only, so that what is
selected by it is needed no further (`find_extents.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import affine, arith, func
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from explorer.ir.sizes.symbols import Expression, number
from explorer.kernels.loops.extents import Bounds, Need, Needs
from explorer.kernels.loops.nest import LinearForm, accesses_in, is_store, subscripts
from explorer.kernels.loops.regrouping import shape_of_buffer

BELOW: Mapping[int, tuple[bool, int]] = {2: (True, 0), 3: (True, 1), 4: (False, 0), 5: (False, 1)}
"""By predicate of `arith.cmpi` (slt, sle, sgt, sge): whether what is counted stands on the left,
and what is added to the number that it stays below."""

Array = Callable[[SSAValue], np.ndarray | None]
"""The constant numbers of a buffer."""


@dataclass(frozen=True)
class ComputedMasks:
    """What kernels of elementwise integers compute."""

    numbers: Callable[[SSAValue], Expression | None]
    """Of a buffer with one element, as a number of the call."""
    constants: Array
    masks: Callable[[SSAValue], Needs | None]
    """Of a buffer, where it is true only below sizes, in the buffer's dimensions."""
    sizes: Bounds

    def number(self, kernel: func.FuncOp) -> Expression | None:
        """What a kernel stores in its only element; None where that is not known."""
        store = _only_store(kernel)
        return None if store is None else self._number(store.value)

    def mask(self, kernel: func.FuncOp) -> tuple[Needs, bool] | None:
        """The elements below which alone a kernel stores true, by dimension of its buffer, and
        whether it stores true at all of them."""
        store = _only_store(kernel)
        if store is None:
            return None
        below = self._below(store.value)
        found: list[Need] = []
        for form in subscripts(store):
            index = _only_index(form)
            limit = None if index is None else below.get(index)
            found.append(None if limit is None or form is None else limit + form.constant)
        if all(need is None for need in found):
            return None
        return tuple(found), isinstance(store.value.owner, arith.CmpiOp)

    def _below(self, value: SSAValue) -> dict[SSAValue, Expression]:
        """Indices below which a condition is true only."""
        owner = value.owner
        if isinstance(owner, arith.AndIOp):
            return {**self._below(owner.lhs), **self._below(owner.rhs)}
        if isinstance(owner, affine.LoadOp):
            return self._below_of_mask(owner)
        if not isinstance(owner, arith.CmpiOp) or owner.predicate.value.data not in BELOW:
            return {}
        counts_left, more = BELOW[owner.predicate.value.data]
        counted, end = (owner.lhs, owner.rhs) if counts_left else (owner.rhs, owner.lhs)
        limit, place = self._number(end), self._counted(counted)
        if limit is None or limit.is_number or place is None:
            return {}
        index, first = place
        return {index: limit + (more - first)}

    def _below_of_mask(self, load: affine.LoadOp) -> dict[SSAValue, Expression]:
        found: dict[SSAValue, Expression] = {}
        for form, need in zip(subscripts(load), self.masks(load.memref) or (), strict=False):
            index = _only_index(form)
            if index is not None and form is not None and need is not None:
                found[index] = need - form.constant
        return found

    def _counted(self, value: SSAValue) -> tuple[SSAValue, int] | None:
        """An index, and what a constant holds at its beginning, where each element of the constant
        is one more than the one before it."""
        load = value.owner
        array = self.constants(load.memref) if isinstance(load, affine.LoadOp) else None
        if array is None or array.dtype.kind not in "iu" or not isinstance(load, affine.LoadOp):
            return None
        array = array.reshape(shape_of_buffer(load.memref))
        for axis, form in enumerate(subscripts(load)):
            index = _only_index(form)
            if index is None or form is None or array.shape[axis] < 2:
                continue
            first = int(array.flat[0])
            places = first + np.arange(array.shape[axis])
            shape = [-1 if other == axis else 1 for other in range(array.ndim)]
            if np.array_equal(array, np.broadcast_to(places.reshape(shape), array.shape)):
                return index, first + form.constant
        return None

    def _number(self, value: SSAValue) -> Expression | None:
        owner = value.owner
        if isinstance(owner, arith.ConstantOp):
            held = owner.value
            return number(held.value.data) if isinstance(held, IntegerAttr) else None
        if isinstance(owner, affine.LoadOp):
            return self.numbers(owner.memref)
        if not isinstance(owner, Operation):
            return None
        found = self._computed(owner, [self._number(operand) for operand in owner.operands])
        return found if found is not None and self._fits(found, owner.results[0].type) else None

    def _computed(
        self, owner: Operation, operands: Sequence[Expression | None]
    ) -> Expression | None:
        if len(operands) == 1 and isinstance(owner, arith.ExtSIOp | arith.TruncIOp):
            return operands[0]
        if len(operands) != 2:
            return None
        left, right = operands
        if left is None or right is None:
            return None
        if isinstance(owner, arith.AddiOp):
            return left + right
        if isinstance(owner, arith.SubiOp):
            return left - right
        if isinstance(owner, arith.MuliOp) and (left.is_number or right.is_number):
            return left * right.constant if right.is_number else right * left.constant
        return None

    def _fits(self, expression: Expression, kind: Attribute) -> bool:
        """Whether integers of a type hold it in each call, so that nothing wraps around."""
        low, high = self.sizes.interval(expression)
        if low is None or high is None or not isinstance(kind, IntegerType):
            return False
        end = 2 ** (kind.width.data - 1)
        return -end <= low <= high < end


def _only_store(kernel: func.FuncOp) -> affine.StoreOp | None:
    stores = [a for top in kernel.body.block.ops for a in accesses_in(top) if is_store(a)]
    store = stores[0] if len(stores) == 1 else None
    return store if isinstance(store, affine.StoreOp) else None


def _only_index(form: LinearForm | None) -> SSAValue | None:
    """The index that a subscript is, perhaps with a constant."""
    if form is None or list(form.terms.values()) != [1]:
        return None
    return next(iter(form.terms))
