"""Functions of bytes as tables: for each stored number what the reference kernel makes of it.

    RELU of i8      relu(numbers, source, to)     256 stored numbers -> 256 stored results
    RELU of i16     as many as 65,536, which a gather reads (`int16.py`)

Exact by construction: the kernel is computed once for every number there is. Source: the kernels
of tensorflow/lite/kernels that BUILTIN_REF takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from xdsl.dialects.builtin import IntegerType

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.tflite.operators.activations import limits
from explorer.importers.tflite.operators.int16 import looked_up_int16, sigmoid_of, tanh_of
from explorer.importers.tflite.operators.node import TfliteNode
from explorer.importers.tflite.operators.schemes import rounded_away, scaled
from explorer.ir.requantization import integer_limits
from explorer.ir.top.quantization.lookup import LookupOp
from explorer.ir.types import QuantizedType

WORDS = IntegerType(16)
Tabulate = Callable[[TfliteNode, np.ndarray, QuantizedType, QuantizedType], np.ndarray]
"""Stored results (not yet kept within the storage) for stored numbers, both i64."""


def looked_up(
    node: TfliteNode, x: Expr, to: QuantizedType, function: Tabulate, build: Build
) -> Expr:
    """A function of quantized bytes, or of numbers of 16 bits."""
    source = x.element_type
    assert isinstance(source, QuantizedType)
    if source.storage.width.data > 16 or not source.is_per_tensor:
        raise Unsupported(f"of {source} it cannot be imported yet")
    lowest, highest = integer_limits(source.storage)
    numbers = np.arange(lowest, highest + 1, dtype=np.int64)
    entries = np.clip(function(node, numbers, source, to), *integer_limits(to.storage))
    if source.storage.width.data > 8:
        if source.storage != WORDS:
            raise Unsupported(f"of {source} it cannot be imported yet")
        return looked_up_int16(x, entries, f"{node.operator.lower()}_of_words", to, build)
    return build.value(
        LookupOp,
        [x],
        function=node.operator.lower(),
        table=[int(entry) for entry in entries],
        to=to,
    )


def centered(numbers: np.ndarray, source: QuantizedType) -> np.ndarray:
    return numbers - int(source.zero_point_array[0])


def ratio(source: QuantizedType, to: QuantizedType) -> float:
    """Of the scales, divided as the kernels do: singles in double precision."""
    return float(source.scale_array[0]) / float(to.scale_array[0])


def requantized(
    node: TfliteNode, numbers: np.ndarray, source: QuantizedType, to: QuantizedType
) -> np.ndarray:
    """In another scale."""
    zero = int(to.zero_point_array[0])
    return scaled(centered(numbers, source), ratio(source, to)) + zero


def _relu(
    name: str, node: TfliteNode, numbers: np.ndarray, source: QuantizedType, to: QuantizedType
) -> np.ndarray:
    # The quotient of the scales is a single here.
    quotient = float(source.scale_array[0] / to.scale_array[0])
    moved = scaled(centered(numbers, source), quotient) + int(to.zero_point_array[0])
    return np.clip(moved, *limits(to, name))


def _absolute(
    node: TfliteNode, numbers: np.ndarray, source: QuantizedType, to: QuantizedType
) -> np.ndarray:
    magnitude = np.abs(centered(numbers, source))
    quotient = float(source.scale_array[0] / to.scale_array[0])  # of singles
    return scaled(magnitude, quotient) + int(to.zero_point_array[0])


def _leaky_relu(
    node: TfliteNode, numbers: np.ndarray, source: QuantizedType, to: QuantizedType
) -> np.ndarray:
    x, zero = centered(numbers, source), int(to.zero_point_array[0])
    # All of singles.
    quotient = source.scale_array[0] / to.scale_array[0]
    below = source.scale_array[0] * np.float32(node.number("alpha")) / to.scale_array[0]
    kept = scaled(x, float(quotient))
    scaled_below = _signed(x, float(below))
    return np.where(x >= 0, kept, scaled_below) + zero


def _signed(x: np.ndarray, factor: float) -> np.ndarray:
    """As `scaled`, for factors of any sign."""
    if factor == 0:
        return np.zeros_like(x)
    return scaled(x if factor > 0 else -x, abs(factor))


def _real(
    function: Callable[[np.ndarray], np.ndarray],
    node: TfliteNode,
    numbers: np.ndarray,
    source: QuantizedType,
    to: QuantizedType,
) -> np.ndarray:
    """A function of floats: in single precision, rounded away from zero."""
    x = (source.scale_array[0] * centered(numbers, source).astype(np.float32)).astype(np.float32)
    inverse = np.float32(1) / to.scale_array[0]
    with np.errstate(all="ignore"):
        y = function(x).astype(np.float32)
        rounded = rounded_away(y * inverse)
    if not np.all(np.isfinite(rounded)):
        raise Unsupported("it is not defined for all numbers that its operand may be")
    return rounded.astype(np.int64) + int(to.zero_point_array[0])


def _interpolated(
    of_words: Callable[[np.ndarray, float], np.ndarray],
    of_bytes: Callable[[np.ndarray], np.ndarray],
    node: TfliteNode,
    numbers: np.ndarray,
    source: QuantizedType,
    to: QuantizedType,
) -> np.ndarray:
    """A function between -1 and 1: of 16 bits interpolated, whatever the result's scale."""
    if source.storage == WORDS:
        return of_words(numbers, float(source.scale_array[0]))
    return _real(of_bytes, node, numbers, source, to)


