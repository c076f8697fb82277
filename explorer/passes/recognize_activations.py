"""Activations that a model spells out become the one operation that they are.

    %1 = top.unary(%x) {kind = "sigmoid"} : tensor<8xf32>
    %2 = top.binary(%x, %1) {kind = "mul"} : tensor<8xf32>
 => %2 = top.unary(%x) {kind = "silu"} : tensor<8xf32>

Products are compared as a number times factors, so that their order does not matter:
0.5 * x * (1 + erf(x / 1.414...)) is gelu(x) however it is bracketed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from explorer.ir.rewriting import RecordedRewriter, Rule
from explorer.ir.top.elementwise import BinaryOp, UnaryOp
from explorer.ir.weights import Weights
from explorer.passes.fixpoint import FixpointPass
from explorer.passes.matching import (
    both_orders,
    constant,
    is_about,
    is_kind,
    maker,
    require_single_use,
    scalar,
    uses,
)
from explorer.passes.recognition.activations import ACTIVATION_RULES

INVERSE_ROOT_OF_TWO = 0.7071067811865476
ROOT_OF_TWO_OVER_PI = 0.7978845608028654


@dataclass(frozen=True)
class Product:
    """number * factors[0] * factors[1] ..., computed by `operations` (users first)."""

    number: float
    factors: tuple[SSAValue, ...]
    operations: tuple[Operation, ...]

    @staticmethod
    def of(value: SSAValue, weights: Weights) -> Product:
        """The value as a product; one factor, itself, where it is none.

        Multiplications that are used elsewhere too are factors: they are needed anyway.
        """
        op = value.owner
        if not isinstance(op, BinaryOp) or op.kind.data not in ("mul", "div"):
            return Product(1.0, (value,), ())
        left, right = Product._part(op.left, weights), Product._part(op.right, weights)
        operations = (op, *left.operations, *right.operations)
        if op.kind.data == "mul":
            return Product(left.number * right.number, left.factors + right.factors, operations)
        if right.factors or not right.number:
            return Product(1.0, (value,), ())
        return Product(left.number / right.number, left.factors, operations)

    @staticmethod
    def _part(value: SSAValue, weights: Weights) -> Product:
        number = scalar(value, weights)
        if number is not None:
            return Product(number, (), ())
        op = maker(value, BinaryOp)
        return Product.of(value, weights) if op and uses(op) == 1 else Product(1.0, (value,), ())

    def is_scaled(self, x: SSAValue, number: float, power: int = 1) -> bool:
        """Is it number * x^power?"""
        return is_about(self.number, number) and self.factors == (x,) * power

    def pairs(self) -> list[tuple[SSAValue, SSAValue]]:
        """Two factors in both orders; nothing for another number of factors."""
        if len(self.factors) != 2:
            return []
        first, second = self.factors
        return [(first, second), (second, first)]


class RecognizeRelu(Rule):
    """max(x, 0)   =>   relu(x)

    Applies when the other operand is a constant zero of one element. Pays because a relu fuses
    into the convolution before it.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        if op.kind.data != "max":
            return
        for x, other in both_orders(op):
            if scalar(other, rewriter.weights) == 0.0:
                _become(op, "relu", x, [], rewriter)
                return


class RecognizeLeakyRelu(Rule):
    """prelu(x, 0.1)   =>   leaky_relu(x) {alpha = 0.1}

    Applies when the slope is a constant of one element. Pays because a leaky relu fuses into the
    convolution before it.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        slope = scalar(op.right, rewriter.weights)
        if op.kind.data == "prelu" and slope is not None:
            _become(op, "leaky_relu", op.left, [], rewriter, alpha=slope)


class RecognizeSilu(Rule):
    """x * sigmoid(x)   =>   silu(x);   x * sigmoid(1.702 * x)   =>   silu(x) {alpha = 1.702}

    Applies when nothing else reads the steps between. Pays because it is one pass over the tensor
    instead of two or three, and fuses into the convolution before it. With a factor it is known as
    Swish, and with 1.702 as the quick GELU.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        product = Product.of(op.output, rewriter.weights)
        for x, gate in product.pairs():
            sigmoid = maker(gate, UnaryOp)
            if sigmoid is None or sigmoid.kind.data != "sigmoid" or product.number != 1.0:
                continue
            inner = Product(1.0, (x,), ())
            if sigmoid.input is not x:
                inner = Product.of(sigmoid.input, rewriter.weights)
            if inner.factors != (x,):
                continue
            absorbed = [*product.operations[1:], sigmoid, *inner.operations]
            alpha = None if inner.number == 1.0 else inner.number
            _become(op, "silu", x, absorbed, rewriter, alpha=alpha)
            return


