"""Activation functions from exponentials, maxima and sums of two halves.

   %n = top.unary(%x) {kind = "neg"}; %e = top.unary(%n) {kind = "exp"}; %s = %e + 1; %y = 1 / %s
=> %y = top.unary(%x) {kind = "sigmoid"} : tensor<8xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from xdsl.ir import Operation, SSAValue

from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.rewriting import Declined, RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.weights import Weights
from explorer.passes.arithmetic.clamps import Clamp
from explorer.passes.matching import (
    both_orders,
    constant,
    is_kind,
    is_used_once,
    maker,
    scalar,
    weight_name,
)


class RecognizeSigmoid(Rule):
    """1 / (exp(-x) + 1)   =>   sigmoid(x);   a / (exp(-x) + 1)   =>   a * sigmoid(x)

    Applies when nothing else reads the steps between. Pays because it is one pass over the tensor
    instead of four, and fuses into the convolution before it.
    """

    matches = (UnaryOp, BinaryOp)

    def rewrite(self, op: UnaryOp | BinaryOp, rewriter: RecordedRewriter) -> None:
        is_quotient = isinstance(op, BinaryOp)
        if op.kind.data != ("div" if is_quotient else "reciprocal"):
            return
        divisor = op.right if is_quotient else op.input
        found = _one_plus_exponential(divisor, rewriter.weights)
        if found is None:
            return
        power, steps = found
        negation = maker(power.input, UnaryOp)
        if negation is None or not is_kind(negation, "neg"):
            return
        steps = [*steps, negation]
        _require_single_uses(steps)
        sigmoid = UnaryOp.make([negation.input], kind="sigmoid")
        if not is_quotient:
            rewriter.replace(op, sigmoid, absorbs=steps)
            return
        rewriter.insert_before(op, sigmoid, like=power)
        product = op.altered(right=sigmoid.output, kind="mul")
        rewriter.replace(op, product, absorbs=steps)


class RecognizeSoftplus(Rule):
    """log(exp(x) + 1)   =>   softplus(x)

    Applies when nothing else reads the steps between. Pays because it is one pass over the tensor
    instead of three, and because it cannot overflow any more.
    """

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "log":
            return
        found = _one_plus_exponential(op.input, rewriter.weights)
        if found is not None:
            power, steps = found
            _require_single_uses(steps)
            rewriter.replace(op, UnaryOp.make([power.input], kind="softplus"), absorbs=steps)


def _one_plus_exponential(
    value: SSAValue, weights: Weights
) -> tuple[UnaryOp, list[TopOperation]] | None:
    """The exponential and all steps of exp(...) + 1; None for all else."""
    add = maker(value, BinaryOp)
    if add is None or not is_kind(add, "add"):
        return None
    for term, other in both_orders(add):
        power = maker(term, UnaryOp)
        if power is not None and is_kind(power, "exp") and scalar(other, weights) == 1.0:
            return power, [add, power]
    return None


class RecognizeLeakyMaximum(Rule):
    """max(x, x * 0.1)   =>   leaky_relu(x) {alpha = 0.1}

    Applies to a factor between 0 and 1, when nothing else reads the product. Pays because it is
    one pass over the tensor instead of two, and fuses into the convolution before it. Exact.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "max":
            return
        for x, other in both_orders(op):
            product = maker(other, BinaryOp)
            if product is None or not is_kind(product, "mul"):
                continue
            for value, number in both_orders(product):
                slope = scalar(number, rewriter.weights)
                if value is not x or slope is None or x.type != op.output.type:
                    continue
                if not 0 <= slope <= 1:
                    raise Declined(f"the slope {slope} of {identity_of(op)} is not between 0 and 1")
                _require_single_uses([product])
                new = UnaryOp.make([x], kind="leaky_relu", alpha=slope)
                rewriter.replace(op, new, absorbs=[product])
                return


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


class RecognizeHardSigmoidClip(Rule):
    """clip(x * 0.2 + 0.5, 0, 1)   =>   hard_sigmoid(x) {alpha = 0.2, beta = 0.5}

    Applies when nothing else reads the steps between. Pays because it is one pass over the tensor
    instead of three, and fuses into the convolution before it.
    """

    matches = (UnaryOp,)

    def rewrite(self, op: UnaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "clip" or op.parameters != (0.0, 1.0):
            return
        add = maker(op.input, BinaryOp)
        if add is None or not is_kind(add, "add"):
            return
        product, offset = maker(add.left, BinaryOp), scalar(add.right, rewriter.weights)
        if product is None or offset is None or not is_kind(product, "mul"):
            return
        slope = scalar(product.right, rewriter.weights)
        if slope is None or product.left.type != op.output.type:
            return
        _require_single_uses([add, product])
        new = UnaryOp.make([product.left], kind="hard_sigmoid", alpha=slope, beta=offset)
        rewriter.replace(op, new, absorbs=[add, product])


class RecognizePrelu(Rule):
    """relu(x) + relu(-x) * c   =>   prelu(x, -c)

    Applies to a constant c, in the form that Keras exports, when nothing else reads the steps
    between. Pays because it is one pass over the tensor instead of five. Exact.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "add":
            return
        for positive, other in both_orders(op):
            product, relu = maker(other, BinaryOp), maker(positive, UnaryOp)
            if product is None or relu is None or not is_kind(product, "mul"):
                continue
            negative = maker(product.left, UnaryOp)
            factor = constant(product.right, rewriter.weights)
            if negative is None or factor is None:
                continue
            if not is_kind(relu, "relu") or not is_kind(negative, "relu"):
                continue
            negation = maker(negative.input, UnaryOp)
            if negation is None or not is_kind(negation, "neg"):
                continue
            if negation.input is not relu.input or relu.input.type != op.output.type:
                continue
            steps = [relu, product, negative, negation]
            _require_single_uses(steps)
            slope = rewriter.add_weight(op, weight_name(op, "slope"), np.negative(factor))
            new = BinaryOp.make([relu.input, slope], kind="prelu")
            rewriter.replace(op, new, absorbs=steps)
            return


def _require_single_uses(steps: Sequence[Operation]) -> None:
    for step in steps:
        if not is_used_once(step):
            raise Declined(f"{identity_of(step)} is needed elsewhere too")


ACTIVATION_RULES: tuple[type[Rule], ...] = (
    RecognizeSigmoid,
    RecognizeSoftplus,
    RecognizeLeakyMaximum,
    RecognizeBound,
    RecognizeHardSigmoidClip,
    RecognizePrelu,
)
