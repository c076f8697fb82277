"""Elementwise operations: `top.unary`, `top.binary`, `top.select`, `top.cast`.

The family is one operation with a `kind`; each kind states its NumPy meaning and its scalar body
side by side in one table.
"""

from __future__ import annotations

import math as python_math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, StringAttr, TensorType, i1
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from explorer.ir.compute import KernelBuilder, Scalar, ScalarBuilder
from explorer.ir.operation import Access, TopOperation
from explorer.ir.types import Shape, element_type_of, numpy_dtype, shape_of, tensor_type


@dataclass(frozen=True)
class UnaryKind:
    """`meaning(x, alpha, beta)` on arrays; `body(s, x, alpha, beta)` on scalars."""

    meaning: Callable[[np.ndarray, float, float], np.ndarray]
    body: Callable[[ScalarBuilder, Scalar, float, float], Scalar]
    keeps_finite: bool = True
    alpha: float = 0.0
    beta: float = 0.0
    """Defaults of the two parameters, as ONNX has them."""


def _sigmoid(x: np.ndarray) -> np.ndarray:
    """Overflow-free on both sides: exp is taken of negative numbers only."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(python_math.erf, otypes=[np.float64])(x).astype(x.dtype)


def _sigmoid_body(x: Scalar) -> Scalar:
    return x.constant(1.0) / (x.negate().unary(math.ExpOp) + 1.0)


def _gelu_body(x: Scalar) -> Scalar:
    return x * 0.5 * ((x * 0.7071067811865476).unary(math.ErfOp) + 1.0)


def _gelu_tanh_body(x: Scalar) -> Scalar:
    inner = (x + x * x * x * 0.044715) * 0.7978845608028654
    return x * 0.5 * (inner.unary(math.TanhOp) + 1.0)


def _softplus_body(x: Scalar) -> Scalar:
    """log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))."""
    small = x.unary(math.AbsFOp).negate().unary(math.ExpOp)
    return x.maximum(0.0) + (small + 1.0).unary(math.LogOp)


def _abs_body(x: Scalar) -> Scalar:
    if isinstance(x.value.type, AnyFloat):
        return x.unary(math.AbsFOp)
    return x.compare("lt", 0).select(x.negate(), x)


def _sign_body(x: Scalar) -> Scalar:
    """NaN keeps being NaN: both comparisons are false, and x itself is returned."""
    negative = x.compare("lt", 0).select(-1, x)
    return x.compare("gt", 0).select(1, negative)


def _clip(x: np.ndarray, low: float, high: float) -> np.ndarray:
    return np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))


def _logical_not(s: ScalarBuilder, x: Scalar, a: float, b: float) -> Scalar:
    return x.logical_xor(x.constant(1))


UNARY: dict[str, UnaryKind] = {
    "relu": UnaryKind(lambda x, a, b: np.maximum(x, 0), lambda s, x, a, b: x.maximum(0)),
    "leaky_relu": UnaryKind(
        lambda x, a, b: np.where(x >= 0, x, x * x.dtype.type(a)),
        lambda s, x, a, b: x.compare("ge", 0.0).select(x, x * a),
        alpha=0.01,
    ),
    "clip": UnaryKind(_clip, lambda s, x, a, b: x.maximum(a).minimum(b)),
    "sigmoid": UnaryKind(lambda x, a, b: _sigmoid(x), lambda s, x, a, b: _sigmoid_body(x)),
    "hard_sigmoid": UnaryKind(
        lambda x, a, b: _clip(x * x.dtype.type(a) + x.dtype.type(b), 0, 1),
        lambda s, x, a, b: (x * a + b).maximum(0.0).minimum(1.0),
        alpha=0.2,
        beta=0.5,
    ),
    "hard_swish": UnaryKind(
        lambda x, a, b: x * _clip(x / x.dtype.type(6) + x.dtype.type(0.5), 0, 1),
        lambda s, x, a, b: x * (x * (1 / 6) + 0.5).maximum(0.0).minimum(1.0),
    ),
    "silu": UnaryKind(lambda x, a, b: x * _sigmoid(x), lambda s, x, a, b: x * _sigmoid_body(x)),
    "tanh": UnaryKind(lambda x, a, b: np.tanh(x), lambda s, x, a, b: x.unary(math.TanhOp)),
    "erf": UnaryKind(lambda x, a, b: _erf(x), lambda s, x, a, b: x.unary(math.ErfOp)),
    "gelu": UnaryKind(
        lambda x, a, b: (x * 0.5 * (1 + _erf(x * np.sqrt(0.5)))).astype(x.dtype),
        lambda s, x, a, b: _gelu_body(x),
    ),
    "gelu_tanh": UnaryKind(
        lambda x, a, b: (
            x * 0.5 * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
        ).astype(x.dtype),
        lambda s, x, a, b: _gelu_tanh_body(x),
    ),
    "elu": UnaryKind(
        lambda x, a, b: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))).astype(x.dtype),
        lambda s, x, a, b: x.compare("ge", 0.0).select(
            x, (x.minimum(0.0).unary(math.ExpOp) - 1.0) * a
        ),
        alpha=1.0,
    ),
    "softplus": UnaryKind(
        lambda x, a, b: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
        lambda s, x, a, b: _softplus_body(x),
    ),
    "neg": UnaryKind(lambda x, a, b: -x, lambda s, x, a, b: x.negate()),
    "abs": UnaryKind(lambda x, a, b: np.abs(x), lambda s, x, a, b: _abs_body(x)),
    "sign": UnaryKind(lambda x, a, b: np.sign(x), lambda s, x, a, b: _sign_body(x)),
    "floor": UnaryKind(lambda x, a, b: np.floor(x), lambda s, x, a, b: x.unary(math.FloorOp)),
    "ceil": UnaryKind(lambda x, a, b: np.ceil(x), lambda s, x, a, b: x.unary(math.CeilOp)),
    "round": UnaryKind(lambda x, a, b: np.rint(x), lambda s, x, a, b: x.unary(math.RoundEvenOp)),
    "sin": UnaryKind(lambda x, a, b: np.sin(x), lambda s, x, a, b: x.unary(math.SinOp)),
    "cos": UnaryKind(lambda x, a, b: np.cos(x), lambda s, x, a, b: x.unary(math.CosOp)),
    "exp": UnaryKind(
        lambda x, a, b: np.exp(x), lambda s, x, a, b: x.unary(math.ExpOp), keeps_finite=False
    ),
    "log": UnaryKind(
        lambda x, a, b: np.log(x), lambda s, x, a, b: x.unary(math.LogOp), keeps_finite=False
    ),
    "sqrt": UnaryKind(
        lambda x, a, b: np.sqrt(x), lambda s, x, a, b: x.unary(math.SqrtOp), keeps_finite=False
    ),
    "reciprocal": UnaryKind(
        lambda x, a, b: 1 / x, lambda s, x, a, b: x.constant(1.0) / x, keeps_finite=False
    ),
    "not": UnaryKind(lambda x, a, b: np.logical_not(x), _logical_not),
    "is_nan": UnaryKind(lambda x, a, b: np.isnan(x), lambda s, x, a, b: x.compare("ne", x)),
}


@dataclass(frozen=True)
class BinaryKind:
    meaning: Callable[[np.ndarray, np.ndarray], np.ndarray]
    body: Callable[[Scalar, Scalar], Scalar]
    keeps_finite: bool = True
    compares: bool = False
    """The result is boolean."""


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """ONNX's Div: integers truncate towards zero, as in C."""
    if np.issubdtype(a.dtype, np.floating):
        return a / b
    return (np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)


