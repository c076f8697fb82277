"""Products of numbers of 16 bits, whose sums may need 64.

    CONV_2D i16, i8, bias i64       top.conv of quantized numbers where 32 bits hold every sum that
                                    its filters allow; else plain integers of 64 bits
    BATCH_MATMUL i16, i16           plain integers of 64 bits

Source: tensorflow/lite/kernels/internal/common.h, `MultiplyByQuantizedMultiplier` of `int64_t`.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.building.quantized_types import as_quantized, as_stored
from explorer.importers.tflite.operators.activations import limits
from explorer.importers.tflite.operators.integers import (
    centered_numbers,
    kept_within,
    once_rounded,
    stored_as,
)
from explorer.importers.tflite.operators.node import TfliteNode, kind_of
from explorer.importers.tflite.operators.schemes import DOUBLE, HALF
from explorer.ir.requantization import Requantization, RequantizationAttr
from explorer.ir.top.quantization.quantized import RequantizeOp
from explorer.ir.types import QuantizedType

LARGEST = 1 << 15
"""Magnitude of a number of 16 bits."""
MAX_INT32 = 2**31 - 1


def has_wide_bias(node: TfliteNode, bias: int = 2) -> bool:
    """`bias`: the operand's index."""
    return node.has(bias) and node.tensor(bias).element_type == "int64"


def is_wide(node: TfliteNode, weight: Expr, build: Build, *, x: int = 0, bias: int = 2) -> bool:
    """Whether sums over numbers of 16 bits may not fit 32; the filters are the first axis.

    `x`, `bias`: the operands' indices.
    """
    kind = kind_of(node.tensor(x))
    if kind is None or node.tensor(x).element_type != "int16":
        return False
    filters = np.abs(build.known(weight, "filters").astype(np.int64))
    reached = filters.reshape(len(filters), -1).sum(axis=1) * LARGEST
    if node.has(bias):
        reached = reached + np.abs(build.known(node.plain(bias), "a bias").astype(np.int64))
    return bool(reached.max(initial=0) > MAX_INT32)


def wide(x: Expr, build: Build) -> Expr:
    """Stored numbers, whose zero point is 0, as plain ones of 64 bits."""
    kind = x.element_type
    if isinstance(kind, QuantizedType) and kind.zero_point_array.any():
        raise Unsupported("numbers of 16 bits with a zero point")
    return as_stored(x, build).astype(np.int64)


def wide_sums(
    node: TfliteNode,
    sums: Expr,
    how: Requantization,
    build: Build,
    *,
    x: int = 0,
    bias: int = 2,
) -> Expr:
    """Plain sums with their bias, requantized. `x`, `bias`: the operands' indices."""
    left, right = kind_of(node.tensor(x)), kind_of(node.tensor(1))
    assert left is not None and right is not None
    along = (-1, 1, 1) if sums.rank == 4 else (-1,)
    if node.has(bias):
        added = node.plain(bias).astype(np.int64).reshape(along)
        sums = sums + added
    scales = left.double_scales * right.double_scales
    return _scaled(node, sums, scales.reshape(along if scales.size > 1 else ()), how, build)


def products_of_matrices(node: TfliteNode, left: Expr, right: Expr, build: Build) -> Expr:
    """Products of quantized matrices, neither of them with scales for its slices.

    The product of their scales is a single here.
    """
    kind, a, b = node.result_kind, kind_of(node.tensor(0)), kind_of(node.tensor(1))
    if kind is None or a is None or b is None or not a.is_per_tensor or not b.is_per_tensor:
        shown = " times ".join(node.tensor(index).element_type for index in (0, 1))
        raise Unsupported(f"products of matrices of {shown} with their scales")
    scale = a.scale_array[0] * b.scale_array[0]
    if node.tensor(0).element_type == "int16":
        sums = centered_numbers(left, a, build) @ centered_numbers(right, b, build)
        return _scaled(node, sums, np.array(scale, np.float64), HALF, build)
    sums = as_stored(left @ right, build)
    source = QuantizedType.get(IntegerType(32), [float(scale)], [0])
    by = RequantizationAttr.get(kind, DOUBLE)
    return build.value(RequantizeOp, [as_quantized(sums, source, build)], by=by)


def _scaled(
    node: TfliteNode, sums: Expr, scales: np.ndarray, how: Requantization, build: Build
) -> Expr:
    """Sums of these scales, in a form that broadcasts, as the node's result."""
    to = node.result_kind
    if to is None or not to.is_per_tensor:
        raise Unsupported(f"sums of 64 bits as {node.result.element_type}")
    if how.scheme != "multiplier_shift":
        raise Unsupported("sums of more than 32 bits with a bias of 32")
    numbers = once_rounded(sums, scales / to.double_scales[0], how, build)
    return stored_as(kept_within(numbers, limits(to, node.activation)), to, build)
