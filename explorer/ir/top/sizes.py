"""Contents of integer tensors that are computed from sizes: `[2*batch, 64]` instead of unknown.

    %s = top.shape(%x)                         x: (batch, 3, h, 8)    ->  [batch, 3, h, 8]
    %n = top.slice(%s) {starts = [2] ...}                             ->  [h]
    %m = top.binary(%n, %two) {kind = "div"}                          ->  [h//2]

A reshape whose target is such a tensor has a shape that can be said.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from xdsl.ir import OpResult, SSAValue

from explorer.ir.operation import TopOperation
from explorer.ir.symbols import Expression, larger, number, smaller
from explorer.ir.top.data import WeightOp
from explorer.ir.top.dimensions import dimension_of, expression_of
from explorer.ir.top.elementwise import BinaryOp, CastOp
from explorer.ir.top.indexing import GatherOp
from explorer.ir.top.movement import ConcatOp, ExpandOp, ReshapeOp, SliceOp, TransposeOp
from explorer.ir.top.reduction import ReduceOp
from explorer.ir.top.shapes import ShapeOp
from explorer.ir.types import Dim, element_type_of, is_static, numpy_dtype, static_shape
from explorer.ir.weights import Weights

MOST_ELEMENTS = 64
"""Tensors of sizes are tiny."""
DEEPEST = 100
"""Operations behind one another that are followed."""

_MOVEMENT = (ConcatOp, ExpandOp, GatherOp, ReshapeOp, SliceOp, TransposeOp)
_FIRST_ONLY = (ExpandOp, GatherOp, ReshapeOp, SliceOp)
"""All operands but the first are numbers that must be known."""


class SizeContents:
    """Contents of values as expressions over names of dimensions, found on demand."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._found: dict[SSAValue, np.ndarray | None] = {}

    def array(self, value: SSAValue | None) -> np.ndarray | None:
        """An array of `Expression`; None where contents are not computed from sizes alone."""
        return None if value is None else self._array(value, 0)

    def stored(self, value: SSAValue) -> np.ndarray | None:
        """Contents of a weight, however large; None for what is computed."""
        owner = value.owner
        return self._weights[owner.weight.data] if isinstance(owner, WeightOp) else None

    def sizes(self, value: SSAValue | None) -> list[Dim] | None:
        """The contents of a vector as dimensions."""
        array = self.array(value)
        return None if array is None else [dimension_of(e) for e in array.reshape(-1)]

    def _array(self, value: SSAValue, depth: int) -> np.ndarray | None:
        if value not in self._found:
            self._found[value] = None if depth > DEEPEST else self._find(value, depth)
        return self._found[value]

    def _find(self, value: SSAValue, depth: int) -> np.ndarray | None:
        if not isinstance(value, OpResult) or not isinstance(value.op, TopOperation):
            return None
        op = value.op
        is_integer = numpy_dtype(element_type_of(value)).kind in "iu"
        if not is_integer and not _is_exact_in_floats(op):
            return None
        if not is_static(value) or prod(static_shape(value)) > MOST_ELEMENTS or op.regions:
            return None
        if isinstance(op, WeightOp):
            array = self._weights[op.weight.data]
            is_whole = np.isfinite(array.astype(np.float64)) & (array == np.trunc(array))
            return _numbers(array) if is_whole.all() else None
        if isinstance(op, ShapeOp):
            found = [expression_of(size) for size in op.sizes]
            return None if None in found else _array_of(found)
        if isinstance(op, CastOp):
            kinds = [numpy_dtype(element_type_of(v)) for v in (op.operands[0], value)]
            if any(k.kind not in "iuf" or k.itemsize < 4 for k in kinds):
                return None  # it may round, or wrap around
            return self._array(op.operands[0], depth + 1)
        if not isinstance(op, (*_MOVEMENT, BinaryOp, ReduceOp)):
            return None
        operands = [self._array(operand, depth + 1) for operand in op.operands]
        known = [o for o in operands if o is not None]
        return _computed(op, known) if len(known) == len(operands) else None


def _is_exact_in_floats(op: TopOperation) -> bool:
    """Sizes as floats (some exporters take minima of those): all but division stays exact."""
    if isinstance(op, BinaryOp) and op.get("kind") not in ("add", "sub", "mul", "min", "max"):
        return False
    return isinstance(op, (*_MOVEMENT, BinaryOp, CastOp, WeightOp))


def _computed(op: TopOperation, operands: list[np.ndarray]) -> np.ndarray | None:
    """The result as the operation computes it; None where it needs more than arithmetic."""
    if isinstance(op, BinaryOp):
        compute = _BINARY.get(op.get("kind"))
        if compute is None:
            return None
        pairs = np.broadcast(*operands)
        found = [compute(a, b) for a, b in pairs]
        return None if None in found else _array_of(found).reshape(pairs.shape)
    if isinstance(op, ReduceOp):
        if op.get("kind") not in ("prod", "sum") or operands[0].ndim != 1 or not op.get("axes"):
            return None
        total = number(1 if op.get("kind") == "prod" else 0)
        for element in operands[0]:
            total = total * element if op.get("kind") == "prod" else total + element
        return _array_of([total]).reshape((1,) if op.get("keepdims") else ())
    if isinstance(op, _FIRST_ONLY):
        plain = [_plain(o) for o in operands[1:]]
        numbers = [p for p in plain if p is not None]
        if len(numbers) != len(plain):
            return None
        return np.asarray(op.evaluate(operands[0], *numbers)[0], object)
    return np.asarray(op.evaluate(*operands)[0], object)


def _quotient(a: Expression, b: Expression) -> Expression | None:
    """C's division is as // where nothing is negative."""
    if not b.is_number or b.constant < 1:
        return a.quotient(b)
    low = a.lowest()
    return a.divided(b.constant) if low is not None and low >= 0 else None


def _remainder(a: Expression, b: Expression) -> Expression | None:
    found = _quotient(a, b) if b.is_number else None
    return None if found is None else a - found * b


_BINARY: dict[str, Callable[[Expression, Expression], Expression | None]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _quotient,
    "mod": _remainder,
    "min": smaller,
    "max": larger,
}


def _numbers(array: np.ndarray) -> np.ndarray:
    return _array_of([number(int(n)) for n in array.reshape(-1)]).reshape(array.shape)


def _plain(array: np.ndarray) -> np.ndarray | None:
    """The numbers of an array whose expressions are numbers."""
    if not all(e.is_number for e in array.reshape(-1)):
        return None
    plain = [e.constant for e in array.reshape(-1)]
    return np.array(plain, np.int64).reshape(array.shape)


def _array_of(elements: list) -> np.ndarray:
    """A vector of objects; NumPy must not look into them."""
    array = np.empty(len(elements), object)
    for index, element in enumerate(elements):
        array[index] = element
    return array
