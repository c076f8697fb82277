"""Softmax and its logarithm from their pieces.

   %m = top.reduce(%x) {kind = "max", axes = [1], keepdims = true} : tensor<8x1xf32>
   %d = top.binary(%x, %m) {kind = "sub"} : tensor<8x10xf32>
   %e = top.unary(%d) {kind = "exp"} : tensor<8x10xf32>
   %s = top.reduce(%e) {kind = "sum", axes = [1], keepdims = true} : tensor<8x1xf32>
   %y = top.binary(%e, %s) {kind = "div"} : tensor<8x10xf32>
=> %y = top.softmax(%x) {axis = 1, logarithm = false} : tensor<8x10xf32>
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.top.normalization import SoftmaxOp
from explorer.ir.top.reduction import ReduceOp
from explorer.passes.matching import both_orders, is_kind, is_used_once, maker, uses


class RecognizeSoftmax(Rule):
    """exp(x - max(x)) / sum(exp(x - max(x)))   =>   softmax(x)

    Applies along one axis, with the maximum subtracted or not (softmax does it anyway), when
    nothing else reads the steps between. Pays because one kernel does it all; without the maximum
    it also cannot overflow any more.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        for value, divisor, inverse in _quotients(op):
            power, total = maker(value, UnaryOp), maker(divisor, ReduceOp)
            if power is None or total is None or not is_kind(power, "exp"):
                continue
            axis = reduced_axis(total, "sum", power.output)
            if axis is None:
                continue
            if uses(power) != 2 or not is_used_once(total):
                raise Declined(f"{identity_of(power)} or its sum is needed elsewhere too")
            x, steps = _without_maximum(power.input, axis)
            new = SoftmaxOp.make([x], axis=axis, logarithm=False)
            rewriter.replace(op, new, absorbs=[*inverse, total, power, *steps])
            return


class RecognizeLogSoftmax(Rule):
    """log(softmax(x))   =>   softmax(x) {logarithm = true}

    Applies when nothing else reads the softmax. Pays because a pass over the tensor is saved, and
    because small probabilities do not vanish before their logarithm is taken.
    """

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        softmax = maker(op.input, SoftmaxOp)
        if softmax is None or not is_kind(op, "log") or softmax.get("logarithm"):
            return
        if not is_used_once(softmax):
            raise Declined(f"{identity_of(softmax)} is needed elsewhere too")
        rewriter.replace(op, softmax.altered(logarithm=True), absorbs=[softmax])


class RecognizeLogSumExp(Rule):
    """x - log_sum_exp(x)   =>   softmax(x) {logarithm = true}

    Applies along one axis when nothing else reads the sum. Pays because one kernel does it all.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        total = maker(op.right, ReduceOp)
        if total is None or op.kind.data != "sub":
            return
        axis = reduced_axis(total, "log_sum_exp", op.left)
        if axis is None:
            return
        if not is_used_once(total):
            raise Declined(f"{identity_of(total)} is needed elsewhere too")
        new = SoftmaxOp.make([op.left], axis=axis, logarithm=True)
        rewriter.replace(op, new, absorbs=[total])


class SumExponentials(Rule):
    """log(sum(exp(x)))   =>   log_sum_exp(x)

    Applies when nothing else reads the steps between. Pays because the exponentials are not
    stored, and because they cannot overflow any more.
    """

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        total = maker(op.input, ReduceOp)
        if total is None or not is_kind(op, "log") or total.kind.data != "sum":
            return
        power = maker(total.input, UnaryOp)
        if power is None or not is_kind(power, "exp"):
            return
        if not is_used_once(power) or not is_used_once(total):
            raise Declined(f"{identity_of(power)} or its sum is needed elsewhere too")
        new = total.altered(input=power.input, kind="log_sum_exp")
        rewriter.replace(op, new, absorbs=[total, power])


def reduced_axis(total: ReduceOp, kind: str, x: SSAValue) -> int | None:
    """The axis that the reduction of x runs over, if it is one of that kind that keeps it."""
    axes = total.get("axes")
    fits = total.kind.data == kind and total.input is x and total.get("keepdims")
    return int(axes[0]) if fits and len(axes) == 1 else None


def _quotients(op: BinaryOp) -> list[tuple[SSAValue, SSAValue, list[Operation]]]:
    """a and b of a / b, and of a * reciprocal(b) in both orders, with the reciprocal."""
    if op.kind.data == "div":
        return [(op.left, op.right, [])]
    found: list[tuple[SSAValue, SSAValue, list[Operation]]] = []
    for value, other in both_orders(op) if op.kind.data == "mul" else []:
        inverse = maker(other, UnaryOp)
        if inverse is not None and is_kind(inverse, "reciprocal"):
            found.append((value, inverse.input, [inverse]))
    return found


def _without_maximum(value: SSAValue, axis: int) -> tuple[SSAValue, list[Operation]]:
    """x and the steps of x - max(x) along the axis; the value itself and none for all else."""
    difference = maker(value, BinaryOp)
    if difference is None or not is_kind(difference, "sub"):
        return value, []
    greatest = maker(difference.right, ReduceOp)
    if greatest is None or reduced_axis(greatest, "max", difference.left) != axis:
        return value, []
    return difference.left, [difference, greatest]


SOFTMAX_RULES: tuple[type[Rule], ...] = (
    RecognizeSoftmax,
    RecognizeLogSoftmax,
    RecognizeLogSumExp,
    SumExponentials,
)
