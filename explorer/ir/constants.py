"""Constants: the arrays and numbers that weights are.

scalar(%half, weights)    0.5 for a weight of one element, None for all else
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from explorer.ir.top.data import WeightOp
from explorer.ir.weights import Weights


def constant(value: SSAValue, weights: Weights) -> np.ndarray | None:
    """The array of a weight; None for what is computed."""
    op = value.owner
    return weights[op.weight.data] if isinstance(op, WeightOp) else None


def is_constant(value: SSAValue) -> bool:
    # Not isinstance: classes of operations are abstract, for which that is slow where it fails.
    return type(value.owner) is WeightOp


def scalar(value: SSAValue, weights: Weights) -> float | None:
    """The only element of a weight, whatever its rank."""
    op = value.owner
    if not isinstance(op, WeightOp) or prod(op.output.type.get_shape()) != 1:
        return None  # without waiting for a large array that is still being made
    return float(weights[op.weight.data].item())


def splat(value: SSAValue, weights: Weights) -> float | None:
    """The number that all elements of a weight are; None where they differ, or for no elements."""
    array = constant(value, weights)
    if array is None or not array.size:
        return None
    first = array.flat[0]
    return float(first) if bool(np.all(array == first)) else None


def is_about(number: float | None, expected: float) -> bool:
    """Equal but for the rounding of constants to single precision (6e-8 each, relative)."""
    return number is not None and abs(number - expected) <= 1e-6 * abs(expected)
