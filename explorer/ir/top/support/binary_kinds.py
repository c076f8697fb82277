"""The kinds of `top.binary`: each states its NumPy meaning and its scalar body side by side.

Meanings get arrays in their arithmetic type: no narrow floats. Whole numbers wrap around; divided
by zero they give 0, where processors would stop the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness, f64

from explorer.ir.compute import Scalar


@dataclass(frozen=True)
class BinaryKind:
    meaning: Callable[[np.ndarray, np.ndarray], np.ndarray]
    body: Callable[[Scalar, Scalar], Scalar]
    keeps_finite: bool = True
    compares: bool = False
    """The result is boolean."""


def _is_float(scalar: Scalar) -> bool:
    return isinstance(scalar.value.type, AnyFloat)


def _bits(scalar: Scalar) -> int:
    assert isinstance(scalar.value.type, IntegerType)
    return scalar.value.type.width.data


def _is_unsigned(scalar: Scalar) -> bool:
    assert isinstance(scalar.value.type, IntegerType)
    return scalar.value.type.signedness.data == Signedness.UNSIGNED


# -- division --------------------------------------------------------------------------------------


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """ONNX's Div: integers truncate towards zero, as in C."""
    if np.issubdtype(a.dtype, np.floating):
        return a / b
    quotient = np.floor_divide(a, b)
    return quotient + ((quotient < 0) & (quotient * b != a)).astype(a.dtype)


def _divide_body(a: Scalar, b: Scalar) -> Scalar:
    if _is_float(a):
        return a / b
    quotient = b.compare("eq", 0).select(0, a / _harmless(b))
    return quotient if _is_unsigned(b) else b.compare("eq", -1).select(a.negate(), quotient)


def _harmless(divisor: Scalar) -> Scalar:
    """The divisor, or 1 for 0 and for -1, by which the least number overflows."""
    trouble = divisor.compare("eq", 0)
    if not _is_unsigned(divisor):
        trouble = trouble.logical_or(divisor.compare("eq", -1))
    return trouble.select(1, divisor)


def _floor_remainder(a: Scalar, b: Scalar) -> Scalar:
    """The divisor's sign: where the other remainder differs, plus the divisor."""
    r = _truncated_remainder(a, b)
    if _is_float(a):
        wrong_sign = r.compare("lt", 0).logical_xor(b.compare("lt", 0))
        moved = wrong_sign.select(r + b, r)
        return r.compare("eq", 0).select(r.constant(0).copy_sign(b), moved)
    if _is_unsigned(a):
        return r
    wrong_sign = r.compare("ne", 0).logical_and(r.compare("lt", 0).logical_xor(b.compare("lt", 0)))
    return wrong_sign.select(r + b, r)


def _truncated_remainder(a: Scalar, b: Scalar) -> Scalar:
    """The dividend's sign, as in C."""
    return a.remainder(b) if _is_float(a) else a.remainder(_harmless(b))


# -- lengths ---------------------------------------------------------------------------------------


def _length_body(a: Scalar, b: Scalar) -> Scalar:
    """sqrt(a² + b²), both scaled by a power of two where squares overflow or vanish."""
    a, b = (x.unary(math.AbsFOp) for x in (a, b))
    is_wide = a.value.type == f64
    limit = 2.0 ** (500 if is_wide else 60)
    down, up = 2.0 ** (-540 if is_wide else -66), 2.0 ** (600 if is_wide else 80)
    largest = a.maximum(b)
    is_large, is_small = largest.compare("gt", limit), largest.compare("lt", 1 / limit)
    scale = is_large.select(down, is_small.select(up, a.constant(1)))
    back = is_large.select(1 / down, is_small.select(1 / up, a.constant(1)))
    x, y = a * scale, b * scale
    length = (x * x + y * y).unary(math.SqrtOp) * back
    is_infinite = a.compare("eq", inf).logical_or(b.compare("eq", inf))
    return is_infinite.select(inf, length)


