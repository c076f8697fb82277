"""Signs and functions that undo, repeat or ignore one another: -(-x), relu(relu(x)), |-x|.

   %1 = top.unary(%x) {kind = "neg"} : tensor<8xf32>
   %2 = top.unary(%1) {kind = "neg"} : tensor<8xf32>
   top.return(%2)
=> top.return(%x)
"""

from __future__ import annotations

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.types import element_type_of
from explorer.passes.analysis.matching import is_float, is_kind, is_used_once, maker, splat

OWN_INVERSES = ("neg", "not")
IDEMPOTENT = ("relu", "abs", "sign", "floor", "ceil", "round")
ROUNDINGS = ("floor", "ceil", "round")
EVEN = ("abs", "cos")


class CancelPair(Rule):
    """neg(neg(x))   =>   x      (not(not(x)) likewise)

    Applies to two of the same kind in a row. Pays because both passes over the tensor are saved.
    Exact.
    """

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, UnaryOp)
        if inner is not None and op.kind == inner.kind and op.kind.data in OWN_INVERSES:
            rewriter.replace(op, inner.input, absorbs=[inner])


class ApplyOnce(Rule):
    """relu(relu(x))   =>   relu(x)      (abs, sign, floor, ceil and round likewise)

    Applies to a function that changes nothing the second time, and to any rounding of what is
    rounded already. Pays because a pass over the tensor is saved. Exact.
    """

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, UnaryOp)
        if inner is None:
            return
        kind, before = op.kind.data, inner.kind.data
        is_same = kind == before and kind in IDEMPOTENT
        if is_same or (kind in ROUNDINGS and before in ROUNDINGS):
            rewriter.replace(op, inner.output)


class IgnoreSign(Rule):
    """abs(neg(x))   =>   abs(x)      (cos(neg(x)) likewise)

    Applies to even functions. Pays because the negation is not needed any more. Exact.
    """

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, UnaryOp)
        if inner is not None and op.kind.data in EVEN and is_kind(inner, "neg"):
            rewriter.replace(op, op.altered(input=inner.input), absorbs=[inner])


class SubtractInstead(Rule):
    """a + neg(b)   =>   a - b;   neg(a) + b   =>   b - a;   a - neg(b)   =>   a + b

    Applies when nothing else reads the negation. Pays because a pass over the tensor is saved.
    Exact: negation does not round.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        kind = op.kind.data
        if kind not in ("add", "sub"):
            return
        right, left = maker(op.right, UnaryOp), maker(op.left, UnaryOp)
        if right is not None and is_kind(right, "neg"):
            self._require_single_use(right)
            other = "sub" if kind == "add" else "add"
            new = op.altered(right=right.input, kind=other)
            rewriter.replace(op, new, absorbs=[right])
        elif kind == "add" and left is not None and is_kind(left, "neg"):
            self._require_single_use(left)
            new = op.altered(left=op.right, right=left.input, kind="sub")
            rewriter.replace(op, new, absorbs=[left])

    @staticmethod
    def _require_single_use(negation: UnaryOp) -> None:
        if not is_used_once(negation):
            raise Declined(f"{identity_of(negation)} is needed elsewhere too")


class SwapDifference(Rule):
    """neg(a - b)   =>   b - a

    Applies to floats when nothing else reads the difference. Pays because a pass over the tensor
    is saved. Exact, but for the sign of a zero.
    """

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, BinaryOp)
        if op.kind.data != "neg" or inner is None or not is_kind(inner, "sub"):
            return
        if not is_used_once(inner):
            raise Declined(f"{identity_of(inner)} is needed elsewhere too")
        new = inner.altered(left=inner.right, right=inner.left)
        rewriter.replace(op, new, absorbs=[inner])


class NegateInstead(Rule):
    """x * -1   =>   neg(x);   0 - x   =>   neg(x)

    Applies when the constant does not make the result larger than x. Pays because no constant is
    read, and because negations take part in other rules. Exact, but for the sign of a zero.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        kind = op.kind.data
        if kind == "mul" and splat(op.right, rewriter.weights) == -1.0:
            x = op.left
        elif kind == "sub" and splat(op.left, rewriter.weights) == 0.0:
            x = op.right
        else:
            return
        if x.type == op.output.type:
            rewriter.replace(op, UnaryOp.make([x], kind="neg"))


class InvertInstead(Rule):
    """1 / x   =>   reciprocal(x)

    Applies to floats when x has the result's shape. Pays because no constant is read, and because
    reciprocals take part in other rules. Exact: it is the same division.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "div" or not is_float(op.right) or op.right.type != op.output.type:
            return
        if splat(op.left, rewriter.weights) == 1.0:
            rewriter.replace(op, UnaryOp.make([op.right], kind="reciprocal"))


class DivideInstead(Rule):
    """x * reciprocal(y)   =>   x / y

    Applies when nothing else reads the reciprocal and y has the result's shape. Where y is
    smaller it is cheaper to invert it first, and the product stays. Pays because one pass over
    the tensor is saved; the result is rounded once instead of twice.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "mul":
            return
        for x, other in ((op.left, op.right), (op.right, op.left)):
            inverse = maker(other, UnaryOp)
            if inverse is None or not is_kind(inverse, "reciprocal"):
                continue
            if inverse.input.type != op.output.type:
                raise Declined(
                    f"{identity_of(inverse)} is broadcast: inverting it first is cheaper"
                )
            if not is_used_once(inverse):
                raise Declined(f"{identity_of(inverse)} is needed elsewhere too")
            new = op.altered(left=x, right=inverse.input, kind="div")
            rewriter.replace(op, new, absorbs=[inverse])
            return


class MergeEqualOperands(Rule):
    """max(x, x)   =>   x      (min, and, or likewise)

    Applies when both operands are the same value. Pays because a pass over the tensor is saved.
    Exact.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data in ("max", "min", "and", "or") and op.left is op.right:
            rewriter.replace(op, op.left)


class NegateComparison(Rule):
    """not(a < b)   =>   a >= b

    Applies to comparisons of whole numbers that nothing else reads. Not to floats, where neither
    holds of not-a-number. Pays because a pass over the tensor is saved. Exact.
    """

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        inner = maker(op.input, BinaryOp)
        if op.kind.data != "not" or inner is None:
            return
        opposite = _OPPOSITES.get(inner.kind.data)
        if opposite is None:
            return
        if is_float(inner.left):
            kind = element_type_of(inner.left)
            raise Declined(f"{identity_of(inner)} compares {kind}: not-a-number is in no order")
        if not is_used_once(inner):
            raise Declined(f"{identity_of(inner)} is needed elsewhere too")
        rewriter.replace(op, inner.altered(kind=opposite), absorbs=[inner])


_OPPOSITES = {
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}

SIGN_RULES: tuple[type[Rule], ...] = (
    CancelPair,
    ApplyOnce,
    IgnoreSign,
    SubtractInstead,
    SwapDifference,
    NegateInstead,
    InvertInstead,
    DivideInstead,
    MergeEqualOperands,
    NegateComparison,
)