def _python_remainder(a: Scalar, b: Scalar) -> Scalar:
    """ONNX's integer Mod has the divisor's sign: where C's remainder differs, plus the divisor."""
    r = a.remainder(b)
    wrong_sign = r.compare("ne", 0).logical_and(r.compare("lt", 0).logical_xor(b.compare("lt", 0)))
    return wrong_sign.select(r + b, r)


def _floor_remainder(a: Scalar, b: Scalar) -> Scalar:
    if isinstance(a.value.type, AnyFloat):
        return a - (a / b).unary(math.TruncOp) * b
    return _python_remainder(a, b)


def _mod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.fmod(a, b) if np.issubdtype(a.dtype, np.floating) else np.mod(a, b)


BINARY: dict[str, BinaryKind] = {
    "add": BinaryKind(lambda a, b: a + b, lambda a, b: a + b),
    "sub": BinaryKind(lambda a, b: a - b, lambda a, b: a - b),
    "mul": BinaryKind(lambda a, b: a * b, lambda a, b: a * b),
    "div": BinaryKind(_divide, lambda a, b: a / b, keeps_finite=False),
    "mod": BinaryKind(_mod, _floor_remainder, keeps_finite=False),
    "pow": BinaryKind(
        lambda a, b: np.power(a, b.astype(a.dtype)), lambda a, b: a.power(b), keeps_finite=False
    ),
    "max": BinaryKind(np.maximum, lambda a, b: a.maximum(b)),
    "min": BinaryKind(np.minimum, lambda a, b: a.minimum(b)),
    "prelu": BinaryKind(
        lambda a, b: np.where(a >= 0, a, a * b),
        lambda a, b: a.compare("ge", 0.0).select(a, a * b),
    ),
    "and": BinaryKind(np.logical_and, lambda a, b: a.logical_and(b)),
    "or": BinaryKind(np.logical_or, lambda a, b: a.logical_or(b)),
    "xor": BinaryKind(np.logical_xor, lambda a, b: a.logical_xor(b)),
    "equal": BinaryKind(np.equal, lambda a, b: a.compare("eq", b), compares=True),
    "less": BinaryKind(np.less, lambda a, b: a.compare("lt", b), compares=True),
    "less_equal": BinaryKind(np.less_equal, lambda a, b: a.compare("le", b), compares=True),
    "greater": BinaryKind(np.greater, lambda a, b: a.compare("gt", b), compares=True),
    "greater_equal": BinaryKind(np.greater_equal, lambda a, b: a.compare("ge", b), compares=True),
}


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's rule, symbolic dimensions included; a symbol against 1 keeps the symbol."""
    rank = max(len(s) for s in shapes)
    result = []
    for axis in range(rank):
        sizes = [s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0]
        distinct = list(dict.fromkeys(d for d in sizes if d != 1)) or [1]
        numbers = [d for d in distinct if isinstance(d, int)]
        if len(numbers) > 1:
            raise ValueError(f"shapes {shapes} do not broadcast: sizes {numbers} at axis {axis}")
        result.append(numbers[0] if numbers else distinct[0])
    return tuple(result)


