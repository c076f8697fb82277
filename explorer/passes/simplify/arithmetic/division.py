"""Division by a constant is multiplication by its inverse, where rounding allows it.

   %1 = top.binary(%x, %four) {kind = "div"} : tensor<8xf32>
=> %1 = top.binary(%x, %quarter) {kind = "mul"} : tensor<8xf32>
"""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, CastOp, RealOperation, SelectOp, UnaryOp
from explorer.ir.top.movement.operation import MovementOperation
from explorer.ir.types import numpy_dtype
from explorer.passes.analysis.matching import constant, dtype_of, is_float, weight_name
from explorer.passes.simplify.arithmetic.constants import is_narrow_float

ROUNDING = ("round", "floor", "ceil", "sign")
COMPARING = ("equal", "less", "less_equal", "greater", "greater_equal")
_PASSES_ON = (RealOperation, SelectOp, MovementOperation)


class MultiplyInstead(Rule):
    """x / 4   =>   x * 0.25

    Applies to floats. Exact where the divisors are powers of two; otherwise the result may be off
    by one unit in the last place, and the rule declines where something rounds or compares it
    further down: a tie would fall to the other side. Pays because a division takes several times
    as long as a multiplication, and multiplications merge with one another and with weights.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "div" or not is_float(op.left):
            return
        divisor = constant(op.right, rewriter.weights)
        if divisor is None or constant(op.left, rewriter.weights) is not None:
            return
        with np.errstate(all="ignore"):
            inverse = (1 / divisor.astype(np.float64)).astype(dtype_of(op.left))
        tiny = float(ml_dtypes.finfo(inverse.dtype).smallest_normal)
        if not np.isfinite(inverse).all() or np.any(np.abs(inverse.astype(np.float64)) < tiny):
            raise Declined("the inverse of a divisor is no normal number of the element type")
        if not is_power_of_two(divisor):
            if is_narrow_float(op.left):
                raise Declined(f"{dtype_of(op.left)} has few digits: one rounding more would show")
            rounding = rounded_below(op.output)
            if rounding is not None:
                raise Declined(
                    f"{identity_of(rounding)} rounds the quotient: a tie could fall to the other "
                    "side"
                )
        value = rewriter.add_weight(op, weight_name(op, "inverse"), inverse)
        rewriter.replace(op, op.altered(right=value, kind="mul"))


def is_power_of_two(array: np.ndarray) -> bool:
    """Are all elements, sign aside, powers of two? Their inverses are exact."""
    mantissas, _ = np.frexp(np.abs(array.astype(np.float64)))
    return bool(np.all(mantissas == 0.5))


def rounded_below(value: SSAValue, furthest: int = 8) -> Operation | None:
    """An operation that rounds or compares what is made of the value elementwise; None if none.

    furthest: how many operations may stand between.
    """
    pending = [(value, 0)]
    while pending:
        current, depth = pending.pop()
        for user in _users(current):
            if _rounds(user):
                return user
            if depth < furthest and isinstance(user, _PASSES_ON):
                pending.append((user.results[0], depth + 1))
    return None


def _users(value: SSAValue) -> Iterator[Operation]:
    return (use.operation for use in value.uses)


def _rounds(op: Operation) -> bool:
    if isinstance(op, CastOp):  # to whole numbers, or to floats of 8 bits and less
        return not isinstance(op.to, AnyFloat) or numpy_dtype(op.to).itemsize == 1
    return isinstance(op, UnaryOp | BinaryOp) and op.kind.data in (*ROUNDING, *COMPARING)


DIVISION_RULES: tuple[type[Rule], ...] = (MultiplyInstead,)
