"""Activations that a model spells out become the one operation that they are.

    %1 = top.unary(%x) {kind = "sigmoid"} : tensor<8xf32>
    %2 = top.binary(%x, %1) {kind = "mul"} : tensor<8xf32>
 => %2 = top.unary(%x) {kind = "silu"} : tensor<8xf32>

Products are looked for as a number times factors, so that their order does not matter:
0.5 * x * (1 + erf(x / 1.414...)) is gelu(x) however it is bracketed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from explorer.ir.constants import is_about
from explorer.ir.patterns import (
    Found,
    PatternRule,
    about,
    binary,
    clip,
    computed,
    erf,
    maximum,
    number,
    product,
    sigmoid,
    softplus,
    tanh,
    unary,
)
from explorer.ir.rewriting import RecordedRewriter
from explorer.ir.top.elementwise import UnaryOp
from explorer.passes.fixpoint import FixpointPass
from explorer.passes.recognize.patterns.activations import ACTIVATION_RULES

INVERSE_ROOT_OF_TWO = 0.7071067811865476
ROOT_OF_TWO_OVER_PI = 0.7978845608028654

x, slope = computed("x"), number("slope")
outer, middle, inner = number("outer"), number("middle"), number("inner")
clipped = clip(x + 3, 0, 6)


class _ActivationRule(PatternRule):
    """A pattern over x that becomes one activation of x."""

    kind: ClassVar[str]

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> UnaryOp:
        return UnaryOp.make([found[x]], kind=self.kind)


class RecognizeRelu(_ActivationRule):
    """max(x, 0)   =>   relu(x)

    Applies when the other operand is a constant zero of one element. Pays because a relu fuses
    into the convolution before it.
    """

    kind = "relu"
    pattern = maximum(x, 0).like(x)


class RecognizeLeakyRelu(PatternRule):
    """prelu(x, 0.1)   =>   leaky_relu(x) {alpha = 0.1}

    Applies when the slope is a constant of one element. Pays because a leaky relu fuses into the
    convolution before it.
    """

    pattern = binary("prelu", x, slope).like(x)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> UnaryOp:
        return UnaryOp.make([found[x]], kind="leaky_relu", alpha=found[slope])


class RecognizeSilu(PatternRule):
    """x * sigmoid(x)   =>   silu(x);   x * sigmoid(1.702 * x)   =>   silu(x) {alpha = 1.702}

    Applies when nothing else reads the steps between. Pays because it is one pass over the tensor
    instead of two or three, and fuses into the convolution before it. With a factor it is known as
    Swish, and with 1.702 as the quick GELU.
    """

    pattern = product(1, x, sigmoid(product(inner, x))).like(x)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> UnaryOp:
        alpha = None if found[inner] == 1.0 else found[inner]
        return UnaryOp.make([found[x]], kind="silu", alpha=alpha)


class RecognizeMish(_ActivationRule):
    """x * tanh(softplus(x))   =>   mish(x)

    Applies when nothing else reads the steps between. Pays because it is one pass over the tensor
    instead of three, with one exponential instead of three functions, and fuses into the
    convolution before it. Misra, "Mish: A Self Regularized Non-Monotonic Activation Function",
    2019.
    """

    kind = "mish"
    pattern = product(1, x, tanh(softplus(x))).like(x)


class RecognizeHardSigmoid(PatternRule):
    """clip(x + 3, 0, 6) / 6   =>   hard_sigmoid(x) {alpha = 1/6, beta = 0.5}

    Applies when nothing else reads the steps between. Pays because it is one pass over the tensor
    instead of three.
    """

    pattern = product(about(1 / 6), clipped).like(x)

    def replacement(self, found: Found, rewriter: RecordedRewriter) -> UnaryOp:
        return UnaryOp.make([found[x]], kind="hard_sigmoid", alpha=1 / 6, beta=0.5)


def _is_sixth(op: UnaryOp) -> bool:
    alpha, beta = op.parameters
    return is_about(alpha, 1 / 6) and beta == 0.5


class RecognizeHardSwish(_ActivationRule):
    """x * hard_sigmoid(x) {alpha = 1/6, beta = 0.5}   =>   hard_swish(x)

    Applies also to x * clip(x + 3, 0, 6) / 6, when nothing else reads the steps between. Pays
    because it is one pass over the tensor, and fuses into the convolution before it.
    """

    kind = "hard_swish"
    gate = unary("hard_sigmoid", x).having(_is_sixth)
    pattern = (product(1, x, gate) | product(about(1 / 6), x, clipped)).like(x)


class RecognizeGelu(_ActivationRule):
    """0.5 * x * (1 + erf(x * 0.7071...))   =>   gelu(x)

    Applies to x * (0.5 + 0.5 * erf(...)) and to 1 - erf(-...) as well, when nothing else reads the
    steps between. Pays because it is one pass over the tensor instead of five, and fuses into the
    matmul before it. The exact form of Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
    """

    kind = "gelu"
    error = product(middle, erf(product(inner, x)))
    complement = middle - error
    pattern = (
        product(outer, x, middle + error | complement)
        .like(x)
        .where(lambda found: RecognizeGelu.is_scaled(found), "erf is taken of no x / sqrt(2)")
        .where(lambda found: is_about(found[outer] * found[middle], 0.5))
    )

    @classmethod
    def is_scaled(cls, found: Found) -> bool:
        sign = -1 if cls.complement in found else 1
        return is_about(found[inner], sign * INVERSE_ROOT_OF_TWO)


class RecognizeGeluTanh(_ActivationRule):
    """0.5 * x * (1 + tanh(0.7979 * (x + 0.044715 * x^3)))   =>   gelu_tanh(x)

    Applies to 0.7979 * x * (1 + 0.044715 * x^2) inside and to x * sigmoid(1.5958 * (...)) as well,
    when nothing else reads the steps between. Pays because it is one pass over the tensor instead
    of eight. The approximation of the same paper.
    """

    kind = "gelu_tanh"
    cube = product(about(0.044715), x, x, x) | product(about(0.044715), x**3)
    square = product(about(0.044715), x, x)
    polynomial = product(inner, x + cube) | product(inner, x, 1 + square)
    error = product(middle, tanh(polynomial))
    complement = middle - error
    gate = sigmoid(polynomial)
    pattern = (
        product(outer, x, middle + error | complement | gate)
        .like(x)
        .where(lambda found: RecognizeGeluTanh.is_scaled(found), "its polynomial is not a GELU's")
        .where(lambda found: is_about(found[outer] * RecognizeGeluTanh.half(found), 0.5))
    )

    @classmethod
    def half(cls, found: Found) -> float:
        """sigmoid(2 z) = 0.5 * (1 + tanh(z))"""
        return 0.5 if cls.gate in found else found[middle]

    @classmethod
    def is_scaled(cls, found: Found) -> bool:
        stretch = 2 if cls.gate in found else -1 if cls.complement in found else 1
        return is_about(found[inner], stretch * ROOT_OF_TWO_OVER_PI)


@dataclass(frozen=True)
class RecognizeActivations(FixpointPass):
    """Activation functions that are spelled out in arithmetic become single operations."""

    name = "recognize-activations"
    rules = (
        RecognizeRelu,
        RecognizeLeakyRelu,
        RecognizeSilu,
        RecognizeMish,
        RecognizeHardSigmoid,
        RecognizeHardSwish,
        RecognizeGelu,
        RecognizeGeluTanh,
        *ACTIVATION_RULES,
    )
