"""Quantized types while importing: what ONNX says in operands stands in the type of a value here.

    QuantizeLinear(x, scale, zero point)    a value of type !top.quantized<ui8, scale:zero point>
    Reshape, Transpose, Concat ... of it    values of the same type
    any other operator                      gets its stored integers (top.bitcast), as ONNX has it

Scales and zero points that are not constant, or belong to blocks, are left to arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from explorer.importers.onnx.build import Build
from explorer.importers.onnx.nodes import Node
from explorer.importers.onnx.structures import Imported, tensors_of
from explorer.ir.top.casting import BitcastOp
from explorer.ir.top.data import WeightOp
from explorer.ir.types import (
    QuantizedType,
    element_type_from_numpy,
    element_type_of,
    shape_of,
    stored_type,
    tensor_type,
)

MOVES = frozenset(
    ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Expand",
     "Concat", "Gather", "DepthToSpace", "SpaceToDepth", "Identity", "MaxPool")
)  # fmt: skip
"""Operators that choose and move elements: the numbers keep their meaning."""
SCALE_TYPES = ("float32", "float16", "bfloat16")


def quantized_type(
    scale: SSAValue,
    zero_point: SSAValue | None,
    dtype: np.dtype,
    build: Build,
    axis: int = -1,
    factor: float = 1.0,
) -> QuantizedType | None:
    """The type of integers `dtype` with these parameters; None where it cannot be said.

    axis: that several scales run along. factor: of all scales.
    """
    storage = element_type_from_numpy(dtype)
    scales = build.stored(scale)
    if not isinstance(storage, IntegerType) or scales is None or scales.ndim > 1:
        return None
    zeros = np.zeros(scales.shape, dtype) if zero_point is None else build.stored(zero_point)
    if zeros is None or zeros.size not in (1, scales.size) or scales.dtype.name not in SCALE_TYPES:
        return None
    numbers = scales.astype(np.float32).reshape(-1) * np.float32(factor)
    whole = np.broadcast_to(zeros.reshape(-1).astype(np.int64), numbers.shape)
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


def as_quantized(x: SSAValue, kind: QuantizedType, build: Build) -> SSAValue:
    """The value's integers as numbers of a quantized type; a constant is one from the start."""
    if element_type_of(x) == kind:
        return x
    if isinstance(x.owner, WeightOp):
        result = tensor_type(kind, shape_of(x))
        return build.append(WeightOp.make([], [result], weight=x.owner.weight)).output
    return build.value(BitcastOp, [x], to=kind)


def as_stored(x: SSAValue, build: Build) -> SSAValue:
    """The integers of quantized numbers; other values as they are."""
    kind = element_type_of(x)
    return build.value(BitcastOp, [x], to=stored_type(kind)) if is_quantized(kind) else x


def is_quantized(kind: Attribute) -> bool:
    return isinstance(kind, QuantizedType)


def with_suited_operands(node: Node, knows_quantized: bool, build: Build) -> Node:
    """The node with stored integers for quantized operands that its converter does not know."""
    present = [o for o in node.operands if o is not None]
    kinds = [element_type_of(v) for o in present for v in tensors_of(o)]
    if knows_quantized or not any(is_quantized(kind) for kind in kinds):
        return node
    if node.operator in MOVES and not node.domain and _keep(node, kinds):
        return node
    return replace(node, operands=tuple(_stored_parts(o, build) for o in node.operands))


def _keep(node: Node, kinds: Sequence[Attribute]) -> bool:
    """Does the result mean what its operands do?"""
    first = kinds[0]
    if not isinstance(first, QuantizedType) or not first.is_per_tensor:
        return False
    if node.operator == "MaxPool":
        return len(node.results) == 1
    return node.operator != "Concat" or all(kind == first for kind in kinds)


def _stored_parts(value: Imported | None, build: Build) -> Imported | None:
    """Sequences and optionals hold stored integers already: what made them knew no others."""
    return as_stored(value, build) if isinstance(value, SSAValue) else value