class RecognizeMish(Rule):
    """x * tanh(softplus(x))   =>   mish(x)

    Applies when nothing else reads the steps between. Pays because it is one pass over the tensor
    instead of three, with one exponential instead of three functions, and fuses into the
    convolution before it. Misra, "Mish: A Self Regularized Non-Monotonic Activation Function",
    2019.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        product = Product.of(op.output, rewriter.weights)
        for x, gate in product.pairs():
            tanh = maker(gate, UnaryOp)
            softplus = None if tanh is None else maker(tanh.input, UnaryOp)
            if tanh is None or softplus is None or product.number != 1.0:
                continue
            if is_kind(tanh, "tanh") and is_kind(softplus, "softplus") and softplus.input is x:
                absorbed = [*product.operations[1:], tanh, softplus]
                _become(op, "mish", x, absorbed, rewriter)
                return


class RecognizeHardSigmoid(Rule):
    """clip(x + 3, 0, 6) / 6   =>   hard_sigmoid(x) {alpha = 1/6, beta = 0.5}

    Applies when nothing else reads the steps between. Pays because it is one pass over the tensor
    instead of three.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        product = Product.of(op.output, rewriter.weights)
        if len(product.factors) != 1 or not is_about(product.number, 1 / 6):
            return
        found = _clipped_sum(product.factors[0], rewriter.weights)
        if found is not None:
            x, steps = found
            absorbed = [*product.operations[1:], *steps]
            _become(op, "hard_sigmoid", x, absorbed, rewriter, alpha=1 / 6, beta=0.5)


class RecognizeHardSwish(Rule):
    """x * hard_sigmoid(x) {alpha = 1/6, beta = 0.5}   =>   hard_swish(x)

    Applies also to x * clip(x + 3, 0, 6) / 6, when nothing else reads the steps between. Pays
    because it is one pass over the tensor, and fuses into the convolution before it.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        product = Product.of(op.output, rewriter.weights)
        for x, gate in product.pairs():
            steps = self._gate_of(x, gate, product.number, rewriter.weights)
            if steps is not None:
                _become(op, "hard_swish", x, [*product.operations[1:], *steps], rewriter)
                return

    def _gate_of(
        self, x: SSAValue, gate: SSAValue, number: float, weights: Weights
    ) -> Sequence[Operation] | None:
        """What makes number * gate a hard_sigmoid(x), one operation or two; None for all else."""
        unary = maker(gate, UnaryOp)
        if unary is not None and unary.kind.data == "hard_sigmoid":
            slope, middle = unary.parameters
            agrees = number == 1.0 and is_about(slope, 1 / 6) and middle == 0.5
            return [unary] if agrees and unary.input is x else None
        found = _clipped_sum(gate, weights)
        agrees = found is not None and found[0] is x and is_about(number, 1 / 6)
        return found[1] if found is not None and agrees else None


class RecognizeGelu(Rule):
    """0.5 * x * (1 + erf(x * 0.7071...))   =>   gelu(x)

    Applies to x * (0.5 + 0.5 * erf(...)) and to 1 - erf(-...) as well, when nothing else reads the
    steps between. Pays because it is one pass over the tensor instead of five, and fuses into the
    matmul before it. The exact form of Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        product = Product.of(op.output, rewriter.weights)
        for x, value in product.pairs():
            gate = _Gate.of(value, "erf", rewriter.weights)
            if gate is None or not is_about(product.number * gate.number, 0.5):
                continue
            inner = Product.of(gate.function.input, rewriter.weights)
            if inner.is_scaled(x, gate.sign * INVERSE_ROOT_OF_TWO):
                absorbed = [*product.operations[1:], *gate.steps, *inner.operations]
                _become(op, "gelu", x, absorbed, rewriter)
                return


class RecognizeGeluTanh(Rule):
    """0.5 * x * (1 + tanh(0.7979 * (x + 0.044715 * x^3)))   =>   gelu_tanh(x)

    Applies to 0.7979 * x * (1 + 0.044715 * x^2) inside and to x * sigmoid(1.5958 * (...)) as well,
    when nothing else reads the steps between. Pays because it is one pass over the tensor instead
    of eight. The approximation of the same paper.
    """

    matches = (BinaryOp,)

    def rewrite(self, op: BinaryOp, rewriter: RecordedRewriter) -> None:
        product = Product.of(op.output, rewriter.weights)
        for x, value in product.pairs():
            gate = _Gate.of(value, "tanh", rewriter.weights) or _Gate.of_sigmoid(value)
            if gate is None or not is_about(product.number * gate.number, 0.5):
                continue
            inner = Product.of(gate.function.input, rewriter.weights)
            if not is_about(inner.number, gate.sign * ROOT_OF_TWO_OVER_PI * gate.stretch):
                continue
            cubic = _cubic(inner, x, rewriter.weights)
            if cubic is not None:
                absorbed = [*product.operations[1:], *gate.steps, *inner.operations, *cubic]
                _become(op, "gelu_tanh", x, absorbed, rewriter)
                return