def collapse_broadcast(
    operands: Sequence[tuple[int, ...]], output: tuple[int, ...]
) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """Merges neighbouring axes that every operand either has in full or broadcasts.

    (2, 3, 8, 64) with (64,)   ->   (48, 64) with (1, 64)
    """
    padded = [(1,) * (len(output) - len(s)) + s for s in operands]
    groups: list[list[int]] = []
    previous: tuple[bool, ...] = ()
    for axis, size in enumerate(output):
        kinds = tuple(s[axis] == size for s in padded)
        if groups and (size == 1 or kinds == previous):
            groups[-1].append(axis)
        else:
            groups.append([axis])
            previous = kinds

    def merge(shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(np.prod([shape[a] for a in group])) for group in groups)

    return [merge(s) for s in padded], merge(output)


class ElementwiseOperation(TopOperation):
    """What all elementwise operations share: plain buffers are seen with as few axes as can be."""

    def kernel_shapes(
        self, operands: list[tuple[int, ...]], output: tuple[int, ...]
    ) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
        return collapse_broadcast(operands, output)


def iteration(shape: Sequence[int]) -> dict[str, int]:
    """Names for the loops over a shape: n, c, h, w for images, d0, d1 ... otherwise."""
    if len(shape) == 4:
        return dict(zip("ncij", shape, strict=True))
    return {f"d{i}": size for i, size in enumerate(shape)} or {"d0": 1}


def apply_unary(s: ScalarBuilder, kind: str, x: Scalar, alpha: float, beta: float) -> Scalar:
    """The scalar body of an elementwise kind, for fused epilogues too."""
    return UNARY[kind].body(s, x, alpha, beta)


