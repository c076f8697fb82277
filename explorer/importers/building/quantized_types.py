"""Quantized types while importing: scales and zero points of a file, in the type of a value.

type_of_numbers(np.float32([0.1]), np.uint8([128]), np.uint8)     !top.quantized<ui8, 0.1:128>
as_quantized(x, kind, build)        stored integers as numbers of that type
as_stored(x, build)                 and back, for what computes with the integers
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from explorer.importers.building.build import Build
from explorer.importers.building.expr import Expr
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.data import WeightOp
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp
from explorer.ir.types import (
    QuantizedType,
    element_type_from_numpy,
    stored_type,
    tensor_type,
)


def type_of_numbers(
    scales: np.ndarray, zero_points: np.ndarray, dtype: np.dtype | type, axis: int = -1
) -> QuantizedType | None:
    """The type of integers `dtype` that stand for (integer - zero point) * scale.

    One scale of a whole tensor, or one for each slice along `axis`; zero points as many, or one.
    None where no such type can be: several axes, scales that are not positive, wide integers.
    """
    storage = element_type_from_numpy(np.dtype(dtype))
    if not isinstance(storage, IntegerType) or scales.ndim > 1:
        return None
    if zero_points.size not in (1, scales.size):
        return None
    numbers = scales.astype(np.float32).reshape(-1)
    whole = np.broadcast_to(zero_points.reshape(-1).astype(np.int64), numbers.shape)
    is_wide = storage.width.data > 16
    if not numbers.size or (is_wide and whole.any()) or storage.width.data > 32:
        return None
    if len(numbers) > 1 and axis < 0:
        return None
    try:
        return QuantizedType.get(
            storage, numbers.tolist(), whole.tolist(), -1 if len(numbers) == 1 else axis
        )
    except ValueError:  # scales that are not positive
        return None


def as_quantized(x: Expr, kind: QuantizedType, build: Build) -> Expr:
    """The value's integers as numbers of a quantized type; a constant is one from the start."""
    if x.element_type == kind:
        return x
    if isinstance(x.owner, WeightOp):
        result = tensor_type(kind, x.shape)
        return build.results(WeightOp.make([], [result], weight=x.owner.weight))[0]
    return build.value(BitcastOp, [x], to=kind)


def dequantized_blocks(
    x: Expr,
    scale: Expr,
    zero: Expr | None,
    axis: int,
    block: int,
    build: Build,
    accuracy_level: int | None = None,
) -> Expr:
    """Real numbers of integers with parameters for every `block` of them along an axis."""
    storage = x.element_type
    if not isinstance(storage, IntegerType):
        raise ValueError(f"blocks of {storage}; integers expected")
    typed = as_quantized(x, QuantizedType.in_blocks(storage, axis, block), build)
    operands = [typed, scale, zero]
    return build.value(DequantizeBlocksOp, operands, accuracy_level=accuracy_level)


def as_stored(x: Expr, build: Build) -> Expr:
    """The integers of quantized numbers; other values as they are."""
    kind = x.element_type
    return build.value(BitcastOp, [x], to=stored_type(kind)) if is_quantized(kind) else x


def is_quantized(kind: Attribute) -> bool:
    return isinstance(kind, QuantizedType)
