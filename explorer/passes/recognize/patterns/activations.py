"""Activation functions from exponentials, maxima and sums of two halves.

   %n = top.unary(%x) {kind = "neg"}; %e = top.unary(%n) {kind = "exp"}; %s = %e + 1; %y = 1 / %s
=> %y = top.unary(%x) {kind = "sigmoid"} : tensor<8xf32>
"""

from __future__ import annotations

from math import inf

import numpy as np

from explorer.ir.operation import identity_of
from explorer.ir.patterns import (
    Found,
    PatternRule,
    clip,
    exp,
    log,
    maximum,
    neg,
    number,
    reciprocal,
    relu,
    value,
    weight,
)
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.passes.analysis.matching import weight_name
from explorer.passes.simplify.arithmetic.clamps import Clamp

x, a, factors = value("x"), value("a"), weight("c")
slope, offset = number("slope"), number("offset")


class RecognizeSigmoid(PatternRule):
    """1 / (exp(-x) + 1)   =>   sigmoid(x);   a / (exp(-x) + 1)   =>   a * sigmoid(x)

    Applies when nothing else reads the steps between. Pays because it is one pass over the tensor
    instead of four, and fuses into the convolution before it.
    """

    power = exp(neg(x))
    quotient = a / (power + 1)
    pattern = reciprocal(power + 1) | quotient

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> UnaryOp | BinaryOp:
        sigmoid = UnaryOp.make([found[x]], kind="sigmoid")
        if self.quotient not in found:
            return sigmoid
        rewriter.insert_before(found.root, sigmoid, like=found[self.power])
        return found[self.quotient].altered(right=sigmoid.output, kind="mul")


class RecognizeSoftplus(PatternRule):
    """log(exp(x) + 1)   =>   softplus(x)

    Applies when nothing else reads the steps between. Pays because it is one pass over the tensor
    instead of three, and because it cannot overflow any more.
    """

    pattern = log(exp(x) + 1)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> UnaryOp:
        return UnaryOp.make([found[x]], kind="softplus")


class RecognizeLeakyMaximum(PatternRule):
    """max(x, x * 0.1)   =>   leaky_relu(x) {alpha = 0.1}

    Applies to a factor between 0 and 1, when nothing else reads the product. Pays because it is
    one pass over the tensor instead of two, and fuses into the convolution before it. Exact.
    """

    pattern = maximum(x, x * slope).like(x)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> UnaryOp:
        if not 0 <= found[slope] <= 1:
            name = identity_of(found.root)
            raise Declined(f"the slope {found[slope]} of {name} is not between 0 and 1")
        return UnaryOp.make([found[x]], kind="leaky_relu", alpha=found[slope])


class RecognizeBound(Rule):
    """max(x, -0.4)   =>   clip(x) {alpha = -0.4, beta = inf}      (min likewise)

    Applies to floats and a number other than 0, for which it is a relu. Pays because a clip fuses
    into the convolution before it, an operation with two operands does not. Exact.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        clamp = Clamp.of(op, rewriter.weights)
        if clamp is None or (clamp.low, clamp.high) == (0.0, inf):
            return
        new = UnaryOp.make([clamp.input], kind="clip", alpha=clamp.low, beta=clamp.high)
        rewriter.replace(op, new)


class RecognizeHardSigmoidClip(PatternRule):
    """clip(x * 0.2 + 0.5, 0, 1)   =>   hard_sigmoid(x) {alpha = 0.2, beta = 0.5}

    Applies when nothing else reads the steps between. Pays because it is one pass over the tensor
    instead of three, and fuses into the convolution before it.
    """

    pattern = clip(x * slope + offset, 0, 1).like(x)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> UnaryOp:
        alpha, beta = found[slope], found[offset]
        return UnaryOp.make([found[x]], kind="hard_sigmoid", alpha=alpha, beta=beta)


class RecognizePrelu(PatternRule):
    """relu(x) + relu(-x) * c   =>   prelu(x, -c)

    Applies to a constant c, in the form that Keras exports, when nothing else reads the steps
    between. Pays because it is one pass over the tensor instead of five. Exact.
    """

    pattern = (relu(x) + relu(neg(x)) * factors).like(x)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> BinaryOp:
        name, slopes = weight_name(found.root, "slope"), np.negative(found[factors])
        negative = rewriter.add_weight(found.root, name, slopes)
        return BinaryOp.make([found[x], negative], kind="prelu")


ACTIVATION_RULES: tuple[type[Rule], ...] = (
    RecognizeSigmoid,
    RecognizeSoftplus,
    RecognizeLeakyMaximum,
    RecognizeBound,
    RecognizeHardSigmoidClip,
    RecognizePrelu,
)
