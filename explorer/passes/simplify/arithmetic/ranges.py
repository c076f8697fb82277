"""Between which numbers a value lies, as far as the operations that make it tell.

    range_of(%sigmoid)                 (0, 1)
    range_of(%mean of x * x + 1e-5)    (1e-5, inf)

Not-a-number lies in no range: it stays what it is under all rewrites that ask for one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.movement.operation import MovementOperation
from explorer.ir.top.movement.pad import PadOp
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.ir.top.reductions.reduction import ReduceOp
from explorer.ir.weights import Weights
from explorer.passes.analysis.matching import constant

Range = tuple[float, float]

EVERYTHING: Range = (-inf, inf)
_DEPTH = 8
"""Operations above a value that are looked at."""

_UNARY: dict[str, Range] = {
    "relu": (0, inf),
    "sigmoid": (0, 1),
    "hard_sigmoid": (0, 1),
    "tanh": (-1, 1),
    "erf": (-1, 1),
    "sin": (-1, 1),
    "cos": (-1, 1),
    "sign": (-1, 1),
    "abs": (0, inf),
    "exp": (0, inf),
    "sqrt": (0, inf),
    "softplus": (0, inf),
}

_REDUCTIONS_ABOVE_ZERO = ("l1", "l2", "sum_square")


def range_of(value: SSAValue, weights: Weights, depth: int = _DEPTH) -> Range:
    """Bounds (both included) of all elements that are numbers."""
    array = constant(value, weights)
    if array is not None:
        return _range_of_array(array)
    if depth == 0:
        return EVERYTHING
    op = value.owner

    def inner(operand: SSAValue) -> Range:
        return range_of(operand, weights, depth - 1)

    if isinstance(op, UnaryOp):
        return _range_of_unary(op, inner)
    if isinstance(op, BinaryOp):
        return _range_of_binary(op, inner)
    if isinstance(op, MovementOperation):
        ranges = [inner(operand) for operand in op.moved_operands()]
        if isinstance(op, PadOp):
            ranges.append(_range_of_array(np.array(op.fill)))
        return min(low for low, _ in ranges), max(high for _, high in ranges)
    if isinstance(op, SoftmaxOp):
        return (-inf, 0) if op.get("logarithm") else (0, 1)
    if isinstance(op, ReduceOp):
        return _range_of_reduction(op, inner)
    return EVERYTHING


def _range_of_array(array: np.ndarray) -> Range:
    if not array.size or array.dtype.kind not in "iuf":
        return EVERYTHING
    low, high = float(array.min()), float(array.max())
    return EVERYTHING if np.isnan(low) else (low, high)


def _range_of_unary(op: UnaryOp, inner: Callable[[SSAValue], Range]) -> Range:
    kind = op.kind.data
    if kind == "clip":
        low, high = op.parameters
        return (low, high) if low <= high else EVERYTHING
    if kind == "relu":
        low, high = inner(op.input)
        return max(low, 0), max(high, 0)
    if kind == "neg":
        low, high = inner(op.input)
        return -high, -low
    if kind == "reciprocal":
        low, high = inner(op.input)
        return (1 / high if high < inf else 0.0, 1 / low) if low > 0 else EVERYTHING
    return _UNARY.get(kind, EVERYTHING)


def _range_of_binary(op: BinaryOp, inner: Callable[[SSAValue], Range]) -> Range:
    """Bounds of sums and products are taken outwards: rounding never leaves them by a sign."""
    kind = op.kind.data
    if kind not in ("add", "mul", "max", "min"):
        return EVERYTHING
    if kind == "mul" and op.left is op.right:
        return (0, inf)
    (a, b), (c, d) = inner(op.left), inner(op.right)
    if kind == "max":
        return max(a, c), max(b, d)
    if kind == "min":
        return min(a, c), min(b, d)
    if a < 0 or c < 0:
        return EVERYTHING
    return (max(a, c), inf) if kind == "add" else (0, inf)


def _range_of_reduction(op: ReduceOp, inner: Callable[[SSAValue], Range]) -> Range:
    kind = op.kind.data
    if kind in _REDUCTIONS_ABOVE_ZERO:
        return (0, inf)
    if kind in ("mean", "max", "min", "sum", "prod"):
        low, high = inner(op.input)
        if kind in ("max", "min"):
            return low, high
        return (0, inf) if low >= 0 else EVERYTHING
    return EVERYTHING
