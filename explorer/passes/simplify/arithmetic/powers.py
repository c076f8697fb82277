"""Powers with a constant exponent, in operations that cost less.

   %1 = top.binary(%x, %two) {kind = "pow"} : tensor<8xf32>
=> %1 = top.binary(%x, %x) {kind = "mul"} : tensor<8xf32>
"""

from __future__ import annotations

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.passes.analysis.matching import is_float, splat
from explorer.passes.simplify.arithmetic.ranges import range_of


class MultiplyByItself(Rule):
    """pow(x, 2)   =>   x * x;   pow(x, 3)   =>   (x * x) * x;   pow(x, 1)   =>   x

    Applies when the exponent is constant and does not make the result larger than x. Pays because
    a product takes one instruction, a power dozens. At most one rounding per product.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        x = op.left
        if op.kind.data != "pow" or x.type != op.output.type:
            return
        exponent = splat(op.right, rewriter.weights)
        if exponent == 1.0:
            rewriter.replace(op, x)
        elif exponent == 2.0:
            rewriter.replace(op, BinaryOp.make([x, x], kind="mul"))
        elif exponent == 3.0:
            square = BinaryOp.make([x, x], kind="mul")
            rewriter.insert_before(op, square)
            rewriter.replace(op, BinaryOp.make([square.output, x], kind="mul"))


class TakeRoot(Rule):
    """pow(x, 0.5)   =>   sqrt(x);   pow(x, -0.5)   =>   reciprocal(sqrt(x))

    Applies to floats that are known not to be negative: pow makes infinity of minus infinity,
    where a root is not a number. Pays because a root takes one instruction, a power dozens.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        x = op.left
        if op.kind.data != "pow" or x.type != op.output.type or not is_float(x):
            return
        exponent = splat(op.right, rewriter.weights)
        if exponent not in (0.5, -0.5):
            return
        if range_of(x, rewriter.weights)[0] < 0:
            raise Declined(f"what {identity_of(op)} takes the root of may be negative")
        root = UnaryOp.make([x], kind="sqrt")
        if exponent == 0.5:
            rewriter.replace(op, root)
            return
        rewriter.insert_before(op, root)
        rewriter.replace(op, UnaryOp.make([root.output], kind="reciprocal"))


class InvertPower(Rule):
    """pow(x, -1)   =>   reciprocal(x)

    Applies to floats. Pays because a division takes one instruction, a power dozens.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        x = op.left
        if op.kind.data != "pow" or x.type != op.output.type or not is_float(x):
            return
        if splat(op.right, rewriter.weights) == -1.0:
            rewriter.replace(op, UnaryOp.make([x], kind="reciprocal"))


POWER_RULES: tuple[type[Rule], ...] = (MultiplyByItself, TakeRoot, InvertPower)
