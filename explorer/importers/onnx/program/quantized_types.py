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
from xdsl.ir import Attribute

from explorer.importers.building.expr import Expr
from explorer.importers.building.quantized_types import as_stored, is_quantized, type_of_numbers
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node
from explorer.importers.onnx.program.structures import Imported, tensors_of
from explorer.ir.types import QuantizedType

MOVES = frozenset(
    ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Expand",
     "Concat", "Gather", "DepthToSpace", "SpaceToDepth", "Identity", "MaxPool")
)  # fmt: skip
"""Operators that choose and move elements: the numbers keep their meaning."""
SCALE_TYPES = ("float32", "float16", "bfloat16")


def quantized_type(
    scale: Expr,
    zero_point: Expr | None,
    dtype: np.dtype,
    build: Build,
    axis: int = -1,
    factor: float = 1.0,
) -> QuantizedType | None:
    """The type of integers `dtype` with these parameters; None where it cannot be said.

    axis: that several scales run along. factor: of all scales.
    """
    scales = build.stored(scale)
    if scales is None or scales.dtype.name not in SCALE_TYPES:
        return None
    zeros = np.zeros(scales.shape, dtype) if zero_point is None else build.stored(zero_point)
    if zeros is None:
        return None
    numbers = scales.astype(np.float32) * np.float32(factor)
    return type_of_numbers(numbers, zeros, dtype, axis)


def with_suited_operands(node: Node, knows_quantized: bool, build: Build) -> Node:
    """The node with stored integers for quantized operands that its converter does not know."""
    present = [o for o in node.operands if o is not None]
    kinds = [v.element_type for o in present for v in tensors_of(o)]
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
    return as_stored(value, build) if isinstance(value, Expr) else value
