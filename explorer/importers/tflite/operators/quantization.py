"""Between real and quantized numbers.

QUANTIZE      floats: round(x / scale) + zero point, ties away from zero; bytes: another scale
DEQUANTIZE    (x - zero point) * scale; numbers of 16 bits in single precision
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import Float32Type

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.quantized_types import as_stored
from explorer.importers.tflite.operators.integers import kept_within, stored_as
from explorer.importers.tflite.operators.node import TfliteNode, kind_of
from explorer.importers.tflite.operators.tables import looked_up, requantized
from explorer.ir.requantization import integer_limits
from explorer.ir.top.quantization.quantized import DequantizeOp


def quantize(node: TfliteNode, build: Build) -> Expr:
    """Real numbers to quantized ones, or quantized ones in another scale."""
    to = node.result_kind
    if to is None or not to.is_per_tensor:
        raise Unsupported(f"to {node.result.element_type} without one scale")
    if kind_of(node.tensor(0)) is not None:
        return looked_up(node, node.operand(0, build), to, requantized, build)
    x = node.plain(0)
    if not x.is_float:
        raise Unsupported(f"from {node.tensor(0).element_type}")
    divided = x / float(to.scale_array[0])
    zero = x.constant(float(to.zero_point_array[0]))
    moved = _rounded_away(divided) + zero
    return stored_as(kept_within(moved, integer_limits(to.storage)), to, build)


def _rounded_away(x: Expr) -> Expr:
    """To whole numbers, ties away from zero: what lies below plus one, from a half on."""
    magnitude = abs(x)
    below = magnitude.floor()
    rest = magnitude - below  # exact
    return (below + (rest >= 0.5).astype(np.float32)) * x.sign()


def dequantize(node: TfliteNode, build: Build) -> Expr:
    """Quantized numbers, or floats of 16 bits, in single precision."""
    kind = kind_of(node.tensor(0))
    if kind is None:
        x = node.plain(0)
        if not x.is_float:
            raise Unsupported(f"{node.tensor(0).element_type} without a scale")
        return x.astype(np.float32)
    return build.value(DequantizeOp, [node.operand(0, build)], to=Float32Type())


def densify(node: TfliteNode, build: Build) -> Expr:
    """Weights with their zeros, as which they were read."""
    return as_stored(node.operand(0, build), build)


CONVERTERS = {"QUANTIZE": quantize, "DEQUANTIZE": dequantize, "DENSIFY": densify}
