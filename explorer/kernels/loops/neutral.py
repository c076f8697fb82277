"""What a loop over masked elements may leave out: they contribute nothing to a sum or a maximum.

    x[i, k] = k < seq ? s[i, k] : -inf               x: -inf from seq on in dimension 1
    for k: m[i] = max(m[i], x[i, k])                 k may end at seq
    for k: y[i, k] = exp(x[i, k] - m[i])             y: 0 from seq on in dimension 1
    for k: t[i] = t[i] + y[i, k]                     k may end at seq

Found on textbook nests, from the first statement to the last, by evaluating what is stored for an
index beyond a size. Numbers that are not known count as finite: where one is not, what a call has
is not either.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import affine, arith, func, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from explorer.ir.sizes.symbols import Expression, number
from explorer.kernels.loops.extents import Bounds, Limits, Need, Needs
from explorer.kernels.loops.nest import (
    Access,
    accesses_in,
    accesses_of,
    is_store,
    shape_of,
    subscripts,
)

INF = float("inf")
NEUTRAL: Mapping[type, float] = {
    arith.AddfOp: 0.0,
    arith.AddiOp: 0.0,
    arith.MaximumfOp: -INF,
    arith.MinimumfOp: INF,
    arith.MulfOp: 1.0,
}
"""What an accumulation with another number leaves as it was."""
UNARY: Mapping[type, Callable[[float], float]] = {
    math.ExpOp: lambda x: 0.0 if x == -INF else numbers.exp(min(x, 700.0)),
    math.AbsFOp: abs,
    arith.NegfOp: lambda x: -x,
    arith.ExtFOp: lambda x: x,
    arith.TruncFOp: lambda x: x,
}
Constants = Callable[[SSAValue], float | None]
"""The number of a buffer that holds a single known one."""


@dataclass(frozen=True)
class Beyond:
    """A buffer that holds one number from a need on, in each dimension that has one."""

    needs: Needs
    value: float


@dataclass
class NeutralLoops:
    """What is known of a kernel after its statements."""

    beyond: dict[SSAValue, Beyond] = field(default_factory=dict)
    summed: set[SSAValue] = field(default_factory=set)
    """Indices of loops over which numbers are accumulated."""
    ends: dict[SSAValue, Expression] = field(default_factory=dict)
    """By the index of a loop over which numbers are accumulated: iterations from there on add
    nothing."""

    def read(self, buffer: SSAValue) -> Needs | None:
        """By dimension, the elements from which on such loops add nothing; None for a dimension
        that a loop without an end reads."""
        loads = [access for access in accesses_of(buffer) if not is_store(access)]
        found: list[Need] = [None] * len(shape_of(buffer))
        whole: set[int] = set()
        for load in loads:
            forms = subscripts(load)
            for axis, form in enumerate(forms):
                for index in () if form is None else form.terms:
                    end = self.ends.get(index)
                    if end is None or form is None or dict(form.terms) != {index: 1}:
                        if index in self.summed:
                            whole.add(axis)
                        continue
                    need = end + form.constant
                    if found[axis] not in (None, need):
                        whole.add(axis)
                    found[axis] = need
        if not loads:
            return None
        return tuple(None if axis in whole else need for axis, need in enumerate(found))


Known = tuple[float, Expression]
"""A number, and the index from which on a value is it."""


@dataclass(frozen=True)
class _Reader:
    limits: Limits
    sizes: Bounds
    constants: Constants
    found: NeutralLoops

    def value(self, value: SSAValue, index: SSAValue) -> Known | None:
        """The number that a value is for an index beyond some size."""
        owner = value.owner
        if isinstance(owner, arith.ConstantOp):
            held = owner.value
            if isinstance(held, FloatAttr | IntegerAttr):
                return float(held.value.data), number(0)
            return None
        if isinstance(owner, affine.LoadOp):
            return self._load(owner, index)
        if isinstance(owner, arith.SelectOp):
            return self._select(owner, index)
        if not isinstance(owner, Operation) or len(owner.results) != 1:
            return None
        operands = [self.value(operand, index) for operand in owner.operands]
        if len(operands) == 1 and type(owner) in UNARY and operands[0] is not None:
            return UNARY[type(owner)](operands[0][0]), operands[0][1]
        if len(operands) == 2:
            return self._binary(owner, operands[0], operands[1])
        return None

    def _load(self, load: affine.LoadOp, index: SSAValue) -> Known | None:
        constant = self.constants(load.memref)
        if constant is not None:
            return constant, number(0)
        beyond = self.found.beyond.get(load.memref)
        if beyond is None:
            return None
        for form, need in zip(subscripts(load), beyond.needs, strict=True):
            if form is None or need is None or dict(form.terms) != {index: 1}:
                continue
            return beyond.value, need - form.constant
        return None

    def _select(self, select: arith.SelectOp, index: SSAValue) -> Known | None:
        other = self.value(select.rhs, index)
        if other is None:
            return None
        limit = self.limits(select.cond).get(index)
        if limit is not None:
            return self._both(other[0], limit, other[1])
        chosen = self.value(select.lhs, index)
        if chosen is None or chosen[0] != other[0]:
            return None
        return self._both(other[0], chosen[1], other[1])

    def _both(self, value: float, one: Expression, other: Expression) -> Known | None:
        end = self.sizes.more(one, other)
        return None if end is None else (value, end)

    def _binary(self, op: Operation, left: Known | None, right: Known | None) -> Known | None:
        one = left or right
        if one is None:
            return None
        if left is None or right is None:
            return one if _decides(op, one[0], left is not None) else None
        result = _computed(op, left[0], right[0])
        return None if result is None else self._both(result, left[1], right[1])


def _decides(op: Operation, value: float, is_left: bool) -> bool:
    """Whether the result is the known operand, whatever finite number the other one is."""
    if isinstance(op, arith.MulfOp):
        return value == 0
    if isinstance(op, arith.DivfOp):
        return is_left and value == 0
    if isinstance(op, arith.AddfOp):
        return numbers.isinf(value)
    if isinstance(op, arith.SubfOp):
        return is_left and numbers.isinf(value)
    if isinstance(op, arith.MaximumfOp):
        return value == INF
    return isinstance(op, arith.MinimumfOp) and value == -INF


def _computed(op: Operation, left: float, right: float) -> float | None:
    if isinstance(op, arith.AddfOp | arith.AddiOp):
        found = left + right
    elif isinstance(op, arith.SubfOp):
        found = left - right
    elif isinstance(op, arith.MulfOp):
        found = left * right
    elif isinstance(op, arith.MaximumfOp):
        found = max(left, right)
    elif isinstance(op, arith.MinimumfOp):
        found = min(left, right)
    else:
        return None
    return None if numbers.isnan(found) else found


def find_neutral(
    kernel: func.FuncOp,
    beyond: Mapping[SSAValue, Beyond],
    limits: Limits,
    sizes: Bounds,
    constants: Constants,
) -> NeutralLoops:
    """beyond: what is known of arguments that the kernel reads."""
    found = NeutralLoops(dict(beyond))
    reader = _Reader(limits, sizes, constants, found)
    written: dict[SSAValue, list[Access]] = {}
    for top in kernel.body.block.ops:
        if not top.regions:
            continue
        stores = [access for access in accesses_in(top) if is_store(access)]
        _find_ends(stores, reader)
        for store in stores:
            written.setdefault(store.memref, []).append(store)
        for buffer in {store.memref: None for store in stores}:
            known = _stored(buffer, written[buffer], reader)
            found.beyond.pop(buffer, None)
            if known is not None:
                found.beyond[buffer] = known
    return found


def _find_ends(stores: Sequence[Access], reader: _Reader) -> None:
    """Loops of one statement over which numbers are accumulated."""
    if len(stores) != 1 or not isinstance(stores[0], affine.StoreOp):
        return
    store = stores[0]
    added = _accumulated(store)
    if added is None:
        return
    value, kind = added
    used = {index for form in subscripts(store) if form is not None for index in form.terms}
    loop = store.parent_op()
    while isinstance(loop, affine.ForOp):
        index = loop.body.block.args[0]
        if index not in used:
            reader.found.summed.add(index)
        known = None if index in used else reader.value(value, index)
        if known is not None and known[0] == NEUTRAL[kind]:
            reader.found.ends[index] = known[1]
        loop = loop.parent_op()


def _accumulated(store: affine.StoreOp) -> tuple[SSAValue, type] | None:
    """What a store adds to the element that it stores, and how."""
    op = store.value.owner
    if type(op) not in NEUTRAL or not isinstance(op, Operation):
        return None
    for place, operand in enumerate(op.operands):
        load = operand.owner
        if not isinstance(load, affine.LoadOp) or load.memref is not store.memref:
            continue
        if subscripts(load) == subscripts(store):
            return op.operands[1 - place], type(op)
    return None


def _stored(buffer: SSAValue, stores: Sequence[Access], reader: _Reader) -> Beyond | None:
    """What a buffer holds beyond a size after all stores to it so far."""
    value: float | None = None
    needs: list[Need] = []
    for store in stores:
        if not isinstance(store, affine.StoreOp):
            return None
        forms = subscripts(store)
        needs = needs or [None] * len(forms)
        for axis, form in enumerate(forms):
            if form is None:
                return None
            if len(form.terms) != 1 or list(form.terms.values()) != [1]:
                continue
            (index,) = form.terms
            known = reader.value(store.value, index)
            if known is None or (known[1] == number(0) and len(stores) > 1):
                continue
            if value is not None and known[0] != value:
                return None
            value = known[0]
            end = known[1] + form.constant
            needs[axis] = end if needs[axis] is None else reader.sizes.more(needs[axis], end)
    if value is None or not any(need is not None for need in needs):
        return None
    return Beyond(tuple(needs), value) if _all_agree(stores, value, needs, reader) else None


def _all_agree(
    stores: Sequence[Access], value: float, needs: Sequence[Need], reader: _Reader
) -> bool:
    """Whether every store to a buffer stores the number there, or elsewhere."""
    for store in stores:
        assert isinstance(store, affine.StoreOp)
        for form, need in zip(subscripts(store), needs, strict=True):
            if need is None or form is None:
                continue
            known = next(
                (k for i in form.terms if (k := reader.value(store.value, i)) is not None), None
            )
            constant = store.value.owner
            is_same = isinstance(constant, arith.ConstantOp) and (
                isinstance(constant.value, FloatAttr) and constant.value.value.data == value
            )
            if (known is None or known[0] != value) and not is_same:
                return False
    return True
