"""Nodes that do not fit their operator's schema, whatever a conversion would make of them.

    Relu(x1, x2, ..., x100)           ->   ValueError: 100 inputs; it takes 1
    MatMul(float32, float16)          ->   ValueError: operands 0 (float32) and 1 (float16) have ...
    Conv(tensor(bool), ...)           ->   ValueError: operand 0 has elements of type bool; ...

Of types only what no conversion could give a meaning is refused: several where there must be one,
and booleans where numbers are expected. Operators without a schema (those of onnxruntime's own
domains) are checked by their conversions alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import onnx
from xdsl.dialects.builtin import i1

from explorer.importers.building.expr import Expr
from explorer.importers.onnx.program.nodes import Node
from explorer.ir.types import stored_type

_BOOL = "tensor(bool)"
_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic


def check_node(node: Node) -> None:
    """ValueError for a node whose operands or results no operator of its schema has."""
    schema = _schema(node.operator, node.domain, node.opset)
    if schema is None:
        return
    given = [operand is not None for operand in node.operands]
    _check_count("inputs", given, schema.min_input, schema.max_input)
    named = [bool(name) for name in node.results]
    _check_count("outputs", named, schema.min_output, schema.max_output)
    types: dict[str, tuple[int, Expr]] = {}
    for index, operand in enumerate(node.operands):
        if not isinstance(operand, Expr) or not schema.inputs:
            continue
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        _check_boolean(index, operand, formal)
        if formal.option == _VARIADIC and not formal.is_homogeneous:
            continue
        first, other = types.setdefault(formal.type_str, (index, operand))
        if _type(operand) != _type(other) and not formal.type_str.startswith("tensor("):
            raise ValueError(
                f"operands {first} ({_name(other)}) and {index} ({_name(operand)}) have different "
                "element types; it takes one type for both"
            )


def _check_count(what: str, present: Sequence[bool], least: int, most: int) -> None:
    """Optional ones at the end count only where they are given."""
    count = max((i + 1 for i, is_given in enumerate(present) if is_given), default=0)
    if not least <= count <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise ValueError(f"{count} {what}; it takes {expected}")


def _check_boolean(index: int, operand: Expr, formal: Any) -> None:  # Any: onnx has no stubs
    taken = [t for t in formal.types if t.startswith("tensor(")]
    if operand.element_type == i1 and taken and _BOOL not in taken:
        names = ", ".join(sorted(t.removeprefix("tensor(").rstrip(")") for t in taken))
        raise ValueError(f"operand {index} has elements of type bool; it takes {names}")


def _type(value: Expr) -> object:
    return stored_type(value.element_type)


def _name(value: Expr) -> str:
    return value.dtype.name


@cache
def _schema(operator: str, domain: str, opset: int) -> Any:  # Any: onnx has no stubs of schemas
    """None where there is none."""
    try:
        return onnx.defs.get_schema(operator, opset, domain)
    except onnx.defs.SchemaError:
        return None
