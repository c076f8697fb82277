"""How TFLite's reference kernels round integers, as schemes of the IR (`ir/requantization.py`).

DOUBLE   CONV_2D, DEPTHWISE_CONV_2D, MUL, ADD, SUB, tables: gemmlowp's two roundings
SINGLE   FULLY_CONNECTED: one rounding of a product in 64 bits
HALF     sums of numbers of 16 bits with a bias of 64, in convolutions and BATCH_MATMUL: the upper
         half of the multiplier, and one rounding

Source: tensorflow/lite/kernels/internal/common.h, `MultiplyByQuantizedMultiplier`, and the kernels
of the resolver BUILTIN_REF; `tests/importers/test_tflite_exact.py` compares with what they answer.
"""

from __future__ import annotations

import numpy as np

from explorer.importers.tflite.operators.node import TfliteNode
from explorer.ir.requantization import Requantization, fixed_point, multiplied

DOUBLE = Requantization("doubling_high_multiply", "nearest_away_from_zero")
SINGLE = Requantization("multiplier_shift", "nearest_up")
HALF = Requantization("multiplier_shift", "nearest_up", multiplier_bits=16)


def multiplies_singles(node: TfliteNode, x: int) -> bool:
    """Whether a convolution's kernel multiplies the scales of operand `x` and of the filters in
    single precision before it divides by the result's: of unsigned bytes.

    Source: `GetQuantizedConvolutionMultipler` of tensorflow/lite/kernels/kernel_util.cc; the
    multipliers of others come from `PopulateConvolutionQuantizationParams`, in double precision.
    LiteRT 2.3.0 answers FULLY_CONNECTED in double precision for all types.
    """
    return node.file.kind != "FULLY_CONNECTED" and node.tensor(x).element_type == "uint8"


def scaled(x: np.ndarray, ratio: float, how: Requantization = DOUBLE) -> np.ndarray:
    """x * ratio in integers, as the kernels compute it."""
    return multiplied(np.asarray(x, np.int64), fixed_point(np.array(ratio), how), how)


def rounded_away(x: np.ndarray) -> np.ndarray:
    """To whole numbers, ties away from zero: C's `round`."""
    return np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)
