"""Conditions that are known, or that a cast can say.

   %1 = top.select(%true, %x, %y) : tensor<8xf32>
   top.return(%1)
=> top.return(%x)
"""

from __future__ import annotations

import numpy as np

from explorer.ir.rewriting import RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, CastOp, SelectOp, UnaryOp
from explorer.ir.types import element_type_of, shape_of
from explorer.passes.analysis.matching import dtype_of, is_kind, maker, splat


class ChooseKnown(Rule):
    """select(true, a, b)   =>   a      (false: b)

    Applies when the condition is constant and everywhere the same, and the chosen operand has the
    result's shape. Pays because nothing is left to choose. Exact.
    """

    matches = (SelectOp,)

    def rewrite(self, op: SelectOp, rewriter: RecordedRewriter) -> None:
        condition = splat(op.condition, rewriter.weights)
        if condition is None:
            return
        chosen = op.if_true if condition else op.if_false
        if chosen.type == op.output.type:
            rewriter.replace(op, chosen)


class ChooseEqual(Rule):
    """select(c, a, a)   =>   a

    Applies when both choices are the same value and have the result's shape. Pays because nothing
    is left to choose. Exact.
    """

    matches = (SelectOp,)

    def rewrite(self, op: SelectOp, rewriter: RecordedRewriter) -> None:
        if op.if_true is op.if_false and op.if_true.type == op.output.type:
            rewriter.replace(op, op.if_true)


class SwapChoices(Rule):
    """select(not(c), a, b)   =>   select(c, b, a)

    Applies to every negated condition. Pays because the negation is not needed any more. Exact.
    """

    matches = (SelectOp,)

    def rewrite(self, op: SelectOp, rewriter: RecordedRewriter) -> None:
        negation = maker(op.condition, UnaryOp)
        if negation is None or not is_kind(negation, "not"):
            return
        new = op.altered(condition=negation.input, if_true=op.if_false, if_false=op.if_true)
        rewriter.replace(op, new, absorbs=[negation])


class CastCondition(Rule):
    """select(c, 1, 0)   =>   cast(c)

    Applies when the condition has the result's shape. Pays because no constants are read, and
    because casts merge. Exact: true is 1, false is 0.
    """

    matches = (SelectOp,)

    def rewrite(self, op: SelectOp, rewriter: RecordedRewriter) -> None:
        weights = rewriter.weights
        if splat(op.if_true, weights) != 1.0 or splat(op.if_false, weights) != 0.0:
            return
        if dtype_of(op.condition) == np.bool_ and shape_of(op.condition) == shape_of(op.output):
            to = element_type_of(op.output)
            rewriter.replace(op, CastOp.make([op.condition], to=to))  # pyright: ignore


class KnownTruth(Rule):
    """c and true   =>   c;   c or false   =>   c;   c xor true   =>   not(c)

    Applies when the constant does not make the result larger than c. Pays because a pass over the
    tensor is saved, or its constant. Exact.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        truth = splat(op.right, rewriter.weights)
        if truth is None or dtype_of(op.left) != np.bool_ or op.left.type != op.output.type:
            return
        kind, holds = op.kind.data, bool(truth)
        if (kind, holds) in (("and", True), ("or", False), ("xor", False), ("equal", True)):
            rewriter.replace(op, op.left)
        elif (kind, holds) in (("xor", True), ("equal", False)):
            rewriter.replace(op, UnaryOp.make([op.left], kind="not"))


SELECT_RULES: tuple[type[Rule], ...] = (
    ChooseKnown,
    ChooseEqual,
    SwapChoices,
    CastCondition,
    KnownTruth,
)
