"""Clamps: relu, clip, and minimum and maximum with a number, all keep a value between bounds.

   %1 = top.unary(%x) {kind = "relu"} : tensor<8xf32>
   %2 = top.binary(%1, %six) {kind = "min"} : tensor<8xf32>
=> %2 = top.unary(%x) {kind = "clip", alpha = 0.0, beta = 6.0} : tensor<8xf32>
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.weights import Weights
from explorer.passes.analysis.matching import (
    dtype_of,
    is_constant,
    is_float,
    is_used_once,
    scalar,
    weight_name,
)
from explorer.passes.simplify.arithmetic.ranges import range_of


@dataclass(frozen=True)
class Clamp:
    """min(max(input, low), high), low not above high; infinite where there is no bound."""

    op: TopOperation
    input: SSAValue
    low: float
    high: float

    @staticmethod
    def of(op: object, weights: Weights) -> Clamp | None:
        """The operation as a clamp of floats; None if it is none."""
        if not isinstance(op, UnaryOp | BinaryOp) or not is_float(op.output):
            return None
        clamp = _of_unary(op) if isinstance(op, UnaryOp) else _of_binary(op, weights)
        return clamp if clamp is not None and clamp.low <= clamp.high else None

    def __call__(self, number: float) -> float:
        return min(max(number, self.low), self.high)


def _of_unary(op: UnaryOp) -> Clamp | None:
    if op.kind.data == "relu":
        return Clamp(op, op.input, 0.0, inf)
    return Clamp(op, op.input, *op.parameters) if op.kind.data == "clip" else None


def _of_binary(op: BinaryOp, weights: Weights) -> Clamp | None:
    kind = op.kind.data
    if kind not in ("max", "min") or is_constant(op.left) or op.left.type != op.output.type:
        return None
    bound = scalar(op.right, weights)
    if bound is None:
        return None
    return Clamp(op, op.left, bound, inf) if kind == "max" else Clamp(op, op.left, -inf, bound)


class MergeClamps(Rule):
    """min(relu(x), 6)   =>   clip(x) {alpha = 0, beta = 6}

    Applies to two of relu, clip, max and min with a number, when nothing else reads the first.
    Pays because a pass over the tensor is saved, and because a clip fuses into the convolution
    before it. Exact: bounds are compared, not computed.
    """

    matches = (UnaryOp, BinaryOp)

    def rewrite(self, op: UnaryOp | BinaryOp, rewriter: RecordedRewriter) -> None:
        outer = Clamp.of(op, rewriter.weights)
        inner = None if outer is None else Clamp.of(outer.input.owner, rewriter.weights)
        if outer is None or inner is None:
            return
        if not is_used_once(inner.op):
            raise Declined(f"{identity_of(inner.op)} is needed elsewhere too")
        low, high = outer(inner.low), outer(inner.high)
        new = _clamp(inner.input, low, high, op, rewriter)
        rewriter.replace(op, new, absorbs=[inner.op])


class RemoveClamp(Rule):
    """relu(sigmoid(x))   =>   sigmoid(x)

    Applies when what comes in lies between the bounds already, as far as the operations above
    tell. Pays because a pass over the tensor is saved. Exact.
    """

    matches = (UnaryOp, BinaryOp)

    def rewrite(self, op: UnaryOp | BinaryOp, rewriter: RecordedRewriter) -> None:
        clamp = Clamp.of(op, rewriter.weights)
        if clamp is None or clamp.input.type != op.output.type:
            return
        low, high = range_of(clamp.input, rewriter.weights)
        if clamp.low <= low and high <= clamp.high:
            rewriter.replace(op, clamp.input)


class ReluInstead(Rule):
    """max(x, 0)   =>   relu(x)

    Applies to floats when the other operand is a constant zero of one element. Pays because a
    relu fuses into the convolution before it, and merges with other bounds. Exact.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        clamp = Clamp.of(op, rewriter.weights)
        if clamp is not None and (clamp.low, clamp.high) == (0.0, inf):
            rewriter.replace(op, UnaryOp.make([clamp.input], kind="relu"))


def _clamp(
    x: SSAValue, low: float, high: float, anchor: TopOperation, rewriter: RecordedRewriter
) -> TopOperation:
    """The clamp in the form that is usual: relu, clip, or max or min with a weight."""
    if (low, high) == (0.0, inf):
        return UnaryOp.make([x], kind="relu")
    if low > -inf and high < inf:
        return UnaryOp.make([x], kind="clip", alpha=low, beta=high)
    kind, bound = ("max", low) if high == inf else ("min", high)
    value = np.array(bound, dtype_of(x))
    weight = rewriter.add_weight(anchor, weight_name(anchor, "bound"), value)
    return BinaryOp.make([x, weight], kind=kind)


CLAMP_RULES: tuple[type[Rule], ...] = (MergeClamps, RemoveClamp, ReluInstead)