def _logistic(x: np.ndarray) -> np.ndarray:
    one = np.float32(1)
    return one / (one + np.exp(-x, dtype=np.float32))


def _hard_swish(
    node: TfliteNode, numbers: np.ndarray, source: QuantizedType, to: QuantizedType
) -> np.ndarray:
    """In numbers of 16 bits, as the kernel has it: x lifted by 7 bits, times relu6(x + 3) / 6.

    Source: tensorflow/lite/kernels/internal/reference/hard_swish.h.
    """
    lifted = centered(numbers, source) << 7
    high_scale = np.float32(source.scale_array[0]) * np.float32(1.0 / 128.0)
    real_output = float(high_scale / to.scale_array[0])
    real_relu = float(high_scale / np.float32(3.0 / 32768.0))
    (out_multiplier, out_exponent), (relu_multiplier, relu_exponent) = (
        _sixteen_bits(real_output),
        _sixteen_bits(real_relu),
    )
    on_output = _high_multiply(lifted, out_multiplier)
    relu = lifted
    if relu_exponent > 0:
        relu = _saturated(relu << (relu_exponent - 1))
    relu = _high_multiply(relu, relu_multiplier)
    if relu_exponent > 0:
        relu = _saturated(relu << 1)
    if relu_exponent < 0:
        relu = _divided_by_power(relu, -relu_exponent)
    share = (relu + (1 << 15)) >> 1
    product = np.trunc(on_output * share / (1 << 15)).astype(np.int64)  # truncated
    half = (
        _divided_by_power(product, -out_exponent) if out_exponent < 0 else product << out_exponent
    )
    return half + int(to.zero_point_array[0])


def _sixteen_bits(real: float) -> tuple[int, int]:
    """A multiplier of 16 bits and its exponent."""
    fraction, exponent = math.frexp(real)
    wide = math.floor(fraction * 2**31 + 0.5)
    if wide == 1 << 31:
        wide, exponent = wide >> 1, exponent + 1
    return min((wide + (1 << 15)) >> 16, 2**15 - 1), exponent


def _high_multiply(x: np.ndarray, factor: int) -> np.ndarray:
    """The upper half of twice the product of numbers of 16 bits, rounded."""
    product = x * factor
    nudge = np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return np.trunc((product + nudge) / (1 << 15)).astype(np.int64)


def _saturated(x: np.ndarray) -> np.ndarray:
    return np.clip(x, -(1 << 15), (1 << 15) - 1)


def _divided_by_power(x: np.ndarray, exponent: int) -> np.ndarray:
    """x / 2^exponent, ties away from zero."""
    mask = (1 << exponent) - 1
    threshold = (mask >> 1) + (x < 0)
    return (x >> exponent) + ((x & mask) > threshold)


TABLES: dict[str, Tabulate] = {
    "QUANTIZE": requantized,
    "ABS": _absolute,
    "RELU": partial(_relu, "RELU"),
    "RELU6": partial(_relu, "RELU6"),
    "RELU_0_TO_1": partial(_relu, "RELU_0_TO_1"),
    "RELU_N1_TO_1": partial(_relu, "RELU_N1_TO_1"),
    "LEAKY_RELU": _leaky_relu,
    "LOGISTIC": partial(_interpolated, sigmoid_of, _logistic),
    "TANH": partial(_interpolated, tanh_of, np.tanh),
    "HARD_SWISH": _hard_swish,
}
