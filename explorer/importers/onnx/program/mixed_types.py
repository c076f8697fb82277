"""Operators whose function body takes one type although their schema takes several.

    RMSNormalization(x: f32, scale: f16)  ->  cast(RMSNormalization(x, cast(scale, f32)), f16)
    CenterCropPad(x, shape: i32)          ->  CenterCropPad(x, cast(shape, i64))

ONNX's bodies of these operators combine operands of two types, which no ONNX operator does. Floats
are computed in the narrowest of f32 and f64 that holds every operand, and each result has the type
that the schema gives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from explorer.importers.building.expr import Expr
from explorer.importers.onnx.program.build import Build
from explorer.importers.onnx.program.nodes import Node
from explorer.importers.onnx.program.structures import Imported
from explorer.ir.types import is_float_dtype

LOSSES = frozenset(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"))
"""Sums of weights leave the range of half precision soon: these are computed in f32."""
OPERATORS = frozenset(("Attention", "RMSNormalization", *LOSSES))
"""These combine floats of several types."""
SIZES = {"CenterCropPad": 1}
"""Operands that are sizes; the bodies compare them with those of `Shape`."""


def with_one_type(node: Node, build: Build) -> Node:
    """The node with operands in the types that its body takes; itself where it needs no cast."""
    if node.domain:
        return node
    if node.operator in SIZES:
        operands = list(node.operands)
        operands[SIZES[node.operator]] = node.operand(SIZES[node.operator]).astype(np.int64)
        return replace(node, operands=tuple(operands))
    if node.operator not in OPERATORS:
        return node
    if node.operator == "Attention":
        node = _with_float_mask(node)
    values = [operand for operand in node.operands if isinstance(operand, Expr)]
    floats = [value for value in values if is_float_dtype(value.dtype)]
    if node.operator in LOSSES:
        wide = iter([value.wide() for value in floats])
    else:
        wide = iter(build.of_one_float(floats) if floats else [])
    operands = (
        next(wide) if isinstance(o, Expr) and is_float_dtype(o.dtype) else o for o in node.operands
    )
    return replace(node, operands=tuple(operands))


def _with_float_mask(node: Node) -> Node:
    """Whole numbers of a mask are added to the scores, in f32 at least; the body would pad them
    with -infinity."""
    mask = node.optional(3)
    if mask is None or mask.dtype.kind not in "iu":
        return node
    operands = list(node.operands)
    operands[3] = mask.astype(node.operand(0).wide().dtype)
    return replace(node, operands=tuple(operands))


def as_declared(node: Node, results: Sequence[Imported | None]) -> list[Imported | None]:
    """The results in the types that the schema derives from those of `node`'s operands."""
    if node.operator not in OPERATORS or node.domain:
        return list(results)
    # Any: onnx has no stubs of schemas
    schema: Any = onnx.defs.get_schema(node.operator, node.opset, node.domain)
    types: dict[str, np.dtype] = {}
    for operand, formal in zip(node.operands, schema.inputs, strict=False):
        if isinstance(operand, Expr):
            types.setdefault(formal.type_str, operand.dtype)
    return [
        result.astype(types[formal.type_str]) if isinstance(result, Expr) else result
        for result, formal in zip(results, schema.outputs, strict=False)
    ]
