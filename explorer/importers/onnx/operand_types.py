"""Operands of types that an operator does not take, as its schema declares them.

    Conv(tensor(bool), ...)   ->   ValueError: operand 0 has elements of type bool; Conv takes ...

Only what no conversion could give a meaning is refused: booleans where numbers are expected.
"""

from __future__ import annotations

from functools import cache

import onnx
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from explorer.importers.onnx.nodes import Node
from explorer.ir.types import element_type_of

_BOOL = "tensor(bool)"


def check_operand_types(node: Node) -> None:
    """ValueError for a boolean operand of an operator that takes none in its place."""
    for index, operand in enumerate(node.operands):
        if not isinstance(operand, SSAValue) or element_type_of(operand) != i1:
            continue
        taken = _taken(node.operator, node.domain, node.opset, index)
        if taken and _BOOL not in taken:
            names = ", ".join(sorted(t.removeprefix("tensor(").rstrip(")") for t in taken))
            raise ValueError(f"operand {index} has elements of type bool; it takes {names}")


@cache
def _taken(operator: str, domain: str, opset: int, index: int) -> frozenset[str]:
    """The types of an operand; none where the schema does not say."""
    try:
        schema = onnx.defs.get_schema(operator, opset, domain)
    except onnx.defs.SchemaError:
        return frozenset()
    if not schema.inputs:
        return frozenset()
    formal = schema.inputs[min(index, len(schema.inputs) - 1)]
    return frozenset(t for t in formal.types if t.startswith("tensor("))
