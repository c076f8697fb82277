"""Softmax and its logarithm from their pieces.

   %m = top.reduce(%x) {kind = "max", axes = [1], keepdims = true} : tensor<8x1xf32>
   %d = top.binary(%x, %m) {kind = "sub"} : tensor<8x10xf32>
   %e = top.unary(%d) {kind = "exp"} : tensor<8x10xf32>
   %s = top.reduce(%e) {kind = "sum", axes = [1], keepdims = true} : tensor<8x1xf32>
   %y = top.binary(%e, %s) {kind = "div"} : tensor<8x10xf32>
=> %y = top.softmax(%x) {axis = 1, logarithm = false} : tensor<8x10xf32>
"""

from __future__ import annotations

from explorer.ir.patterns import (
    Found,
    PatternRule,
    exp,
    log,
    operation,
    property_of,
    reciprocal,
    reduced,
    shared,
    softmax,
    value,
)
from explorer.ir.rewriting import RecordedRewriter, Rule
from explorer.ir.top.reductions.normalization import SoftmaxOp
from explorer.ir.top.reductions.reduction import ReduceOp

x = value("x")
axes = property_of("axes", lambda given: len(given) == 1)


class RecognizeSoftmax(PatternRule):
    """exp(x - max(x)) / sum(exp(x - max(x)))   =>   softmax(x)

    Applies along one axis, with the maximum subtracted or not (softmax does it anyway), when
    nothing else reads the steps between. Pays because one kernel does it all; without the maximum
    it also cannot overflow any more.
    """

    power = exp(shared(x - reduced("max", x, axes)) | x)
    total = reduced("sum", power, axes).telling()
    pattern = power / total | power * shared(reciprocal(total))

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> SoftmaxOp:
        return SoftmaxOp.make([found[x]], axis=found[axes][0], logarithm=False)


class RecognizeLogSoftmax(PatternRule):
    """log(softmax(x))   =>   softmax(x) {logarithm = true}

    Applies when nothing else reads the softmax. Pays because a pass over the tensor is saved, and
    because small probabilities do not vanish before their logarithm is taken.
    """

    weights = softmax(x).having(lambda op: not op.is_zero_masked, "NaN for rows that are masked")
    pattern = log(weights)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> SoftmaxOp:
        return found[self.weights].altered(logarithm=True)


class RecognizeLogSumExp(PatternRule):
    """x - log_sum_exp(x)   =>   softmax(x) {logarithm = true}

    Applies along one axis when nothing else reads the sum. Pays because one kernel does it all.
    """

    pattern = x - reduced("log_sum_exp", x, axes)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> SoftmaxOp:
        return SoftmaxOp.make([found[x]], axis=found[axes][0], logarithm=True)


class SumExponentials(PatternRule):
    """log(sum(exp(x)))   =>   log_sum_exp(x)

    Applies when nothing else reads the steps between. Pays because the exponentials are not
    stored, and because they cannot overflow any more.
    """

    total = operation(ReduceOp, exp(x), kind="sum")
    pattern = log(total)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> ReduceOp:
        return found[self.total].altered(input=found[x], kind="log_sum_exp")


SOFTMAX_RULES: tuple[type[Rule], ...] = (
    RecognizeSoftmax,
    RecognizeLogSoftmax,
    RecognizeLogSumExp,
    SumExponentials,
)
