"""The kinds of `top.unary`: each states its NumPy meaning and its scalar body side by side.

    "relu": max(x, 0) on arrays     maximumf(x, 0) on scalars

Meanings get arrays in their arithmetic type: no narrow floats.
"""

from __future__ import annotations

import math as python_math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat

from explorer.ir.compute import Scalar, ScalarBuilder
from explorer.ir.loop_dialect import NormalCdfOp


@dataclass(frozen=True)
class UnaryKind:
    """`meaning(x, alpha, beta)` on arrays; `body(s, x, alpha, beta)` on scalars."""

    meaning: Callable[[np.ndarray, float, float], np.ndarray]
    body: Callable[[ScalarBuilder, Scalar, float, float], Scalar]
    keeps_finite: bool = True
    alpha: float = 0.0
    beta: float = 0.0
    """Defaults of the two parameters, as ONNX has them."""
    tests: bool = False
    """The result is boolean."""


def _sigmoid(x: np.ndarray) -> np.ndarray:
    """Overflow-free on both sides: exp is taken of negative numbers only."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(python_math.erf, otypes=[np.float64])(x).astype(x.dtype)


def _gelu(x: np.ndarray) -> np.ndarray:
    """x erfc(-x / sqrt(2)) / 2: erfc keeps the digits of small numbers that 1 + erf loses."""
    erfc = np.vectorize(python_math.erfc, otypes=[np.float64])
    return (x * (0.5 * erfc(np.asarray(x, np.float64) * -np.sqrt(0.5)))).astype(x.dtype)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    """x (1 + tanh(u)) / 2 = x / (1 + exp(-2 u))."""
    wide = np.asarray(x, np.float64)
    return (x * _sigmoid(_GELU_SCALE * (wide + 0.044715 * wide**3))).astype(x.dtype)


_GELU_SCALE = 2 * python_math.sqrt(2 / python_math.pi)


def _sigmoid_body(x: Scalar) -> Scalar:
    """1 / (1 + e^-x), and e^x / (1 + e^x) for x < 0, where e^-x might overflow."""
    e = x.unary(math.AbsFOp).negate().unary(math.ExpOp)
    return x.compare("ge", 0.0).select(1.0, e) / (e + 1.0)


def _gelu_tanh_body(x: Scalar) -> Scalar:
    return x * _sigmoid_body((x + x * x * x * 0.044715) * _GELU_SCALE)


def _softplus_body(x: Scalar) -> Scalar:
    """log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))."""
    small = x.unary(math.AbsFOp).negate().unary(math.ExpOp)
    return x.maximum(0.0) + small.unary(math.Log1pOp)


def _mish_body(x: Scalar) -> Scalar:
    """x * tanh(log(1 + e^x)) = x * (1 + 2 e) / (1 + 2 e + 2 e^2) for e = e^-x, if x >= 0.

    For x < 0 it is x * (e^2 + 2 e) / (e^2 + 2 e + 2) with e = e^x: neither overflows.
    """
    e = x.unary(math.AbsFOp).negate().unary(math.ExpOp)
    is_negative = x.compare("lt", 0)
    dividend = is_negative.select(e * e + e * 2.0, e * 2.0 + 1.0)
    return x * (dividend / (dividend + is_negative.select(2.0, e * e * 2.0)))


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


def _is_infinite(x: np.ndarray, positive: float, negative: float) -> np.ndarray:
    return (np.isposinf(x) & bool(positive)) | (np.isneginf(x) & bool(negative))


def _is_infinite_body(s: ScalarBuilder, x: Scalar, positive: float, negative: float) -> Scalar:
    greatest = x.compare("eq", python_math.inf if positive else -python_math.inf)
    if not positive and not negative:
        return x.compare("ne", x).logical_and(x.compare("eq", x))
    if not (positive and negative):
        return greatest
    return greatest.logical_or(x.compare("eq", -python_math.inf))


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
        # x clip(x / 6 + 1/2, 0, 1), but x + 3 is exact near -3, where the result vanishes.
        lambda x, a, b: x * (_clip(x + x.dtype.type(3), 0, 6) / x.dtype.type(6)),
        lambda s, x, a, b: x * ((x + 3.0).maximum(0.0).minimum(6.0) * (1 / 6)),
    ),
    "silu": UnaryKind(
        lambda x, a, b: x * _sigmoid(x * x.dtype.type(a)),
        lambda s, x, a, b: x * _sigmoid_body(x if a == 1 else x * a),
        alpha=1.0,
    ),
    "mish": UnaryKind(
        lambda x, a, b: x * np.tanh(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))),
        lambda s, x, a, b: _mish_body(x),
    ),
    "tanh": UnaryKind(lambda x, a, b: np.tanh(x), lambda s, x, a, b: x.unary(math.TanhOp)),
    "erf": UnaryKind(lambda x, a, b: _erf(x), lambda s, x, a, b: x.unary(math.ErfOp)),
    "gelu": UnaryKind(
        lambda x, a, b: _gelu(x),
        lambda s, x, a, b: x * x.unary(NormalCdfOp),
    ),
    "gelu_tanh": UnaryKind(
        lambda x, a, b: _gelu_tanh(x),
        lambda s, x, a, b: _gelu_tanh_body(x),
    ),
    "elu": UnaryKind(
        lambda x, a, b: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))).astype(x.dtype),
        lambda s, x, a, b: x.compare("ge", 0.0).select(x, x.minimum(0.0).unary(math.ExpM1Op) * a),
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
    "tan": UnaryKind(lambda x, a, b: np.tan(x), lambda s, x, a, b: x.unary(math.TanOp)),
    "atan": UnaryKind(lambda x, a, b: np.arctan(x), lambda s, x, a, b: x.unary(math.AtanOp)),
    "asinh": UnaryKind(lambda x, a, b: np.arcsinh(x), lambda s, x, a, b: x.unary(math.AsinhOp)),
    "asin": UnaryKind(
        lambda x, a, b: np.arcsin(x), lambda s, x, a, b: x.unary(math.AsinOp), keeps_finite=False
    ),
    "acos": UnaryKind(
        lambda x, a, b: np.arccos(x), lambda s, x, a, b: x.unary(math.AcosOp), keeps_finite=False
    ),
    "acosh": UnaryKind(
        lambda x, a, b: np.arccosh(x), lambda s, x, a, b: x.unary(math.AcoshOp), keeps_finite=False
    ),
    "atanh": UnaryKind(
        lambda x, a, b: np.arctanh(x), lambda s, x, a, b: x.unary(math.AtanhOp), keeps_finite=False
    ),
    "sinh": UnaryKind(
        lambda x, a, b: np.sinh(x), lambda s, x, a, b: x.unary(math.SinhOp), keeps_finite=False
    ),
    "cosh": UnaryKind(
        lambda x, a, b: np.cosh(x), lambda s, x, a, b: x.unary(math.CoshOp), keeps_finite=False
    ),
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
    "bit_not": UnaryKind(lambda x, a, b: np.invert(x), lambda s, x, a, b: x.logical_xor(-1)),
    "is_nan": UnaryKind(
        lambda x, a, b: np.isnan(x), lambda s, x, a, b: x.compare("ne", x), tests=True
    ),
    "is_infinite": UnaryKind(_is_infinite, _is_infinite_body, alpha=1.0, beta=1.0, tests=True),
}
