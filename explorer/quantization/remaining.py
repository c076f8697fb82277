"""What is still computed in floats once tensors are quantized, and why.

for op in float_operations(c["quantize-tensors"].after): ...
    FloatOperation("softmax1", "top.softmax", "no form in integers")
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import SSAValue

from explorer.ir.constants import is_constant
from explorer.ir.evaluation import entry_function
from explorer.ir.interfaces import Moving, Quantizable
from explorer.ir.operation import TopOperation, identity_of
from explorer.ir.program import Snapshot
from explorer.ir.top.data import WeightOp
from explorer.ir.top.linear.matmul import MatMulOp
from explorer.ir.top.quantization.blocks import DequantizeBlocksOp
from explorer.ir.top.quantization.quantized import DequantizeOp, QuantizeOp
from explorer.ir.types import element_type_of, shape_of
from explorer.quantization.choosing import has_integer_form, moved_from


@dataclass(frozen=True)
class FloatOperation:
    """An operation that stays float, by its name and that of its kind."""

    name: str
    kind: str
    reason: str


def float_operations(snapshot: Snapshot) -> list[FloatOperation]:
    """In program order, of the program with pairs of quantize and dequantize.

    What only moves numbers, and what clamps sums before they are quantized, stays nothing.
    """
    function = entry_function(snapshot.program)
    assert isinstance(function, func.FuncOp)
    found = []
    for op in function.body.block.ops:
        if isinstance(op, TopOperation) and _computes_floats(op):
            reason = _reason(op)
            if reason:
                found.append(FloatOperation(identity_of(op), op.name, reason))
    return found


def narrow_weights(snapshot: Snapshot) -> int:
    """Products whose weights are narrow, of a program in which weights alone were quantized."""
    return sum(isinstance(op, DequantizeBlocksOp) for op in snapshot.walked)


def float_weights(snapshot: Snapshot) -> list[FloatOperation]:
    """In program order, products and convolutions whose constant weights stayed float."""
    found = []
    for op in snapshot.walked:
        place = op.quantized_weight() if isinstance(op, Quantizable) else None
        if place is None or not is_constant(op.operands[place[0]]):
            continue
        is_matrix = isinstance(op, MatMulOp) and len(shape_of(op.right)) == 2
        reason = "as decided" if is_matrix else "its weights are no matrix of a product"
        found.append(FloatOperation(identity_of(op), op.name, reason))
    return found


def _computes_floats(op: TopOperation) -> bool:
    if isinstance(op, WeightOp | QuantizeOp | DequantizeOp):
        return False
    if isinstance(op, Moving) and op.keeps_numbers:
        return False
    return any(_is_float(result) for result in op.results)


def _reason(op: TopOperation) -> str:
    """Empty where it will be computed in integers."""
    if not has_integer_form(op):
        return "no form in integers"
    if isinstance(op, Quantizable) and op.clamps:
        return ""
    for operand in op.operands:
        if _is_float(operand) and not is_constant(operand) and not _is_dequantized(operand):
            return "an operand is not quantized"
    return ""


def _is_dequantized(value: SSAValue) -> bool:
    return isinstance(moved_from(value).owner, DequantizeOp)


def _is_float(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and isinstance(element_type_of(value), AnyFloat)
