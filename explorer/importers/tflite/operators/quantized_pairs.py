"""Two quantized operands whose real numbers are compared, or whose differences are squared.

    EQUAL, LESS, ...       both as whole numbers of one scale: fixed((x - zero) << 8, scale)
    SQUARED_DIFFERENCE     both at twice the larger scale, lifted by 7 bits; their distance squared

`fixed` has the two roundings of `doubling_high_multiply`. Source: tensorflow/lite/kernels,
comparisons.cc, `ComparisonQuantized`, and squared_difference.cc.
"""

from __future__ import annotations

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr
from explorer.importers.tflite.operators.integers import (
    centered_numbers,
    doubled,
    kept_within,
    multiplier_of,
    stored_as,
)
from explorer.importers.tflite.operators.node import TfliteNode, kind_of
from explorer.ir.requantization import integer_limits
from explorer.ir.types import QuantizedType

COMPARED_LIFT, SQUARED_LIFT = 8, 7


def compared(node: TfliteNode, kind: str, build: Build) -> Expr:
    operands = []
    for index, own in enumerate(_kinds(node)):
        if own.storage.width.data > 8:
            raise Unsupported("of numbers of 16 bits, which the kernels refuse, too")
        numbers = centered_numbers(node.operand(index, build), own, build)
        operands.append(_fixed(numbers, COMPARED_LIFT, float(own.scale_array[0]), build))
    return build.binary(kind, *operands)


def squared_difference(node: TfliteNode, build: Build) -> Expr:
    to, kinds = node.require_quantized(), _kinds(node)
    scales = [float(kind.scale_array[0]) for kind in kinds]
    twice = 2 * max(scales)
    a, b = (
        _fixed(
            centered_numbers(node.operand(index, build), own, build),
            SQUARED_LIFT,
            scale / twice,
            build,
        )
        for index, (own, scale) in enumerate(zip(kinds, scales, strict=True))
    )
    difference = a - b
    square = difference * difference
    ratio = twice * twice / ((1 << (2 * SQUARED_LIFT)) * float(to.scale_array[0]))
    scaled = _fixed(square, 0, ratio, build)
    moved = scaled + int(to.zero_point_array[0])
    return stored_as(kept_within(moved, integer_limits(to.storage)), to, build)


def _kinds(node: TfliteNode) -> list[QuantizedType]:
    found = [kind_of(node.tensor(index)) for index in (0, 1)]
    known = [kind for kind in found if kind is not None and kind.is_per_tensor]
    if len(known) != 2:
        raise Unsupported("of operands of which one has no scale, or one for each slice")
    return known


def _fixed(numbers: Expr, lift: int, ratio: float, build: Build) -> Expr:
    return doubled(numbers * (1 << lift), *multiplier_of(ratio), build)