@irdl_op_definition
class UnaryOp(ElementwiseOperation):
    """y = kind(x), with up to two parameters `alpha` and `beta` (clip: bounds)."""

    name = "top.unary"

    input = operand_def(TensorType)
    kind = prop_def(StringAttr)
    alpha = opt_prop_def(FloatAttr)
    beta = opt_prop_def(FloatAttr)
    output = result_def(TensorType)

    @property
    def table(self) -> UnaryKind:
        return UNARY[self.kind.data]

    @property
    def parameters(self) -> tuple[float, float]:
        a, b = self.get("alpha"), self.get("beta")
        return (
            self.table.alpha if a is None else a,
            self.table.beta if b is None else b,
        )

    @property
    def keeps_finite(self) -> bool:
        return self.table.keeps_finite

    def infer_types(self) -> list[Attribute]:
        if self.kind.data not in UNARY:
            raise ValueError(f"unknown kind {self.kind.data!r}; known: {', '.join(UNARY)}")
        element = i1 if self.kind.data == "is_nan" else element_type_of(self.input)
        return [tensor_type(element, shape_of(self.input))]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        (x,) = operands
        alpha, beta = self.parameters
        with np.errstate(all="ignore"):
            return (np.asarray(self.table.meaning(x, alpha, beta)),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        d = k.dimensions(**iteration(output.shape))
        alpha, beta = self.parameters
        k.generic(
            "plain",
            [inputs[0].at(*d)],
            output.at(*d),
            lambda s, x: self.table.body(s, x, alpha, beta),
        )
        return "elementwise"

    def label(self) -> str:
        return self.kind.data.replace("_", " ")


@irdl_op_definition
class BinaryOp(ElementwiseOperation):
    """y = kind(a, b), broadcasting as NumPy does."""

    name = "top.binary"

    left = operand_def(TensorType)
    right = operand_def(TensorType)
    kind = prop_def(StringAttr)
    output = result_def(TensorType)

    @property
    def table(self) -> BinaryKind:
        return BINARY[self.kind.data]

    @property
    def keeps_finite(self) -> bool:
        return self.table.keeps_finite

    def infer_types(self) -> list[Attribute]:
        if self.kind.data not in BINARY:
            raise ValueError(f"unknown kind {self.kind.data!r}; known: {', '.join(BINARY)}")
        element = i1 if self.table.compares else element_type_of(self.left)
        shape = broadcast_shapes(shape_of(self.left), shape_of(self.right))
        return [tensor_type(element, shape)]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        with np.errstate(all="ignore"):
            return (np.asarray(self.table.meaning(*operands)),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        d = k.dimensions(**iteration(output.shape))
        left, right = inputs

        def body(s: ScalarBuilder, a: Scalar, b: Scalar) -> Scalar:
            return self.table.body(a, b.convert(a.value.type))

        k.generic("plain", [left.broadcast(d), right.broadcast(d)], output.at(*d), body)
        return "elementwise"

    def label(self) -> str:
        return self.kind.data.replace("_", " ")


@irdl_op_definition
class SelectOp(ElementwiseOperation):
    """y = a where the condition holds, else b; all three broadcast (ONNX's Where)."""

    name = "top.select"
    KEEPS_FINITE: ClassVar[bool] = True

    condition = operand_def(TensorType)
    if_true = operand_def(TensorType)
    if_false = operand_def(TensorType)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        shape = broadcast_shapes(
            shape_of(self.condition), shape_of(self.if_true), shape_of(self.if_false)
        )
        return [tensor_type(element_type_of(self.if_true), shape)]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.where(*operands),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        d = k.dimensions(**iteration(output.shape))
        reads = [access.broadcast(d) for access in inputs]
        k.generic("plain", reads, output.at(*d), lambda s, c, a, b: c.select(a, b))
        return "elementwise"


@irdl_op_definition
class CastOp(ElementwiseOperation):
    """Converts the element type as C does: floats truncate towards zero, nonzero becomes true."""

    name = "top.cast"
    KEEPS_FINITE: ClassVar[bool] = True

    input = operand_def(TensorType)
    to = prop_def(Attribute)
    output = result_def(TensorType)

    def infer_types(self) -> list[Attribute]:
        return [tensor_type(self.to, shape_of(self.input))]

    def evaluate(self, *operands: np.ndarray) -> tuple[np.ndarray, ...]:
        with np.errstate(all="ignore"):
            return (operands[0].astype(numpy_dtype(self.to)),)

    def define(self, k: KernelBuilder, inputs: Sequence[Access], output: Access) -> str:
        d = k.dimensions(**iteration(output.shape))
        k.generic("plain", [inputs[0].at(*d)], output.at(*d), lambda s, x: x.convert(self.to))
        return "elementwise"

    def label(self) -> str:
        return f"cast {self.to}"