@dataclass(frozen=True)
class _Gate:
    """number * (1 + sign * function(...)), users first in `steps`.

    stretch: what stands inside the function is that many times what stands inside a tanh.
    """

    number: float
    function: UnaryOp
    steps: tuple[Operation, ...]
    sign: int = 1
    stretch: float = 1.0

    @staticmethod
    def of(value: SSAValue, kind: str, weights: Weights) -> _Gate | None:
        """1 + f, c + c * f, or 1 - f (1 + sign * f with what stands inside negated)."""
        op = maker(value, BinaryOp)
        if op is None or op.kind.data not in ("add", "sub"):
            return None
        sign = 1 if op.kind.data == "add" else -1
        for term, other in both_orders(op) if sign == 1 else [(op.right, op.left)]:
            number, product = scalar(other, weights), Product.of(term, weights)
            if number is None or len(product.factors) != 1 or product.number != number:
                continue
            function = maker(product.factors[0], UnaryOp)
            if function is not None and is_kind(function, kind):
                return _Gate(number, function, (op, *product.operations, function), sign)
        return None

    @staticmethod
    def of_sigmoid(value: SSAValue) -> _Gate | None:
        """sigmoid(2 z) = 0.5 * (1 + tanh(z))"""
        function = maker(value, UnaryOp)
        if function is None or not is_kind(function, "sigmoid"):
            return None
        return _Gate(0.5, function, (function,), stretch=2.0)


def _clipped_sum(value: SSAValue, weights: Weights) -> tuple[SSAValue, list[Operation]] | None:
    """x and the steps of clip(x + 3, 0, 6); None for all else."""
    clip = maker(value, UnaryOp)
    if clip is None or clip.kind.data != "clip" or clip.parameters != (0.0, 6.0):
        return None
    add = maker(clip.input, BinaryOp)
    if add is None or add.kind.data != "add":
        return None
    for x, other in both_orders(add):
        if scalar(other, weights) == 3.0:
            return x, [clip, add]
    return None


def _cubic(inner: Product, x: SSAValue, weights: Weights) -> list[Operation] | None:
    """The steps of x + 0.044715 * x^3, or x * (1 + 0.044715 * x^2), but for a number."""
    if len(inner.factors) == 1:
        return _with_cubic_term(inner.factors[0], x, weights)
    for first, second in inner.pairs():
        add = maker(second, BinaryOp)
        if first is not x or add is None or add.kind.data != "add":
            continue
        for term, other in both_orders(add):
            square = Product.of(term, weights)
            if scalar(other, weights) == 1.0 and square.is_scaled(x, 0.044715, power=2):
                return [add, *square.operations]
    return None


def _with_cubic_term(value: SSAValue, x: SSAValue, weights: Weights) -> list[Operation] | None:
    """The steps of x + 0.044715 * x^3; None for all else."""
    add = maker(value, BinaryOp)
    if add is None or add.kind.data != "add":
        return None
    for first, other in both_orders(add):
        term = Product.of(other, weights)
        if first is not x:
            continue
        if term.is_scaled(x, 0.044715, power=3):
            return [add, *term.operations]
        power = maker(term.factors[0], BinaryOp) if len(term.factors) == 1 else None
        if power is None or power.kind.data != "pow" or power.left is not x:
            continue
        if is_about(term.number, 0.044715) and scalar(power.right, weights) == 3.0:
            return [add, *term.operations, power]
    return None


def _become(
    op: BinaryOp,
    kind: str,
    x: SSAValue,
    absorbed: Sequence[Operation],
    rewriter: RecordedRewriter,
    alpha: float | None = None,
    beta: float | None = None,
) -> None:
    """Replaces the whole expression; Declined where a step of it is needed for something else."""
    if x.type != op.output.type or constant(x, rewriter.weights) is not None:
        return
    for step in absorbed:
        require_single_use(step, f"{kind} would compute it again")
    rewriter.replace(op, UnaryOp.make([x], kind=kind, alpha=alpha, beta=beta), absorbs=absorbed)


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
