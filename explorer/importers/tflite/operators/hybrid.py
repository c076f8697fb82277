"""Floats as bytes of their own range, for products with weights of bytes.

rows_as_bytes    x f32 (N, ...)  ->  i8 with the zero point 0, and a scale f32 for each of the N
                 rows or images
rows_from_zero   the same with zero points: bytes without theirs, which take 16 bits
product_of_rows  rows times weights of floats or of bytes

Source: tensorflow/lite/kernels/conv.cc, depthwise_conv.cc, fully_connected.cc and lstm_eval.cc,
`EvalHybrid` and `EvalHybridPerChannel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType

from explorer.importers.building.build import Build, Unsupported
from explorer.importers.building.expr import Expr, where
from explorer.importers.building.quantized_types import as_quantized, as_stored
from explorer.importers.tflite.file.contents import Tensor
from explorer.importers.tflite.operators.integers import nearest_away
from explorer.importers.tflite.operators.node import TfliteNode, kind_of
from explorer.ir.top.quantization.dynamic import DynamicQuantizeOp
from explorer.ir.types import QuantizedType

MAX_ROWS = 64
"""Each is made bytes by itself."""
BYTES = QuantizedType.get(IntegerType(8), [1.0], [0])
"""Their scale is known in a run only."""
FROM_ZERO = QuantizedType.get(IntegerType(16), [1.0], [0])
"""Bytes without their zero points, which differ between rows: -255 to 255."""
MIN_INT8, MAX_INT8 = -128.0, 127.0
Product = Callable[[Expr, Expr | None], Expr]
"""Rows times weights, and a bias."""


def rows_as_bytes(x: Expr, build: Build) -> tuple[Expr, Expr]:
    """The bytes, and their scales, which broadcast to x."""
    (rows,) = x.sizes([0], "a hybrid product")
    if not 0 < rows <= MAX_ROWS:
        raise Unsupported(f"a hybrid product of {rows} rows or images, each with its own scale")
    parts = [x.slice(0, row, row + 1) if rows > 1 else x for row in range(rows)]
    made = [build.values(DynamicQuantizeOp, [part], symmetric=True) for part in parts]
    ones = [1] * x.rank
    scales = [scale.reshape(ones) if rows > 1 else scale for _, scale, _ in made]
    stored = build.concat([part for part, _, _ in made], 0)
    return as_quantized(stored, BYTES, build), build.concat(scales, 0)


def rows_from_zero(x: Expr, build: Build) -> tuple[Expr, Expr]:
    """byte - zero point of numbers by the range of their row, and the scales, which broadcast to x.

    The zero point is that end of the bytes' range, less the end of the row's, which errs less.
    Source: tensorflow/lite/kernels/internal/reference/portable_tensor_utils.cc,
    `PortableAsymmetricQuantizeFloats`: scale and zero point are found in double, but LiteRT 2.3.0
    takes the difference of the ends in single.
    """
    axes = range(1, x.rank)
    ends = [
        found.binary(kind, 0)
        for kind in ("min", "max")
        for found in [x.reduce(kind, axes, keepdims=True)]
    ]
    span = (ends[1] - ends[0]).astype(np.float64)
    low, high = (end.astype(np.float64) for end in ends)
    steps = span / (MAX_INT8 - MIN_INT8)
    is_zero = span == 0
    scale = where(is_zero, 1, steps)
    zero = _zero_point(low, high, scale).astype(np.float32)
    single = scale.astype(np.float32)
    inverse = 1 / single
    moved = zero + x * inverse
    stored = nearest_away(moved).clip(MIN_INT8, MAX_INT8)
    return as_quantized((stored - zero).astype(np.int16), FROM_ZERO, build), single


def _zero_point(low: Expr, high: Expr, scale: Expr) -> Expr:
    (below, least), (above, most) = (
        (end / scale, end.constant(byte)) for end, byte in ((low, MIN_INT8), (high, MAX_INT8))
    )
    error_below, error_above = (
        abs(byte) + abs(steps) for byte, steps in ((least, below), (most, above))
    )
    zero = where(error_below < error_above, least - below, most - above)
    return nearest_away(zero).clip(MIN_INT8, MAX_INT8)


def product_of_rows(node: TfliteNode, indices: Sequence[int], build: Build) -> Product:
    """Rows (N, I) times the weights of these operands, (O, I) each, side by side: (N, O ...)."""
    tensors = [node.tensor(index) for index in indices]
    parts = [build.known(node.plain(index), "weights") for index in indices]
    joined, name = np.ascontiguousarray(np.concatenate(parts).T), f"{tensors[0].name}.gates"
    if all(tensor.element_type == "float32" for tensor in tensors):
        weight = build.weight(joined, name)
        return lambda rows, bias: build.matmul(rows, weight, bias)
    scales = [scale_of_bytes(tensor) for tensor in tensors]
    columns = np.repeat(np.array(scales, np.float32), [len(part) for part in parts])
    weight, factors = build.weight(joined, name, BYTES), build.weight(columns)

    has_zeros = bool(node.integer("asymmetric_quantize_inputs"))

    def hybrid(rows: Expr, bias: Expr | None) -> Expr:
        stored, scale = (rows_from_zero if has_zeros else rows_as_bytes)(rows, build)
        sums = as_stored(stored @ weight, build).astype(np.float32)
        made = sums * (scale * factors)
        return made if bias is None else made + bias

    return hybrid


def as_floats(node: TfliteNode, index: int, build: Build) -> Expr:
    """Weights of floats, or of bytes as the floats that they stand for."""
    tensor = node.tensor(index)
    if tensor.element_type == "float32":
        return node.plain(index)
    numbers = build.known(node.plain(index), "weights").astype(np.float32)
    return build.weight(numbers * np.float32(scale_of_bytes(tensor)))


def scale_of_bytes(weight: Tensor) -> float:
    """The one scale of weights; Unsupported where they have several, or zero points."""
    scales = scales_of_bytes(weight)
    if len(scales) > 1:
        raise Unsupported("a hybrid product with a scale for each filter")
    return float(scales[0])


def scales_of_bytes(weight: Tensor) -> np.ndarray:
    """The scale of weights, or those of all filters; Unsupported where they have zero points."""
    kind = kind_of(weight)
    if kind is None or kind.storage != BYTES.storage or kind.zero_point_array.any():
        raise Unsupported("a hybrid product of weights with zero points")
    return kind.scale_array