# -- powers ----------------------------------------------------------------------------------------


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whole numbers to a negative power are 0 but for 1 and -1."""
    exponent = b.astype(a.dtype)
    if not np.issubdtype(a.dtype, np.signedinteger):
        return np.power(a, exponent)
    # Of 1 and -1 the lowest bit decides; the least number has no absolute value.
    positive = np.power(a, np.where(exponent < 0, exponent & 1, exponent))
    return np.where((exponent < 0) & (a != 1) & (a != -1), 0, positive).astype(a.dtype)


# -- shifts ----------------------------------------------------------------------------------------


def _shift_left(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Bits leave at the top; a shift by a negative number or by all bits leaves 0."""
    inside = (b >= 0) & (b < 8 * a.dtype.itemsize)
    return np.where(inside, a << np.where(inside, b, 0), 0).astype(a.dtype)


def _shift_right(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sign comes in at the top; a shift by a negative number or by all bits leaves it."""
    bits = 8 * a.dtype.itemsize
    inside = (b >= 0) & (b < bits)
    outside = a >> np.asarray(bits - 1, a.dtype) if np.issubdtype(a.dtype, np.signedinteger) else 0
    return np.where(inside, a >> np.where(inside, b, 0), outside).astype(a.dtype)


def _is_shift(a: Scalar, b: Scalar) -> Scalar:
    inside = b.compare("lt", _bits(a))
    return inside if _is_unsigned(b) else inside.logical_and(b.compare("ge", 0))


def _shift_left_body(a: Scalar, b: Scalar) -> Scalar:
    inside = _is_shift(a, b)
    pattern = a.convert(IntegerType(_bits(a), Signedness.UNSIGNED))
    amount = inside.select(b, 0).convert(pattern.value.type)
    return inside.select(pattern.shift_left(amount), 0).convert(a.value.type)


def _shift_right_body(a: Scalar, b: Scalar) -> Scalar:
    inside = _is_shift(a, b)
    if _is_unsigned(a):
        return inside.select(a.shift_right(inside.select(b, 0)), 0)
    return a.shift_right(inside.select(b, _bits(a) - 1))


BINARY: dict[str, BinaryKind] = {
    "add": BinaryKind(lambda a, b: a + b, lambda a, b: a + b),
    "sub": BinaryKind(lambda a, b: a - b, lambda a, b: a - b),
    "mul": BinaryKind(lambda a, b: a * b, lambda a, b: a * b),
    "div": BinaryKind(_divide, _divide_body, keeps_finite=False),
    "mod": BinaryKind(np.mod, _floor_remainder, keeps_finite=False),
    "fmod": BinaryKind(np.fmod, _truncated_remainder, keeps_finite=False),
    "pow": BinaryKind(_power, lambda a, b: a.power(b), keeps_finite=False),
    "max": BinaryKind(np.maximum, lambda a, b: a.maximum(b)),
    "min": BinaryKind(np.minimum, lambda a, b: a.minimum(b)),
    "hypot": BinaryKind(np.hypot, _length_body, keeps_finite=False),
    "copy_sign": BinaryKind(np.copysign, lambda a, b: a.copy_sign(b)),
    "prelu": BinaryKind(
        lambda a, b: np.where(a >= 0, a, a * b),
        lambda a, b: a.compare("ge", 0).select(a, a * b),
    ),
    "and": BinaryKind(np.logical_and, lambda a, b: a.logical_and(b)),
    "or": BinaryKind(np.logical_or, lambda a, b: a.logical_or(b)),
    "xor": BinaryKind(np.logical_xor, lambda a, b: a.logical_xor(b)),
    "bit_and": BinaryKind(np.bitwise_and, lambda a, b: a.logical_and(b)),
    "bit_or": BinaryKind(np.bitwise_or, lambda a, b: a.logical_or(b)),
    "bit_xor": BinaryKind(np.bitwise_xor, lambda a, b: a.logical_xor(b)),
    "shift_left": BinaryKind(_shift_left, _shift_left_body),
    "shift_right": BinaryKind(_shift_right, _shift_right_body),
    "equal": BinaryKind(np.equal, lambda a, b: a.compare("eq", b), compares=True),
    "less": BinaryKind(np.less, lambda a, b: a.compare("lt", b), compares=True),
    "less_equal": BinaryKind(np.less_equal, lambda a, b: a.compare("le", b), compares=True),
    "greater": BinaryKind(np.greater, lambda a, b: a.compare("gt", b), compares=True),
    "greater_equal": BinaryKind(np.greater_equal, lambda a, b: a.compare("ge", b), compares=True),
}

COMMUTATIVE = ("add", "mul", "max", "min", "hypot", "and", "or", "xor", "equal")
"""Kinds whose operands may change places."""
