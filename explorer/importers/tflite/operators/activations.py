"""Fused activations: of floats an operation behind, of quantized numbers limits.

RELU6 of floats     clip(x, 0, 6)
RELU6 of i8         [zero + round(0 / scale), zero + round(6 / scale)], cut to [-128, 127]
"""

from __future__ import annotations

import math

import numpy as np

from explorer.importers.building.build import Unsupported
from explorer.importers.building.expr import Expr
from explorer.ir.requantization import integer_limits
from explorer.ir.types import QuantizedType

RANGES: dict[str, tuple[float, float]] = {
    "NONE": (-math.inf, math.inf),
    "RELU": (0.0, math.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}


def activated(x: Expr, name: str) -> Expr:
    """A float, or a plain integer, with a fused activation behind it."""
    if name == "TANH":
        return x.tanh()
    if name not in RANGES:
        raise Unsupported(f"the fused activation {name}")
    low, high = RANGES[name]
    if math.isinf(low):
        return x
    if math.isinf(high):
        return x.relu()
    return x.clip(low, high)


def limits(kind: QuantizedType, name: str) -> tuple[int, int]:
    """What stored numbers are kept within. The quotient is a float, as the kernels have it."""
    if name not in RANGES:
        raise Unsupported(f"the fused activation {name} of quantized numbers")
    least, most = integer_limits(kind.storage)
    zero, scale = int(kind.zero_point_array[0]), kind.scale_array[0]

    def stored(real: float) -> int:
        quotient = float(np.float32(real) / scale)
        return zero + int(math.copysign(math.floor(abs(quotient) + 0.5), quotient))

    low, high = RANGES[name]
    return (
        least if math.isinf(low) else max(least, min(stored(low), most)),
        most if math.isinf(high) else min(most, max(stored(high), least)),
    )
