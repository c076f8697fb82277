"""Contents of integer tensors that are computed from sizes: `[2*batch, 64]` instead of unknown.

    %s = top.shape(%x)                         x: (batch, 3, h, 8)    ->  [batch, 3, h, 8]
    %n = top.slice(%s) {starts = [2] ...}                             ->  [h]
    %m = top.binary(%n, %two) {kind = "div"}                          ->  [h//2]

A reshape whose target is such a tensor has a shape that can be said. How an operation computes with
sizes, it says itself (`interfaces.ComputesSizes`); arithmetic and arrays of expressions are here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

import numpy as np
from xdsl.ir import OpResult, SSAValue

from explorer.ir.interfaces import ComputesSizes
from explorer.ir.operation import TopOperation
from explorer.ir.sizes.dimensions import dimension_of
from explorer.ir.sizes.symbols import Expression, larger, number, smaller
from explorer.ir.top.data import WeightOp
from explorer.ir.types import Dim, element_type_of, is_static, numpy_dtype, static_shape
from explorer.ir.weights import Weights

MAX_ELEMENTS = 64
"""Tensors of sizes are tiny."""
DEEPEST = 100
"""Operations behind one another that are followed."""


class FoundContents:
    """`interfaces.SizeContents`, found on demand."""

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

    def single(self, value: SSAValue) -> Expression | None:
        """The only element of a value."""
        array = self.array(value)
        return array.reshape(-1)[0] if array is not None and array.size == 1 else None

    def end(self, value: SSAValue) -> Expression | None:
        """One more than the highest of numbers that count up to a size; None for all others."""
        owner = value.owner
        return owner.end_of_numbers(self) if isinstance(owner, ComputesSizes) else None

    def _array(self, value: SSAValue, depth: int) -> np.ndarray | None:
        if value not in self._found:
            self._found[value] = None if depth > DEEPEST else self._find(value, depth)
        return self._found[value]

    def _find(self, value: SSAValue, depth: int) -> np.ndarray | None:
        if not isinstance(value, OpResult) or not isinstance(value.op, TopOperation):
            return None
        op = value.op
        if not is_static(value) or prod(static_shape(value)) > MAX_ELEMENTS or op.regions:
            return None
        if isinstance(op, WeightOp):
            array = self._weights[op.weight.data]
            is_whole = np.isfinite(array.astype(np.float64)) & (array == np.trunc(array))
            return numbers(array) if is_whole.all() else None
        if not isinstance(op, ComputesSizes):
            return None
        if numpy_dtype(element_type_of(value)).kind not in "iu" and not op.is_exact_for_sizes:
            return None
        found = op.computed_sizes(lambda operand: self._array(operand, depth + 1))
        # NumPy takes a single element out of its array.
        return None if found is None else np.asarray(found, dtype=object)


# -- arithmetic ------------------------------------------------------------------------------------


def combined(kind: str, left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Arrays of expressions combined by a kind of `top.binary`; None where that is not known."""
    compute = _BINARY.get(kind)
    if compute is None:
        return None
    pairs = np.broadcast(left, right)
    found = [compute(a, b) for a, b in pairs]
    return None if None in found else expressions(found).reshape(pairs.shape)


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
EXACT_IN_FLOATS = frozenset(("add", "sub", "mul", "min", "max"))
"""Kinds that compute with sizes as floats (some exporters do) what they compute with integers."""


# -- arrays of expressions -------------------------------------------------------------------------


def numbers(array: np.ndarray) -> np.ndarray:
    """Integers as expressions."""
    return expressions(number(int(n)) for n in array.reshape(-1)).reshape(array.shape)


def plain_numbers(array: np.ndarray | None) -> np.ndarray | None:
    """The integers of an array whose expressions are numbers; None for all others."""
    if array is None or not all(e.is_number for e in array.reshape(-1)):
        return None
    plain = [e.constant for e in array.reshape(-1)]
    return np.array(plain, np.int64).reshape(array.shape)


def expressions(elements: Iterable[Expression | None]) -> np.ndarray:
    """A vector of objects; NumPy must not look into them."""
    elements = list(elements)
    array = np.empty(len(elements), object)
    for index, element in enumerate(elements):
        array[index] = element
    return array
